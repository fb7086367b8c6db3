"""Contenders that hold for no time and come again at once."""

from __future__ import annotations

import statistics

from bench.figures import handovers, settled, spacing
from bench.kinds import KINDS
from bench.scenarios.handover import POLLING, cpu
from bench.scenarios.turns import in_turn
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

__all__ = ["churn"]

CONTENDERS = 10
FOR_S = 1.5
CHURNING = [
    kind.name
    for kind in KINDS.values()
    if kind.waits and kind.name not in ("recipes-memory", "tooz", "aetcd", *POLLING)
]


def churn(stage: Stage, plan: Plan) -> list[Table]:
    """Measure the mean time from grant to grant."""
    crews, few = stage.crews(*CHURNING), plan.processes(CONTENDERS)
    for crew in crews:
        crew.muster(few)
    found = in_turn(crews, plan.rounds, lambda crew: crew.contend(few, plan.seconds(FOR_S), 0.0))
    table = Table("churn", f"Churn: {CONTENDERS} contenders that hold for no time and come again at once")
    for crew in crews:
        turns = found[crew.kind.name]
        gaps = [one for turn in turns for one in spacing(turn)]
        mean = round(statistics.fmean(gaps) / 1000) if gaps else None
        figures = {"mean us a grant": mean, "handed over": _handed(turns), **cpu(turns)}
        table.add(crew.kind.name, **figures)
    table.notes.append(
        "“Handed over”: the share of grants that went to another contender than the one before. Where it is "
        "small, the lock is not passed on but taken again, and its mean time is not to be compared."
    )
    return [table]


def _handed(turns: list[Turn]) -> str | None:
    """Return the share of grants, while all contend, that were handed over."""
    handed = sum(len(handovers(turn)) for turn in turns)
    inside = 0
    for turn in turns:
        inside += sum(settled(turn) < got <= turn.end for spans in turn.spans for got, _ in spans)
    return f"{handed / inside:.0%}" if inside else None
