"""Bugs to plant in what signal handlers and interrupts meet; each names the tests that have to notice it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any
from unittest import mock

from recipes import events
from recipes._api import leaving
from recipes._api.held import Held
from recipes._api.held_threads import BlockingQueued
from recipes._mutex import Mutex
from recipes._programs.hold import HeldState
from recipes._run.blocking import BlockingRuntime
from recipes._run.runtime import Runtime
from recipes._section import Section, section
from recipes.stores.zookeeper import kazoo_client_watches
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["SIGNALS"]

HANDLERS = "tests/run/test_handlers.py"
SERVERS = "integration/faults/test_handlers.py"
STRUCK = "tests/run/test_struck.py"


class _Unmarked:
    """A section that nobody is inside."""

    mark = nullcontext()

    def struck(self) -> bool:
        """Never."""
        return False


def _nobody_is_struck() -> list[Any]:
    return swap(Section, "struck", lambda _: False)


def _watches_are_no_section() -> list[Any]:
    return [mock.patch.object(kazoo_client_watches, "section", _Unmarked())]


def _telling_is_no_section() -> list[Any]:
    return [mock.patch.object(events, "_telling", _Unmarked())]


def _waits_for_itself() -> list[Any]:
    return swap(BlockingQueued, "_refuse_waiting_for_oneself", nothing)


def _releases_are_not_done_behind() -> list[Any]:
    release = BlockingRuntime.run

    def run(self: Any, program: Any, call: Any, *, waits: bool = True) -> Any:
        if not waits and section.struck():
            program.close()
            return True
        return release(self, program, call, waits=waits)

    return swap(BlockingRuntime, "run", run)


def _blocks_are_not_swept() -> list[Any]:
    return swap(Runtime, "sweep", nothing)


def _blocks_are_not_noted() -> list[Any]:
    return [
        mock.patch("recipes._api.held_threads.enters", nothing),
        mock.patch("recipes.grant.enters", nothing),
    ]


def _a_look_up_is_a_block() -> list[Any]:
    """Whoever looks at ``__exit__`` is taken to enter by a ``with`` statement."""
    return swap(leaving, "_is_with", lambda _: True)


def _a_block_is_anybodys() -> list[Any]:
    """Whoever enters next is taken to be the ``with`` statement that looked."""

    def looked_up(what: Any) -> Any:
        return what.__dict__.get(leaving.LOOKED_UP, {}).pop(threading.get_ident(), (0, None))[1]

    return [
        mock.patch("recipes._api.held_threads.looked_up", looked_up),
        mock.patch("recipes.grant.looked_up", looked_up),
    ]


def _what_was_not_entered_is_noted() -> list[Any]:
    return swap(Held, "_forget", nothing)


def _an_end_stays_unfinished() -> list[Any]:
    def finish(self: HeldState, reason: str) -> bool:
        mark = (reason,)
        first = self._end.setdefault("end", mark) is mark
        if first:
            self.settle()
        return first

    return swap(HeldState, "_finish", finish)


def _locks_are_taken_by_a_call() -> list[Any]:
    return swap(Mutex, "__enter__", lambda lock: lock.acquire())


SIGNALS = [
    TransportMutant("a handler is refused nothing", "sections", HANDLERS, _nobody_is_struck),
    TransportMutant(
        "ZooKeeper's watches are no section",
        "sections",
        "integration/faults/test_handlers.py",
        _watches_are_no_section,
    ),
    TransportMutant("telling is no section", "sections", "tests/test_events.py", _telling_is_no_section),
    TransportMutant("a handler waits for what it interrupted", "lock", HANDLERS, _waits_for_itself),
    TransportMutant(
        "a release in a section is not done behind",
        "release",
        HANDLERS,
        _releases_are_not_done_behind,
    ),
    TransportMutant("what was left in a block stays held", "with", STRUCK, _blocks_are_not_swept),
    TransportMutant("blocks are not noted", "with", STRUCK, _blocks_are_not_noted),
    TransportMutant("a look at __exit__ is taken for a block", "with", STRUCK, _a_look_up_is_a_block),
    TransportMutant("a block is anybody's", "with", STRUCK, _a_block_is_anybodys),
    TransportMutant("what was not entered stays noted", "with", STRUCK, _what_was_not_entered_is_noted),
    TransportMutant("an interrupted end stays unfinished", "hold", STRUCK, _an_end_stays_unfinished),
    TransportMutant(
        "locks of threads are taken by a call", "sections", "tests/test_mutex.py", _locks_are_taken_by_a_call
    ),
]
