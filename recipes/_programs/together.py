"""Several things held together: acquired in one order everywhere, all or none, and lost when one is.

Each part is acquired by its own program, in turn, within one call. A part that is lost while the next one
is waited for ends that wait, all are given back, and the first is acquired again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recipes._contract.operations import Program
from recipes._programs.hold import CLOSED, INTERRUPTED, RELEASED, HeldState
from recipes._programs.queueing import (
    Attempt,
    acquire,
    all_held,
    release,
    report_release,
    try_acquire,
    verify,
)
from recipes._programs.steps import Abandon, Emit, Now
from recipes._record import record
from recipes.errors import ClientClosed, LockTimeout, SessionLost
from recipes.events import Transition, happened, titled

__all__ = ["Part", "Together", "Whole", "acquire_all", "release_all", "tell_end", "try_all", "verify_all"]


@record
class Part:
    """One of those that are acquired together.

    Attributes:
        attempt: How it is acquired.
        reenter: Enters what its owner holds already, if it may have that again.
    """

    attempt: Attempt
    reenter: Callable[[], HeldState | None]


@dataclass(slots=True)
class Whole:
    """What one call of a multi-lock wants, and how far it got.

    Attributes:
        parts: In the order in which all clients acquire them.
        labels: The fields that all of its own events carry.
        held: What was acquired; the call gives it back if it ends in an exception.
        wake: Called when one of these ends, by any thread: ends the wait for the next.
        tell: Told of the end of the whole; must not block.
        keep: Called with the whole before that is reported as acquired: if the call ends in an exception, it
            is to be reported as lost.
        requeues: Whether to begin again when one is lost.
        hold: The whole, as soon as it is to be reported as acquired.
    """

    parts: Sequence[Part]
    labels: dict[str, Any]
    held: list[HeldState]
    wake: Callable[[], None]
    tell: Callable[[Together], None]
    keep: Callable[[Together], None]
    requeues: bool = True
    number: int = 0
    started_at: float = field(default=0.0, init=False)
    hold: Together | None = field(default=None, init=False)

    def transition(self, what: str, **fields: Any) -> Transition:
        """Return the record of something that happens to it: "acquired", "timeout" ..."""
        return happened(what, self.labels, attempt=self.number, **fields)


class Together(HeldState):
    """Several holds as one: held while all are, and lost with the first that is.

    Args:
        holds: In the order in which they were acquired.
        labels: The fields that all of its own events carry.
        tell: Told of an end that no release of it reports; must not block.
    """

    __slots__ = ("_answered", "_holds", "_tell", "leaving", "was_held")

    def __init__(
        self, holds: Sequence[HeldState], labels: dict[str, Any], tell: Callable[[Together], None]
    ) -> None:
        first, acquired_at = holds[0], max(hold.acquired_at for hold in holds)
        super().__init__(first.entry, first.session, first.owner, acquired_at, labels)
        self._holds = tuple(holds)
        self._tell = tell
        self._answered: dict[str, tuple[str]] = {}
        self.leaving: list[HeldState] = []  # released, and not withdrawn yet
        self.was_held: bool | None = None  # as its release began; None: that did not begin

    def consist_of(self, holds: Sequence[HeldState]) -> None:
        """Hold these instead, which were made of those that it was made of."""
        self._holds = tuple(holds)

    def follow(self) -> None:
        """Be notified of the end of each part from now on, after all that is notified of it already."""
        for part in self._holds:
            part.on_end = partial(self._on_end_of, part, part.on_end)
            if part.ended:
                self._on_end_of(part)

    def _on_end_of(self, part: HeldState, before: Callable[[], None] | None = None) -> None:
        if before is not None:
            before()
        if part.reason is None:  # released: so the whole is held no more
            if self.on_end is not None:
                self.on_end()
            if self.was_held is None and self.ended and self._finish(RELEASED):  # each by itself
                self._tell(self)
            return
        reason = _reason(part, part.reason)
        if self.released:
            self.turned_out_lost(reason)
        else:
            self.lose(reason)
        if "reported" not in self._end:  # with another part, unless that was interrupted
            self._tell(self)

    @property
    def parts(self) -> tuple[HeldState, ...]:
        """Those that are held together."""
        return self._holds

    def remaining(self, now: float) -> float:
        """Seconds for which holding all of them is proven."""
        return 0.0 if self._end else min(part.remaining(now) for part in self._holds)

    def progress(self, now: float) -> bool:
        """Count the ``max_hold`` of each from now on; False if one is not held."""
        return not [part for part in self._holds if not part.progress(now)] and not self._end

    def lost(self, now: float) -> str | None:
        """Return why it is lost, by what was reported or by the clock; None if it is not."""
        if self._end:
            return self.reason
        lost = ((part, part.lost(now)) for part in self._holds)
        return next((_reason(part, reason) for part, reason in lost if reason is not None), None)

    def release(self, now: float, tell: Callable[[Transition], None] | None = None) -> bool:
        """End each that has not ended; False if all had, or none was held."""
        for part in self._holds:
            if part.reason is not None:  # nobody was notified: this is a forked child
                self.lose(_reason(part, part.reason))
        held = self.remaining(now) > 0
        self.was_held = self.was_held or held
        for part in reversed(self._holds):
            if part.release(now, tell):
                self.leaving.append(part)
        first = (held or self.ended) and self._finish(RELEASED)
        return (held and first) or bool(self.leaving)

    def answers(self) -> bool:
        """Whether this call says if it was held: of several that release it at the same time one does."""
        mark = (self.entry.ref,)  # one of its own
        return self._answered.setdefault("by", mark) is mark

    @property
    def ended(self) -> bool:
        """Whether all have ended."""
        return all(part.ended for part in self._holds)

    @property
    def freed(self) -> bool:
        """Whether contenders may have to go: each part says so of its own."""
        return True

    @property
    def grants(self) -> list[Any]:
        """The grant of the whole."""
        return [self.grant]

    def transition(self, what: str, **fields: Any) -> Transition:
        """Return the record of something that happens to it; the whole has no token."""
        return happened(what, self.labels, **fields)

    def release_to_report(self, now: float) -> list[Transition]:
        """Return what is to be reported of the release of each part, the last first, and of the whole."""
        parts = [one for part in reversed(self._holds) for one in part.release_to_report(now)]
        return [*parts, *super().release_to_report(now)]

    def end_to_report(self, now: float) -> list[Transition]:
        """Return what is to be reported of the end of the whole alone: nothing if that was reported."""
        return [*self.loss_to_report(), *super().release_to_report(now)]


def _reason(part: HeldState, reason: str) -> str:
    return f"{titled(part.labels['recipe'], part.labels['name'])} is lost: {reason}"


def acquire_all(whole: Whole) -> Program[Whole]:
    """Acquire each part in turn; begin again whenever one that is held is lost."""
    whole.started_at = yield from Now()
    while True:
        whole.number += 1
        try:
            for part in whole.parts:
                hold = part.reenter() or (yield from acquire(_beside(whole, part)))
                whole.held.append(hold)  # no call before this: an interrupt there would leave it entered
                hold.on_end = whole.wake
            return (yield from _complete(whole))
        except GeneratorExit:
            raise
        except SessionLost as lost:
            yield from _give_back(whole, wait=True)
            if lost.reason == CLOSED:
                yield from tell_end(whole, "cancelled", reason="ClientClosed")
                raise ClientClosed from None
            if not whole.requeues:
                yield from tell_end(whole, "cancelled", reason="SessionLost")
                name, recipe = whole.labels["name"], whole.labels["recipe"]
                raise SessionLost(lost.reason, name, recipe=recipe) from None
            yield from Emit(whole.transition("requeued", reason=lost.reason))
        except LockTimeout:
            yield from _give_back(whole, wait=False)
            yield from tell_end(whole, "timeout")
            raise
        except BaseException as error:
            yield from _give_back(whole, wait=False)
            yield from tell_end(whole, "cancelled", reason=type(error).__name__)
            raise


def try_all(whole: Whole) -> Program[Whole | None]:
    """Take each part in turn if nobody blocks it; give all back at the first that is not free."""
    whole.started_at = yield from Now()
    while True:
        whole.number += 1
        try:
            for part in whole.parts:
                hold = part.reenter() or (yield from try_acquire(_beside(whole, part)))
                if hold is None:
                    yield from _give_back(whole, wait=True)
                    return None
                whole.held.append(hold)
                hold.on_end = whole.wake
            return (yield from _complete(whole))
        except GeneratorExit:
            raise
        except SessionLost:
            yield from _give_back(whole, wait=True)  # and once more, if there is time
        except BaseException:
            yield from _give_back(whole, wait=False)
            raise


def release_all(hold: Together, *, wait: bool = True) -> Program[bool]:
    """Delete the contenders of all parts that were released, the last first; see `release`."""
    held = hold.answers() and hold.released and hold.was_held is True
    try:
        while True:
            try:
                part = hold.leaving.pop(0)
            except IndexError:  # no more, or another call withdraws the others
                break
            if part.freed and not (yield from release(part, wait=wait)):
                held = False
    except GeneratorExit:
        raise
    except BaseException:  # those that are left go behind the call
        yield from report_release(hold)
        raise
    yield from report_release(hold)
    return held


def verify_all(hold: Together) -> Program[bool]:
    """Ask the store, linearizably, whether the contender of every part stands."""
    for part in hold.parts:
        if not (yield from verify(part)):
            return False
    return True


def _beside(whole: Whole, part: Part) -> Attempt:
    part.attempt.beside = tuple(whole.held)
    return part.attempt


def _complete(whole: Whole) -> Program[Whole]:
    yield from all_held(whole.held)
    whole.hold = Together(whole.held, {**whole.labels, "attempt": whole.number}, whole.tell)
    whole.keep(whole.hold)  # first: whatever interrupts the report of it, its end is reported
    yield from tell_end(whole, "acquired")
    yield from all_held(whole.held)  # a log that blocks may take longer than the session lasts
    return whole


def _give_back(whole: Whole, *, wait: bool) -> Program[None]:
    """Release what was acquired, the last first; what is not waited for is left to the cleaner.

    If this is interrupted, what has not gone yet is still in there, for this to be done once more.
    """
    now = yield from Now()
    told: list[Transition] = []
    if whole.hold is not None:  # before its parts are released: it was not
        whole.hold.lose(whole.hold.lost(now) or INTERRUPTED)
        told += whole.hold.loss_to_report()
    for hold in reversed(whole.held):
        if not hold.release(now, told.append) and hold.overheld and hold.lose(""):
            told += hold.loss_to_report()
            yield from Abandon(hold.entry.ticket, hold.entry)
    for transition in told:
        yield from Emit(transition)
    while whole.held:
        if whole.held[-1].freed:
            yield from release(whole.held[-1], wait=wait)
        whole.held.pop()


def tell_end(whole: Whole, what: str, **fields: Any) -> Program[None]:
    """Emit how it ended: "acquired", "timeout" ..."""
    now = yield from Now()
    yield from Emit(whole.transition(what, waited_s=now - whole.started_at, **fields))
