"""Bugs to plant in multi-locks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest import mock

from recipes._api import together as nouns
from recipes._contract.operations import Program
from recipes._programs import queueing, together
from recipes._programs.hold import HeldState
from recipes._programs.reentry import Reentry
from recipes._programs.together import Together, Whole
from recipes._run.runtime import Runtime
from tests.simulation.bugs import swap


def _nothing(*_: Any, **__: Any) -> Program[Any]:
    return None
    yield  # a program of no step


def in_the_order_given() -> list[Any]:
    return _sorting(lambda locks, key: list(locks))


def in_an_order_of_each_client() -> list[Any]:
    return _sorting(lambda locks, key: sorted(locks, key=key, reverse=locks[0].client.number % 2 == 1))


def _sorting(instead: Any) -> list[Any]:
    return [mock.patch.object(nouns, "sorted", instead, create=True)]


def try_gives_nothing_back() -> list[Any]:
    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        if whole.parts[0].attempt.timeout_s is None and wait:
            whole.held.clear()
            return
        yield from original(whole, wait=wait)

    original = together._give_back
    return swap(together, "_give_back", give_back)


def late_ones_keep_what_they_have() -> list[Any]:
    """Neither the program nor what unwinds a call gives back what was acquired before."""

    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        if wait:
            yield from original(whole, wait=wait)
        whole.held.clear()

    original = together._give_back
    return swap(together, "_give_back", give_back)


def interrupts_keep_the_first() -> list[Any]:
    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        del whole.held[:1]
        yield from original(whole, wait=wait)

    original = together._give_back
    return swap(together, "_give_back", give_back)


def given_back_is_only_said() -> list[Any]:
    return swap(together, "release", _nothing)


def losses_unseen_while_waiting() -> list[Any]:
    return swap(queueing, "all_held", _nothing)


def losses_wake_nobody() -> list[Any]:
    def whole(self: Any, call: Any, options: Any) -> Whole:
        made = original(self, call, options)
        made.wake = lambda: None
        return made

    original = nouns.BaseMultiLock._whole
    return swap(nouns.BaseMultiLock, "_whole", whole)


def returned_though_one_is_lost() -> list[Any]:
    return [*swap(together, "all_held", _nothing), *swap(queueing, "all_held", _nothing)]


def only_the_lost_one_is_acquired_again() -> list[Any]:
    """What is still held is not given back, as if its turn came again."""

    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        if not wait:
            yield from original(whole, wait=wait)
        whole.held[:] = []

    original = together._give_back
    return swap(together, "_give_back", give_back)


def held_while_one_is() -> list[Any]:
    def remaining(self: Any, now: float) -> float:
        return max(part.remaining(now) for part in self.parts)

    return swap(Together, "remaining", remaining)


def held_while_the_first_is() -> list[Any]:
    def remaining(self: Any, now: float) -> float:
        found: float = self.parts[0].remaining(now)
        return found

    return swap(Together, "remaining", remaining)


def release_stops_at_the_first() -> list[Any]:
    def release_all(hold: Together, *, wait: bool = True) -> Program[bool]:
        del hold.leaving[1:]
        return (yield from original(hold, wait=wait))

    from tests.simulation import multilock

    original = together.release_all
    return [*swap(multilock, "release_all", release_all), *_unwinding_gives_nothing_back()]


def a_lost_whole_is_not_released() -> list[Any]:
    """As the release of one lock that was lost has nothing to do."""

    def release(self: Any, now: float, tell: Any = None) -> bool:
        held: bool = self.remaining(now) > 0
        return held and bool(original(self, now, tell))

    original = Together.release
    return swap(Together, "release", release)


def verify_asks_for_the_first() -> list[Any]:
    def verify_all(hold: Together) -> Program[bool]:
        return (yield from queueing.verify(hold.parts[0]))

    from tests.simulation import multilock

    return swap(multilock, "verify_all", verify_all)


def what_was_entered_again_is_not_left() -> list[Any]:
    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        whole.held[:] = [hold for hold in whole.held if not isinstance(hold, Reentry)]
        yield from original(whole, wait=wait)

    original = together._give_back
    return swap(together, "_give_back", give_back)


def what_was_entered_again_is_released() -> list[Any]:
    """A part that its owner held before is taken away with the others."""

    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        wholes = (hold._whole if isinstance(hold, Reentry) else hold for hold in whole.held)
        whole.held[:] = list(wholes)
        yield from original(whole, wait=wait)

    original = together._give_back
    return swap(together, "_give_back", give_back)


def cancelled_ones_leave_what_they_had() -> list[Any]:
    """Both what the program gives back behind, and what unwinding does."""

    def give_back(whole: Whole, *, wait: bool) -> Program[None]:
        if wait:
            yield from original(whole, wait=wait)

    original = together._give_back
    return [*swap(together, "_give_back", give_back), *_unwinding_gives_nothing_back()]


def _unwinding_gives_nothing_back() -> list[Any]:
    def give_back(self: Any, hold: HeldState) -> None:
        if isinstance(hold, Reentry):
            original(self, hold)

    original = Runtime.give_back
    return swap(Runtime, "give_back", give_back)


def only_the_last_has_to_be_held() -> list[Any]:
    def all_held(holds: Iterable[HeldState]) -> Program[None]:
        yield from original(list(holds)[-1:])

    original = queueing.all_held
    return [*swap(together, "all_held", all_held), *swap(queueing, "all_held", all_held)]
