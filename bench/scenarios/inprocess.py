"""Hand-over among the waiters of one client, and how long another client waits beside them."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.crowd import together
from bench.figures import handed, settled, summary
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

__all__ = ["inprocess"]

WAITERS = 8
HOLD_S, FOR_S = 0.001, 2.0
APIS = ("threads", "asyncio")
STORES = ("etcd", "etcd+grpc", "zookeeper", "sqlite")


def inprocess(stage: Stage, plan: Plan) -> list[Table]:
    """Measure eight waiters of one client alone, and beside one waiter of another."""
    table = Table("inprocess", f"Hand-over among {WAITERS} waiters of one client, holding 1 ms")
    for store in STORES:
        for api in APIS:
            alone, beside = [], []
            for number in range(plan.rounds):
                with _place(stage, store) as url:
                    name, for_s = f"inprocess-{api}-{number}", plan.seconds(FOR_S)
                    alone.append(together(api, url, name, [WAITERS], for_s, HOLD_S, by_waiter=True))
                    sizes = [WAITERS, 1]
                    beside.append(together(api, url, f"{name}-b", sizes, for_s, HOLD_S, by_waiter=True))
            table.add(
                f"{store}-{api}",
                summary(one for turn in alone for one in handed(turn, since=settled(turn))),
                label=f"{store}, {api}",
                **{"another's longest wait ms": round(max(map(_longest_wait_ms, beside)), 1)},
            )
    for api in APIS:
        plain = [
            together(f"plain-{api}", "-", "floor", [WAITERS], plan.seconds(FOR_S), HOLD_S, by_waiter=True)
            for _ in range(plan.rounds)
        ]
        spans = summary(one for turn in plain for one in handed(turn, since=settled(turn)))
        table.add(f"floor-{api}", spans, label=f"a lock of the process alone, {api}")
    table.notes.append(
        "The wait of another client is from a release of its own to its next grant, "
        "beside eight that come again at once."
    )
    return [table]


@contextlib.contextmanager
def _place(stage: Stage, store: str) -> Iterator[str]:
    if store == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder, 'bench.db')}"
    else:
        by, _, _ = store.partition("+")
        yield f"{store}://{stage.server(by).url('bench').partition('://')[2]}"


def _longest_wait_ms(turn: Turn) -> float:
    """Return how long the last of a turn waited at most, once all contended."""
    spans = [span for span in turn.spans[-1] if span[0] >= settled(turn)]
    waits = map(operator.sub, (got for got, _ in spans[1:]), (gone for _, gone in spans))
    return max(waits, default=0.0) / 1e6
