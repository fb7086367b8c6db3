"""Acquire and release with nobody else there."""

from __future__ import annotations

from bench.figures import summary
from bench.kinds import KINDS
from bench.scenarios.turns import in_turn
from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["alone"]

CYCLES = 100


def alone(stage: Stage, plan: Plan) -> list[Table]:
    """Measure one contender of each kind."""
    crews = stage.crews(*KINDS)
    for crew in crews:
        crew.muster(1)
    found = in_turn(crews, plan.rounds, lambda crew: crew.cycles(plan.count(CYCLES)))
    table = Table("alone", "Acquire and release, nobody else there (one client; both calls together)")
    for crew in crews:
        turns = found[crew.kind.name]
        took = [one for turn in turns for one in turn.took]
        table.add(
            crew.kind.name,
            summary(took),
            **{
                "client CPU us": round(sum(turn.cpu_s for turn in turns) * 1e6 / len(took)),
                "server CPU us": round(sum(turn.server_cpu_s for turn in turns) * 1e6 / len(took)),
            },
        )
    return [table]
