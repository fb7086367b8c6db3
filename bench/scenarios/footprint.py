"""What 1 000 waiters of one client take: memory, threads, connections."""

from __future__ import annotations

from kazoo.client import KazooClient

from bench.crowd import Many, holding
from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["footprint"]

WAITERS = 1000


def footprint(stage: Stage, plan: Plan) -> list[Table]:
    """Measure one process with all waiters in it, before and after they came."""
    count = plan.count(WAITERS)
    table = Table("footprint", f"What {count:,} waiters of one client take")
    for store in ("zookeeper", "etcd"):
        for face in ("asyncio", "threads"):
            for apart in (False, True):
                label = f"{store}, {face}, {'each for a lock of its own' if apart else 'all for one lock'}"
                table.add(
                    f"{store}-{face}-{'apart' if apart else 'one'}",
                    label=label,
                    **_ours(stage, store, face, count, apart=apart),
                )
    table.add(
        "kazoo-one", label="zookeeper, kazoo `Lock`, a thread each, all for one lock", **_kazoo(stage, count)
    )
    table.notes.append(
        "Memory is what the process grew by (RSS), all of Python's own objects for a task or thread included."
    )
    return [table]


def _ours(stage: Stage, store: str, face: str, count: int, *, apart: bool) -> dict[str, float]:
    url = stage.server(store).url("bench")
    name = f"footprint-{store}-{face}-{apart}"
    names = [f"{name}-{number}" for number in range(count)] if apart else [name]
    with holding(url, *names):
        return _grown(Many(face, url), name, count, apart=apart)


def _kazoo(stage: Stage, count: int) -> dict[str, float]:
    address = stage.server("zookeeper").address
    client = KazooClient(address)
    client.start()
    try:
        with client.Lock("/bench/footprint-kazoo"):
            return _grown(Many("kazoo", address), "footprint-kazoo", count, apart=False)
    finally:
        client.stop()
        client.close()


def _grown(many: Many, name: str, count: int, *, apart: bool) -> dict[str, float]:
    try:
        before = many.size()
        many.tell("join", name, count, int(apart))
        assert many.answer() == "joined"
        after = many.size()
    finally:
        many.close()
    grown = (after["kib"] - before["kib"]) / count
    return {
        "KiB a waiter": round(grown, 1),
        "threads": after["threads"],
        "threads before": before["threads"],
        "connections": after["connections"],
    }
