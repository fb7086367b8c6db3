"""Bugs to plant in what elections are to users; each names the tests that have to notice it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from recipes import events
from recipes._api import leadership, saying
from recipes._api.held_tasks import AsyncQueued
from recipes._api.held_threads import BlockingQueued
from recipes._api.observing import _Observing
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["IN_ELECTIONS"]

API = "tests/api/test_leadership.py"
CONTRACT = "tests/contract/test_memory.py::TestElections"
STRUCK = "tests/run/test_struck.py"


def _leads(lead: Any) -> list[Any]:
    """Have the blocking `run` do this instead."""
    return swap(leadership.BaseElection, "_lead", staticmethod(lead))


def _leads_async(lead: Any) -> list[Any]:
    return swap(leadership.BaseElection, "_lead_async", staticmethod(lead))


def _resigns_before_the_work_has_ended(campaign: Any, work: Any) -> Any:
    elected = campaign()
    elected.release(wait=False)
    return work(elected)


def _once(campaign: Any, work: Any) -> Any:
    with campaign() as elected:
        return work(elected)


def _without_a_look(campaign: Any, work: Any) -> Any:
    while True:
        elected = campaign()
        try:
            result = work(elected)
        except leadership.LockLost as lost:
            if not elected._explains(lost):
                raise
            continue
        finally:
            elected.release()
        if elected.lost_reason is None:
            return result


def _ignores_the_loss(campaign: Any, work: Any) -> Any:
    elected = campaign()
    try:
        return work(elected)
    finally:
        elected.release()


async def _never_cancelled(campaign: Any, work: Any) -> Any:
    while True:
        elected = await campaign()
        try:
            result = await work(elected)
        finally:
            await elected.release()
        if elected.lost_reason is None:
            return result


async def _cancelled_and_over(campaign: Any, work: Any) -> Any:
    elected = await campaign()
    elected._end_with_client()
    async with elected:
        return await work(elected)


def _left_where_an_interrupt_struck(campaign: Any, work: Any) -> Any:
    while True:
        elected = campaign()
        try:
            with elected:
                return work(elected)
        except leadership.LockLost as lost:
            if not elected._explains(lost):
                raise


def _speaking(kind: Any, make: Any) -> list[Any]:
    """Have proclamations of one leadership kept apart by something else."""
    init = kind.__init__

    def begin(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._speaking = make()

    return swap(kind, "__init__", begin)


class _Unlocked(contextlib.nullcontext[None]):
    """Keeps nothing apart."""

    def _is_owned(self) -> bool:
        return False


class _Reentrant:
    """Lets its own thread in again."""

    def __init__(self) -> None:
        self._inside = threading.RLock()

    def _is_owned(self) -> bool:
        return False

    def __enter__(self) -> None:
        self._inside.acquire()

    def __exit__(self, *_: object) -> None:
        self._inside.release()


def _without_its_data() -> list[Any]:
    attempt = BlockingQueued._attempt

    def without(self: Any, owner: object, options: Any) -> Any:
        made = attempt(self, owner, options)
        if options.timeout == 0:
            made.data = b""
        return made

    return [*swap(BlockingQueued, "_attempt", without), *swap(AsyncQueued, "_attempt", without)]


def _every_look_is_a_change() -> list[Any]:
    def another(self: Any, observer: Any) -> Any:
        number, shown = yield from observer.next(self._last[0])
        return number, self._shown(shown)

    return swap(_Observing, "_another", another)


def _tells_all_the_same() -> list[Any]:
    return [*swap(events, "_WORDS", {}), *swap(events, "_TRANSITIONS", {})]


def _planted(tests: str, bugs: dict[str, Any]) -> list[TransportMutant]:
    return [TransportMutant(name, "elections", tests, plant) for name, plant in bugs.items()]


IN_ELECTIONS = [
    *_planted(
        API,
        {
            "it does not lead again after a loss": lambda: _leads(_once),
            "a loss is taken for the end of the work": lambda: _leads(_ignores_the_loss),
            "work begins with a leadership that is lost": lambda: _leads(_without_a_look),
            "a loss ends `run` in asyncio": lambda: _leads_async(_cancelled_and_over),
            "no loss explains an error": lambda: swap(leadership._BaseLeadership, "_explains", nothing),
            "a handler proclaims amid a proclamation": lambda: _speaking(saying.Saying, _Reentrant),
            "every look is shown as a change": _every_look_is_a_change,
            "a value may be of any length": lambda: swap(leadership, "MOST_BYTES", 10**9),
            "work is cancelled that was only to be told": lambda: swap(
                AsyncQueued, "_granted", lambda self, hold: self._grant(self._runtime, hold, cancels=True)
            ),
        },
    ),
    *_planted(
        CONTRACT,
        {
            "it resigns before its work has ended": lambda: _leads(_resigns_before_the_work_has_ended),
            "work goes on after a loss in asyncio": lambda: _leads_async(_never_cancelled),
            "closing the client leaves its work running": lambda: swap(
                leadership.AsyncLeadership, "_end_with_client", nothing
            ),
            "proclamations of threads strike each other": lambda: _speaking(saying.Saying, _Unlocked),
            "proclamations of tasks strike each other": lambda: _speaking(saying.AsyncSaying, _Unlocked),
            "bytes that are no text are replaced": lambda: swap(
                leadership, "_text", lambda data: data.decode("utf-8", "replace")
            ),
            "a candidate that does not wait says nothing": _without_its_data,
            "it is told of as of a lock": _tells_all_the_same,
        },
    ),
    *_planted(
        STRUCK,
        {"an interrupt leaves a leader without work": lambda: _leads(_left_where_an_interrupt_struck)},
    ),
]
