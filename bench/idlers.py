"""Idle clients, each of which holds a lock and does nothing with it.

Run as ``python -m bench.idlers URL COUNT``; each line on standard input is answered with the CPU seconds
of this process so far, as JSON. URL ``kazoo://...``: clients of kazoo alone. ``floor-etcd://...`` and so
on: what this package sends for a renewal, as often, by raw sockets, all clients one after another.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from kazoo.client import KazooClient

import recipes
from bench import floor_etcd, floor_grpc, floor_zookeeper

__all__ = ["main"]

SESSION_S = 15
Renew = Callable[[], object]


def main() -> None:
    """Hold, and answer until standard input ends."""
    url, count = sys.argv[1], int(sys.argv[2])
    with contextlib.ExitStack() as held:
        if url.startswith("floor-"):
            renew, times = FLOORS[urlsplit(url).scheme]
            renewals = [renew(urlsplit(url).netloc, number) for number in range(count)]
            threading.Thread(target=_renew, args=(renewals, SESSION_S / times), daemon=True).start()
        else:
            hold = _hold_by_kazoo if url.startswith("kazoo:") else _hold
            for number in range(count):
                hold(url, number, held)
        for _ in sys.stdin:
            print(json.dumps(time.process_time()), flush=True)


def _hold(url: str, number: int, held: contextlib.ExitStack) -> None:
    client = held.enter_context(recipes.connect(url))
    held.enter_context(client.lock(f"idle-{number}"))


def _hold_by_kazoo(url: str, number: int, held: contextlib.ExitStack) -> None:
    kazoo = KazooClient(urlsplit(url).netloc, timeout=SESSION_S)
    kazoo.start()
    held.callback(kazoo.stop)
    held.enter_context(kazoo.Lock(f"/idle-{number}"))


def _renew(renewals: list[Renew], every_s: float) -> None:
    while True:
        for renew in renewals:
            renew()
        time.sleep(every_s)


def _on_etcd(wire: floor_etcd.Wire, number: int) -> Renew:
    """Return what keeps a lease alive, and then compares two keys."""
    (lease,) = wire.ask(("/lease/grant", {"TTL": wire.number(SESSION_S)}))
    kept = {"ID": wire.number(int(lease["ID"]))}
    keys = [wire.key(f"idle/{kind}-{number}") for kind in ("anchor", "held")]
    puts = [{"request_put": {"key": key, "value": wire.key(""), "lease": kept["ID"]}} for key in keys]
    wire.ask(("/kv/txn", {"success": puts}))
    there = {"target": "CREATE", "result": "GREATER", "create_revision": wire.number(0)}
    compared = {
        "compare": [{"key": key, **there} for key in keys],
        "failure": [{"request_range": {"key": key}} for key in keys],
    }

    def renew() -> None:
        wire.ask(("/lease/keepalive", kept))
        (reply,) = wire.ask(("/kv/txn", compared))
        assert reply.get("succeeded"), "the keys should be there"

    return renew


def _on_zookeeper(address: str, number: int) -> Renew:
    """Return what has the leader answer, and then looks for a node."""
    wire = floor_zookeeper.Wire(address)
    node = wire.ephemeral(f"/idle-{number}")
    return lambda: wire.ask_for(node)


FLOORS: dict[str, tuple[Callable[[str, int], Renew], int]] = {
    "floor-etcd": (lambda address, number: _on_etcd(floor_etcd.JsonWire(address), number), 3),
    "floor-grpc": (lambda address, number: _on_etcd(floor_grpc.GrpcWire(address), number), 3),
    "floor-zookeeper": (_on_zookeeper, 7),
}
"""What renews a client, and how often in a session."""


if __name__ == "__main__":
    main()
