"""What lies in a store for one lock: from the layouts themselves."""

from __future__ import annotations

from docs.generate.tables import table
from recipes._contract.names import encode
from recipes._contract.operations import Ticket
from recipes.stores.etcd.layout import Layout as Keys
from recipes.stores.zookeeper.layout import Layout as Nodes

__all__ = ["keys"]

ROOT = "app"
NAMES = ("reports/nightly", "a b", "prix-\N{EURO SIGN}", "v1.2", "..")
LEASE = "694d7f5c1a2b3c04"
ID = "0b8f6c1e-4a57-4f0e-9f5d-2d8f3a6c7e11"
COUNTED = "0000000007"
KINDS = {"lock": "`lock`, `rlock`", "W": "`rwlock(...).writer`", "R": "`rwlock(...).reader`"}


def keys() -> str:
    """Return the tables: of names, of ZooKeeper's nodes and of etcd's keys."""
    nodes, here, queue = Nodes(ROOT), Keys(ROOT), encode(NAMES[0])
    tickets = {who: Ticket(queue, kind, ID) for kind, who in KINDS.items()}
    zookeeper = [
        (f"a contender of {who}", _code(nodes.contender(ticket) + COUNTED)) for who, ticket in tickets.items()
    ]
    etcd = [
        (f"a contender of {who}", _code(here.contender(ticket, LEASE).decode()))
        for who, ticket in tickets.items()
    ]
    marks = [
        ("a session, as long as it lives", _code(here.anchor(LEASE).decode())),
        ("a call that was given up and may still arrive", _code(here.tombstone(ID, LEASE).decode())),
    ]
    parts = [
        table(("a lock's name", "in the store"), [(_code(name), _code(encode(name))) for name in NAMES]),
        "## ZooKeeper\n\nWith `zookeeper://zk1:2181/app` and a lock `reports/nightly`:",
        table(("what", "node"), [("the lock", _code(nodes.queue(queue))), *zookeeper]),
        "## etcd\n\nWith `etcd://etcd1:2379/app` and a lock `reports/nightly`:",
        table(("what", "key"), [("the lock: a prefix", _code(here.queue(queue).decode())), *etcd, *marks]),
    ]
    return "\n\n".join(parts)


def _code(text: str) -> str:
    return f"`{text}`"
