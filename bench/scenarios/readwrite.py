"""Readers and a writer on one read-write lock."""

from __future__ import annotations

import statistics

from bench.figures import operations
from bench.scenarios.turns import in_turn
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

__all__ = ["readwrite"]

SIDES = ["writer", *["reader"] * 8]
FOR_S = 2.0
KINDS = (
    "recipes-zookeeper",
    "recipes-zookeeper-asyncio",
    "kazoo",
    "curator",
    "recipes-etcd",
    "recipes-etcd-asyncio",
)
HOLDS_S = (0.0, 0.005)


def readwrite(stage: Stage, plan: Plan) -> list[Table]:
    """Measure how many acquires and releases a second nine processes get done."""
    return [_measured(stage, plan, hold_s) for hold_s in HOLDS_S]


def _measured(stage: Stage, plan: Plan, hold_s: float) -> Table:
    crews = stage.crews(*KINDS)
    sides = SIDES[: plan.processes(len(SIDES))]
    for crew in crews:
        crew.muster(len(sides))
    turns = in_turn(
        crews, plan.rounds, lambda crew: crew.contend(len(sides), plan.seconds(FOR_S), hold_s, sides)
    )
    words = f"each holds {hold_s * 1000:g} ms" if hold_s else "each holds for no time"
    table = Table(
        f"readwrite-{hold_s * 1000:g}",
        f"8 readers and 1 writer in processes, {words}, all come again at once",
    )
    for crew in crews:
        found = turns[crew.kind.name]
        for turn in found:
            _check(turn)
        table.add(
            crew.kind.name,
            **{
                "operations/s": round(statistics.fmean(map(operations, found))),
                "of the writer": round(
                    statistics.fmean(len(turn.spans[0]) / _length(turn) for turn in found)
                ),
            },
        )
    return table


def _length(turn: Turn) -> float:
    return (turn.end - turn.start) / 1e9


def _check(turn: Turn) -> None:
    """AssertionError if a reader held beside the writer."""
    writing, *reading = turn.spans
    edges = sorted(
        [(got, 1, gone) for got, gone in writing] + [(g, 0, e) for spans in reading for g, e in spans]
    )
    until_any = until_writer = 0
    for got, writes, gone in edges:
        assert got >= (until_any if writes else until_writer), "the writer did not hold alone"
        until_any = max(until_any, gone)
        until_writer = max(until_writer, gone) if writes else until_writer
