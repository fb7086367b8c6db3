"""Bugs in semaphores: in the rule of permits, and in what the program watches, lists and marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.contenders import GRANTED
from recipes._contract.operations import List, Look, Rewrite, Snapshot
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes._programs import permits as program
from recipes._rules import permits as rule
from recipes._rules.permits import Permits
from tests.mutants.transports import TransportMutant
from tests.simulation.bugs import swap

__all__ = ["IN_PERMITS"]

RULE, PROGRAM = "permits", "waiting for permits"


def _judged(judge: Any) -> list[Any]:
    """Have a contender blocked unless ``judge`` says that it fits, by those ahead, first come first."""

    def call(self: Any, ahead: Any) -> Any:
        return () if judge(self, [rule._taken_by(one) for one in reversed(ahead)]) else ahead[: self.limit]

    return swap(Permits, "__call__", call)


def _only_those_that_hold(self: Any, ahead: list[Any]) -> bool:
    taken = 0
    for one in ahead:
        taken += one.weight if taken + one.weight <= one.limit else 0
    return bool(taken + self.weight <= self.limit)


def _stuck(judge: Any) -> list[Any]:
    def stuck(self: Any, held: Any, waiting: Any) -> bool:
        taken = sum(rule._taken_by(one).weight for one in held)
        return bool(judge(self, taken, [rule._taken_by(one) for one in waiting]))

    return swap(Permits, "stuck", stuck)


def _woken(instead: Any) -> list[Any]:
    """Have an event mean what ``instead`` says; None: what it means."""

    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        found = instead(mine, snapshot, armed, event)
        return found if found is not None else (yield from original(rule, mine, snapshot, armed, event))

    original = program.woken
    return swap(program, "woken", woken)


def _unheard(kind: type) -> list[Any]:
    return _woken(lambda mine, snapshot, armed, event: (snapshot, armed) if isinstance(event, kind) else None)


def _gone_is_granted() -> list[Any]:
    def instead(mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        return (Snapshot(mine, (), complete=True, position=0), ()) if isinstance(event, Gone) else None

    return _woken(instead)


def _not_read_again() -> list[Any]:
    def instead(mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        waits = armed != program.whole(mine.ticket.queue) and not isinstance(
            event, Gone | Changed | Disturbed
        )
        return (snapshot, armed) if waits else None

    return _woken(instead)


def _listed(change: Any) -> list[Any]:
    """Have the head of the queue read in another way."""

    def listed(rule: Any, mine: Any, snapshot: Any) -> Any:
        steps, answer = original(rule, mine, snapshot), None
        while True:
            try:
                op: Any = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield (change(op) if isinstance(op, List) else op)

    original = program.listed
    return swap(program, "listed", listed)


def _marked(*, writes: bool, at_once: bool = True, minds: bool = True) -> list[Any]:
    def mark(mine: Any, snapshot: Any, *, waited: bool) -> Any:
        if not writes or not (waited or at_once):
            return True
        times = yield from Rewrite(mine, GRANTED, mine.ticket.data)
        return times is not None or not minds

    return swap(program, "mark", mark)


def _looks_and_lists() -> list[Any]:
    def listed(rule: Any, mine: Any, snapshot: Any) -> Any:
        yield from Look(mine, rule, ())
        return (yield from original(rule, mine, snapshot))

    original = program.listed
    return swap(program, "listed", listed)


def _planted(where: str, tests: str, bugs: dict[str, Any]) -> list[TransportMutant]:
    return [TransportMutant(name, where, tests, plant) for name, plant in bugs.items()]


IN_PERMITS = [
    *_planted(
        RULE,
        "tests/rules/test_permits.py",
        {
            "each judges by its own limit alone": lambda: _judged(
                lambda self, ahead: sum(one.weight for one in ahead) + self.weight <= self.limit
            ),
            "a light one overtakes a heavy one": lambda: _judged(_only_those_that_hold),
            "every weight is one": lambda: _judged(lambda self, ahead: len(ahead) + 1 <= self.limit),
            "the own weight does not count": lambda: _judged(
                lambda self, ahead: rule._fit(ahead) and sum(one.weight for one in ahead) < self.limit
            ),
            "one permit too many": lambda: _judged(
                lambda self, ahead: rule._fit([replace(one, limit=one.limit + 1) for one in (*ahead, self)])
            ),
            "an unknown kind weighs nothing": lambda: swap(rule, "_EVERYTHING", Permits(0, rule.MOST)),
            "a deadlock is judged by the own weight": lambda: _stuck(
                lambda self, taken, waiting: taken + self.weight > self.limit
            ),
            "a deadlock is judged by all weights together": lambda: _stuck(
                lambda self, taken, waiting: taken + sum(one.weight for one in (self, *waiting)) > self.limit
            ),
            "what is not shown of the one ahead is taken for waiting": lambda: swap(
                rule,
                "may_hold",
                lambda ahead, *, complete, position: (
                    complete and rule._fit(rule._taken_by(one) for one in reversed(ahead))
                ),
            ),
        },
    ),
    *_planted(
        PROGRAM,
        "tests/programs/test_permits.py",
        {
            "only the one ahead is watched": lambda: swap(program, "may_hold", lambda *_, **__: False),
            "all watch the whole queue": lambda: [
                *swap(program, "may_hold", lambda *_, **__: True),
                *swap(program, "limit_of", lambda one: 999),
            ],
            "none marks itself": lambda: _marked(writes=False),
            "one that joins and holds never marks itself": lambda: _marked(writes=True, at_once=False),
            "one that is gone marks itself and holds": lambda: _marked(writes=True, minds=False),
            "the queue is listed and not watched": lambda: _listed(lambda op: replace(op, watch=False)),
            "the queue is looked at before it is listed": _looks_and_lists,
            "a mark ahead is not looked into": lambda: _unheard(Changed),
            "one ahead that goes is not looked into": lambda: _unheard(Gone),
            "the one ahead went, and that is a grant": _gone_is_granted,
            "watches that were dropped are not made again": lambda: _unheard(Disturbed),
            "a holder that never marked itself is not found": _not_read_again,
            "what has no room for its mark is not granted": lambda: swap(program, "StoreFull", KeyError),
            "limits that differ are not told": lambda: swap(program, "another_limit", lambda *_: None),
        },
    ),
]
