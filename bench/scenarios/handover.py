"""From release called to acquire returned elsewhere, between processes."""

from __future__ import annotations

from bench.figures import handovers, summary
from bench.kinds import KINDS
from bench.scenarios.turns import in_turn
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

__all__ = ["POLLING", "cpu", "handover", "measured"]

POLLING = (
    *("tooz-redis", "pottery", "redis-py-asyncio"),
    *("recipes-redlock", "redlock-py", "pottery-five", "recipes-memcached"),
)
FEW = [kind.name for kind in KINDS.values() if kind.waits and kind.name not in ("recipes-memory", *POLLING)]
SOME = [name for name in FEW if name not in ("tooz", "filelock", "redis-py")]
BEST = [
    *("recipes-zookeeper", "kazoo", "curator", "floor-zookeeper"),
    *("recipes-etcd", "recipes-grpc", "go", "floor-etcd", "floor-grpc"),
]
SIZES = ((2, 0.02, 1.5, FEW), (8, 0.01, 1.5, SOME), (32, 0.01, 2.0, BEST))


def handover(stage: Stage, plan: Plan) -> list[Table]:
    """Measure 2, 8 and 32 contenders; all come again at once, so one holds and all others wait."""
    return [measured(stage, plan, f"handover-{size[0]}", *size) for size in SIZES]


def measured(
    stage: Stage, plan: Plan, name: str, count: int, hold_s: float, for_s: float, kinds: list[str]
) -> Table:
    """Return a table with a line for each kind."""
    crews, few = stage.crews(*kinds), plan.processes(count)
    for crew in crews:
        crew.muster(few)
    length = max(plan.seconds(for_s), 3 * few * hold_s)
    found = in_turn(crews, plan.rounds, lambda crew: crew.contend(few, length, hold_s))
    title = f"Hand-over between processes, {count} contenders, each holds {hold_s * 1000:g} ms"
    table = Table(name, title)
    for crew in crews:
        turns = found[crew.kind.name]
        sample = summary(one for turn in turns for one in handovers(turn))
        table.add(crew.kind.name, sample, **(cpu(turns) if sample else {"n": 0}))
        if sample is None:
            table.notes.append(
                f"{crew.kind.label}: one contender took it again and again; nobody else got it."
            )
    return table


def cpu(turns: list[Turn]) -> dict[str, int | None]:
    """Return the CPU time a grant: all that each contender does for it, and the server."""
    grants = sum(len(spans) for turn in turns for spans in turn.spans)
    server = sum(turn.server_cpu_s for turn in turns)
    return {
        "client CPU us": round(sum(turn.cpu_s for turn in turns) * 1e6 / grants) if grants else None,
        "server CPU us": round(server * 1e6 / grants) if grants and server else None,
    }
