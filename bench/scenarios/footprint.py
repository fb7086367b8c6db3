"""What 1 000 waiters of one client take: memory, threads, connections."""

from __future__ import annotations

import time

from kazoo.client import KazooClient

from bench.crowd import Many, holding
from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["footprint"]

WAITERS = 1000
AT_ONCE = 25
SETTLE_S = 3.5  # what a burst of calls leaves behind is closed after a second


def footprint(stage: Stage, plan: Plan) -> list[Table]:
    """Measure one process with all waiters in it, before and after they came."""
    count = plan.count(WAITERS)
    table = Table("footprint", f"What {count:,} waiters of one client take")
    for store in ("zookeeper", "etcd"):
        for api in ("asyncio", "threads"):
            for apart in (False, True):
                label = f"{store}, {api}, {'each for a lock of its own' if apart else 'all for one lock'}"
                table.add(
                    f"{store}-{api}-{'apart' if apart else 'one'}",
                    label=label,
                    **_ours(stage, store, api, count, apart=apart),
                )
    table.add(
        "kazoo-one", label="zookeeper, kazoo `Lock`, a thread each, all for one lock", **_kazoo(stage, count)
    )
    table.notes.append(
        "What the process grew by (RSS), Python's own objects of a task or thread included, after they came "
        "25 at a time and 3.5 s went by. Live: what Python's objects take of it (tracemalloc, another run)."
    )
    return [table]


def _ours(stage: Stage, store: str, api: str, count: int, *, apart: bool) -> dict[str, float | None]:
    url = stage.server(store).url("bench")
    name = f"footprint-{store}-{api}-{apart}"
    names = [f"{name}-{number}" for number in range(count)] if apart else [name]
    with holding(url, *names):
        found = _grown(Many(api, url), name, count, apart=apart)
        if api == "asyncio":
            traced = Many(api, url)
            traced.tell("trace")
            found["live KiB a waiter"] = _grown(traced, name, count, apart=apart)["live KiB a waiter"]
    return found


def _kazoo(stage: Stage, count: int) -> dict[str, float | None]:
    address = stage.server("zookeeper").address
    client = KazooClient(address)
    client.start()
    try:
        with client.Lock("/bench/footprint-kazoo"):
            return _grown(Many("kazoo", address), "footprint-kazoo", count, apart=False)
    finally:
        client.stop()
        client.close()


def _grown(many: Many, name: str, count: int, *, apart: bool) -> dict[str, float | None]:
    try:
        before = many.size()
        many.tell("join", name, count, int(apart), AT_ONCE)
        assert many.answer() == "joined"
        if count >= WAITERS:
            time.sleep(SETTLE_S)
        after = many.size()
    finally:
        many.close()
    return {
        "KiB a waiter": round((after["kib"] - before["kib"]) / count, 1),
        "live KiB a waiter": round((after["live_kib"] - before["live_kib"]) / count, 1) or None,
        "threads": after["threads"],
        "threads before": before["threads"],
        "connections": after["connections"],
    }
