"""Eight processes that add to one counter, as fast as they can."""

from __future__ import annotations

import statistics
from collections import defaultdict

from bench.figures import operations
from bench.scenarios.handover import cpu
from bench.stage import Crew, Stage, Turn
from bench.tables import Plan, Table

__all__ = ["counting"]

PROCESSES = 8
FOR_S, WARM_S = 2.0, 0.5
COUNTERS = (
    ("recipes-zookeeper", "counter", "recipes"),
    ("recipes-zookeeper-asyncio", "counter", "recipes, asyncio"),
    ("kazoo", "counter", "kazoo `Counter`"),
    ("kazoo", "eager", "kazoo `Counter`, told to try again after 1 ms"),
    ("curator", "counter", "Curator `DistributedAtomicLong`, told to try again at once"),
    ("recipes-etcd", "counter", "recipes"),
    ("recipes-etcd-asyncio", "counter", "recipes, asyncio"),
)


def counting(stage: Stage, plan: Plan) -> list[Table]:
    """Measure how many additions a second are done."""
    count = plan.processes(PROCESSES)
    entries = [(crew, side, label) for kind, side, label in COUNTERS for crew in stage.crews(kind)]

    def turn(crew: Crew, side: str, for_s: float) -> Turn:
        return crew.contend(count, plan.seconds(for_s), 0.0, [side] * count)

    for crew, side, _ in entries:
        turn(crew, side, WARM_S)  # Java's compiler is ready then
    found: dict[str, list[Turn]] = defaultdict(list)
    for number in range(plan.rounds):
        first = number % max(len(entries), 1)
        for crew, side, _ in (*entries[first:], *entries[:first]):
            found[crew.kind.name + side].append(turn(crew, side, FOR_S))
    table = Table("counting", f"{PROCESSES} processes add one to one counter, again and again")
    for crew, side, label in entries:
        turns = found[crew.kind.name + side]
        rates = [operations(one) for one in turns]
        figures = {"adds/s": statistics.fmean(rates), "least": min(rates), "most": max(rates)}
        table.add(
            crew.kind.name if side == "counter" else f"{crew.kind.name}-{side}",
            label=f"{crew.kind.store}: {label}",
            **{name: round(rate) for name, rate in figures.items()},
            **cpu(turns),
        )
    return [table]
