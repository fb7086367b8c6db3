"""Hand-over in a long queue: four processes with many waiters each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bench.crowd import together
from bench.figures import handed, summary
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

__all__ = ["measured", "waiters"]

PROCESSES = 4
HOLD_S, FOR_S = 0.01, 2.0
STORES = ("zookeeper", "etcd")
APIS = ("threads", "asyncio")


def waiters(stage: Stage, plan: Plan) -> list[Table]:
    """Measure 10, 100 and 1 000 waiters (10 000 in the long form); all come again at once."""
    sizes = [10, 100, 1000] if plan.scale >= 1 else [plan.count(1000)]
    return [measured(stage, plan, "waiters", STORES, sizes, long=plan.long)]


def measured(
    stage: Stage,
    plan: Plan,
    table_name: str,
    stores: Sequence[str],
    sizes: list[int],
    apis: Sequence[str] = APIS,
    *,
    long: bool = False,
) -> Table:
    """Return a table with a line for each store, runtime and number of waiters; ``long``: and 10 000."""
    turns: dict[tuple[str, str, int], list[Turn]] = {}
    names = itertools.count()
    for _ in range(max(1, plan.rounds // 2)):
        for size in sizes:
            for store, api in itertools.product(stores, apis):
                turn = _turn(stage, plan, store, api, size, f"{table_name}-{next(names)}")
                turns.setdefault((store, api, size), []).append(turn)
    if long:
        for store in stores:
            turns[store, "asyncio", 10_000] = [_turn(stage, plan, store, "asyncio", 10_000, f"long-{store}")]
    table = Table(
        table_name, f"Hand-over between {PROCESSES} processes with many waiters each, holding 10 ms"
    )
    for (store, api, size), found in turns.items():
        sample = summary(one for turn in found for one in handed(turn))
        table.add(f"{store}-{api}-{size}", sample, label=f"{store}, {api}: {size:,} waiters")
    table.rows.sort(key=lambda row: row.label.partition(":")[0])
    table.notes.append(
        "Measured is what passed from one process to another. Threads: the blocking face, a thread a waiter."
    )
    return table


def _turn(stage: Stage, plan: Plan, store: str, api: str, size: int, name: str) -> Turn:
    count = plan.processes(PROCESSES)
    sizes = [size // count + (number < size % count) for number in range(count)]
    url = stage.server(store).url("bench")
    return together(api, url, name, sizes, max(plan.seconds(FOR_S), 0.5), HOLD_S)
