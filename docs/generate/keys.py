"""What lies in a store for one lock, and for one value: from the layouts themselves."""

from __future__ import annotations

from docs.generate.tables import table
from recipes._contract.names import encode, queue_of
from recipes._contract.operations import Ticket
from recipes.stores.etcd.layout import Layout as Keys
from recipes.stores.redis.keys import Keys as RedisKeys
from recipes.stores.zookeeper.layout import NO_LOCK
from recipes.stores.zookeeper.layout import Layout as Nodes

__all__ = ["keys"]

ROOT = "app"
NAMES = ("reports/nightly", "a b", "prix-\N{EURO SIGN}", "v1.2", "..")
LEASE = "694d7f5c1a2b3c04"
SESSION = "1000a5c3f6d0001"
VALUE = "limits"
ID = "0b8f6c1e-4a57-4f0e-9f5d-2d8f3a6c7e11"
COUNTED = "0000000007"
REDIS_SESSION = "9f2c4e7a61d80b35"
KINDS = {"lock": "`lock`, `rlock`", "W": "`rwlock(...).writer`", "R": "`rwlock(...).reader`"}


def keys() -> str:
    """Return the tables: of names, of ZooKeeper's nodes, and of the keys of etcd and Redis."""
    nodes, here, queue, value = Nodes(ROOT), Keys(ROOT), encode(NAMES[0]), queue_of("value", VALUE)
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
        (f"a value `{VALUE}`", _code(here.value(value).decode())),
        ("a receipt of it, as long as its session lives", _code(here.receipt(value, LEASE).decode())),
    ]
    zookeeper += [
        (f"a value `{VALUE}`", _code(nodes.queue(value))),
        ("a receipt of it, as long as its session lives", _code(f"{nodes.queue(value)}/{NO_LOCK}{SESSION}")),
    ]
    parts = [
        table(("a lock's name", "in the store"), [(_code(name), _code(encode(name))) for name in NAMES]),
        "### ZooKeeper\n\nWith `zookeeper://zk1:2181/app`, a lock `reports/nightly` and a value `limits`:",
        table(("what", "node"), [("the lock", _code(nodes.queue(queue))), *zookeeper]),
        "### etcd\n\nWith `etcd://etcd1:2379/app`, a lock `reports/nightly` and a value `limits`:",
        table(("what", "key"), [("the lock: a prefix", _code(here.queue(queue).decode())), *etcd, *marks]),
        "### Redis\n\nWith `redis://redis1`, a lock `reports/nightly` and a value `limits`:",
        table(("what", "key"), _redis(RedisKeys("lock:"), queue, value)),
    ]
    return "\n\n".join(parts)


def _redis(here: RedisKeys, queue: str, value: str) -> list[tuple[str, str]]:
    base, tokens, exclusive, known, watched = here.of(queue)
    rows = [
        ("the lock: which contender holds it", base),
        ("its contenders, in order", tokens),
        ("those of them that are no readers", exclusive),
        ("a record of each", known),
        ("which sessions are notified of what", watched),
        ("what was withdrawn or evicted, and may still arrive", here.beside(queue, f"x:{ID}")),
        (f"a value `{VALUE}`", here.beside(value, "value")),
        ("a receipt of it", here.beside(value, f"receipt:{REDIS_SESSION}")),
        ("a session, as long as it lives", here.session(REDIS_SESSION)),
        ("its channel", here.bell + REDIS_SESSION),
        ("what all clients have as `restart_grace`", here.grace),
        ("those of `redlock://`", here.redlock_grace),
    ]
    return [(what, _code(key)) for what, key in rows]


def _code(text: str) -> str:
    return f"`{text}`"
