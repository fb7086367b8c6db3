"""Bugs to plant where a client hands on what it releases to the next of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.wakeups import HandedOn
from recipes._programs import queueing
from recipes._programs.hold import HeldState, StoreSession
from recipes._programs.waiters import InProcessWaiters
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run import interpreter
from tests.simulation.bugs import swap
from tests.simulation.clients import SimRuntime


def hands_on_what_it_lost() -> list[Any]:
    return swap(HeldState, "_hands_on", property(lambda self: self.ended))


def hands_on_what_hung() -> list[Any]:
    return swap(HeldState, "_hands_on", property(lambda self: self.released or self.overheld))


def an_incomplete_snapshot_grants() -> list[Any]:
    def handed_on(rule: Any, snapshot: Any, event: Any) -> Any:
        return original(rule, replace(snapshot, complete=True), event)

    original = queueing._handed_on
    return swap(queueing, "_handed_on", handed_on)


def others_ahead_do_not_count() -> list[Any]:
    def handed_on(rule: Any, snapshot: Any, event: Any) -> Any:
        return replace(snapshot, ahead=(), complete=True, position=0)

    return swap(queueing, "_handed_on", handed_on)


def a_reader_goes_as_if_it_had_been_alone() -> list[Any]:
    """So a writer is let in beside the readers that are left."""

    def handed_on(rule: Any, snapshot: Any, event: Any) -> Any:
        alone = tuple(replace(one, kind="W") if one.ref == event.ref else one for one in snapshot.ahead)
        return original(rule, replace(snapshot, ahead=alone), event)

    original = queueing._handed_on
    return swap(queueing, "_handed_on", handed_on)


def a_downgrade_hands_on() -> list[Any]:
    def marked(self: Any, contender_id: str, mark: str) -> None:
        original(self, contender_id, mark)
        for mailbox, ref in list(self._standing.get(contender_id, {}).items()):
            mailbox.post(HandedOn(ref))

    original = InProcessWaiters.marked
    return swap(InProcessWaiters, "marked", marked)


def the_next_session_is_handed_what_the_last_held() -> list[Any]:
    def new_session(self: Any) -> Any:
        made = original(self)
        if self.state.last is not None:
            made.waiters = self.state.last.waiters
        return made

    original = SimRuntime.new_session
    return [
        *swap(SimRuntime, "new_session", new_session),
        *swap(HeldState, "_hands_on", property(lambda self: self.ended)),
    ]


def a_release_is_remembered_for_ever() -> list[Any]:
    def gone(self: Any, contender_id: str) -> None:
        freed = self._freed.get(contender_id)
        original(self, contender_id)
        if freed is not None:
            self._freed[contender_id] = freed

    original = InProcessWaiters.gone
    return swap(InProcessWaiters, "gone", gone)


def nobody_looks_by_time() -> list[Any]:
    return swap(interpreter, "_behind_own", lambda op, call: True)


def any_of_its_own_ahead_will_do() -> list[Any]:
    def blocked_by_own(self: Any, mine: Any, rule: Any) -> Any:
        return original(self, mine, EXCLUSIVE)

    original = StoreSession.blocked_by_own
    return swap(StoreSession, "blocked_by_own", blocked_by_own)


def one_that_waits_is_taken_for_released() -> list[Any]:
    def listen(self: Any, target: Any, mailbox: Any) -> bool:
        listens = original(self, target, mailbox)
        if listens:
            mailbox.post(HandedOn(target.ref))
        return listens

    original = InProcessWaiters.listen
    return swap(InProcessWaiters, "listen", listen)
