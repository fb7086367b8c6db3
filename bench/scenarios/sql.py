"""Locks in databases on a disk, beside those of the databases: alone, handed over, in a crowd."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator

from bench.figures import summary
from bench.scenarios.alone import WORDS
from bench.scenarios.alone import measured as alone
from bench.scenarios.handover import measured as handover
from bench.scenarios.waiters import measured as waiters
from bench.stage import DATABASES, Stage
from bench.tables import Plan, Table
from integration import servers

__all__ = ["sql"]

OURS = [f"recipes-{store}{api}" for store in DATABASES for api in ("", "-asyncio")]
LOCKS = [*OURS, "pg-advisory", "get-lock"]
CYCLES, TRIPS, SYNCS = 50, 200, 100
BLOCK = bytes(8192)


def sql(stage: Stage, plan: Plan) -> Iterator[Table]:
    """Measure what the store promises, and what the disk and the way to the server take of it."""
    crews = stage.crews(*LOCKS, "floor-postgres")
    for crew in crews:
        crew.muster(1)
    table = alone(plan, crews, Table("sql-alone", f"SQL: {WORDS}"), CYCLES)
    if any(crew.kind.store == "postgres" for crew in crews):
        table.add("trip", summary(_trips(stage, plan.count(TRIPS))), label="postgres: `SELECT 1`")
    table.add("disk", summary(_syncs(stage, plan.count(SYNCS))), label="disk: fdatasync of 8 KiB")
    table.notes.append("Of ours and of the functions, acquire and release are synced to the disk, once each.")
    yield table
    yield handover(stage, plan, "sql-handover-2", 2, 0.02, 1.5, LOCKS)
    yield handover(stage, plan, "sql-handover-8", 8, 0.01, 1.5, LOCKS)
    stage.dismiss()
    stores = list(dict.fromkeys(crew.kind.store for crew in crews))
    sizes = [2, 1000] if plan.scale >= 1 else [2, plan.count(1000)]
    yield waiters(stage, plan, "sql-waiters", stores, sizes, ["asyncio"])


def _trips(stage: Stage, count: int) -> list[int]:
    server = stage.server("postgres")
    assert isinstance(server, servers.Postgres)
    with server.connect() as connection:
        return _timed(lambda: connection.execute("SELECT 1"), count)


def _syncs(stage: Stage, count: int) -> list[int]:
    with tempfile.TemporaryFile(dir=stage.disk) as file:

        def write() -> None:
            os.pwrite(file.fileno(), BLOCK, 0)
            os.fdatasync(file.fileno())

        return _timed(write, count)


def _timed(do: Callable[[], object], count: int) -> list[int]:
    took = []
    for _ in range(count):
        began = time.monotonic_ns()
        do()
        took.append(time.monotonic_ns() - began)
    return took
