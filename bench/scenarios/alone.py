"""Acquire and release with nobody else there, again and again, and after a while of quiet."""

from __future__ import annotations

from bench.figures import summary
from bench.kinds import KINDS
from bench.scenarios.turns import in_turn
from bench.stage import Crew, Stage
from bench.tables import Plan, Table

__all__ = ["WORDS", "alone", "measured"]

CYCLES = 100
QUIET_CYCLES = 30
QUIET_S = 0.02
WORDS = "Acquire and release, nobody else there (one client; both calls together)"


def alone(stage: Stage, plan: Plan) -> list[Table]:
    """Measure one contender of each kind."""
    crews = stage.crews(*KINDS)
    for crew in crews:
        crew.muster(1)
    at_once = measured(plan, crews, Table("alone", WORDS), CYCLES)
    quiet = Table("alone-quiet", f"{WORDS}, each after {QUIET_S * 1000:g} ms of quiet")
    after_quiet = measured(plan, crews, quiet, QUIET_CYCLES, QUIET_S)
    after_quiet.notes.append(
        "So it is when a lock is handed over, too: caches that others have used meanwhile, and cores that "
        "sleep. The CPU time of the server is that of the quiet as well."
    )
    return [at_once, after_quiet]


def measured(plan: Plan, crews: list[Crew], table: Table, count: int, pause_s: float = 0.0) -> Table:
    """Add a line for each crew, which cycles so often a turn."""
    found = in_turn(crews, plan.rounds, lambda crew: crew.cycles(plan.count(count), pause_s))
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
    return table
