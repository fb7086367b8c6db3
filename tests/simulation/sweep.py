"""One fault at request k, for all k and all kinds of faults: nothing is left to chance.

A schedule runs once without a fault, to count its requests. Then it runs again and again,
each time with one fault at one request: that request or its reply is lost, or it arrives
late; the call that sent it is cancelled, its client is stopped, cut off or killed, its session
is ended, the store is disturbed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.simulation.faults import KINDS
from tests.simulation.quick import collect, hurried
from tests.simulation.run import Schedule, Verdict, run

__all__ = ["Swept", "sweep"]

NO_FAULT = (0, "")


@dataclass(slots=True)
class Swept:
    """What a sweep came to: for each kind how often it struck, and what it broke.

    ``idle`` are the points where a kind had nothing to strike.
    """

    store: str
    seed: int
    requests: int
    struck: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    violations: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, at: int, kind: str, verdict: Verdict) -> None:
        if verdict.violation is not None:
            self.violations.append((at, kind, verdict.violation))
        if verdict.faults:
            self.struck[kind] += 1
        else:
            self.idle += 1

    def lines(self) -> Iterator[str]:
        runs = sum(self.struck.values())
        yield (
            f"{self.store} seed {self.seed}: {self.requests} requests, {runs} runs with one fault each "
            f"({self.idle} points had nothing to strike), {len(self.violations)} violations"
        )
        yield "  " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.struck.items()))
        for at, kind, words in self.violations[:10]:
            yield f"  {kind} at request {at}: {words}"


def sweep(
    store: str, seed: int, jobs: int = 1, *, enough: int = 102, flavour: str = "", of: str = "locks"
) -> Swept:
    """Run one schedule with one fault at every request, of every kind."""
    schedule = Schedule(store, seed, enough=enough, flavour=flavour, of=of, fault_at=NO_FAULT)
    whole = run(schedule)
    swept = Swept(store, seed, whole.requests)
    if whole.violation is not None:
        swept.violations.append((0, "no fault", whole.violation))
    tasks = [(schedule, kind, whole.requests) for kind in KINDS[store]]
    if jobs == 1:
        parts = list(map(_of_one_kind, tasks))
    else:
        with hurried(jobs) as pool:
            parts = list(pool.map(_of_one_kind, tasks))
    for part in parts:
        swept.struck.update(part.struck)
        swept.idle += part.idle
        swept.violations += part.violations
    return swept


def _of_one_kind(task: tuple[Schedule, str, int]) -> Swept:
    schedule, kind, requests = task
    swept = Swept(schedule.store, schedule.seed, requests)
    for at in range(1, requests + 1):
        swept.add(at, kind, run(replace(schedule, fault_at=(at, kind))))
    collect()
    return swept
