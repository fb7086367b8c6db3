"""The programs that read and write what all share: each write is done once, or its caller gets an error.

How a protocol finds out what became of a lost answer is in `recipes.stores.receipts`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from recipes._contract.deadline import Expired
from recipes._contract.operations import Program, Read, Stored, Write, Written
from recipes._programs.observing import look_up
from recipes._programs.queueing import _unanswered, verify
from recipes._programs.steps import Attach, Emit, Now, Pause
from recipes._record import record
from recipes.errors import OutcomeUnknown, SessionLost
from recipes.events import happened

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from recipes._programs.observing import Observer

__all__ = ["MOST_SEEN", "Change", "Writing", "read", "update", "wait_until", "write"]

MOST_SEEN = 1000
"""Of so many values a client remembers the last version."""

AT_ONCE = 2
"""After so many races that were lost others are let go first."""

Seen = MutableMapping[str, Stored]


@record
class Change:
    """What to write; None: delete it."""

    data: bytes | None


@record
class Writing:
    """What one call writes, and under which conditions.

    Attributes:
        key: Where.
        number: Of this write: no other of the client has it.
        what: The transition that it is: "written", "deleted", "added" ...
        labels: What all events of the call say.
        guards: What has to be held for the write to be done, and how ("exclusive", "shared").
        lost: Returns what is raised if that is held no more.
    """

    key: str
    number: int
    what: str
    labels: dict[str, Any]
    guards: tuple[tuple[HeldState, str], ...] = ()
    lost: Callable[[], Exception] | None = None


def read(key: str) -> Program[Stored]:
    """Read a value."""
    stored: Stored = yield from look_up(Read(key))
    return stored


def write(writing: Writing, data: bytes | None, if_version: int | None = None) -> Program[Written]:
    """Write a value once; on another session only if it is certain that the last has not done it."""
    holds = tuple(hold for hold, _ in writing.guards)
    guards = tuple(hold.guard_of_mode(mode) for hold, mode in writing.guards)
    asked = Write(writing.key, data, writing.number, if_version, guards)
    try:
        while True:
            if not holds:
                yield from Attach()
            elif not (yield from _hold(writing)):
                break
            try:
                written = yield from asked
            except SessionLost:
                continue  # nothing of it was done, or will be
            if written.done:
                version = None if written.stored is None else written.stored.version
                yield from Emit(happened(writing.what, writing.labels, version=version))
            if written.guarded:
                return written
            for hold in holds:
                yield from verify(hold)
            break
    except Expired as expired:
        raise _unanswered(expired) from None
    except OutcomeUnknown as unknown:
        yield from Emit(happened("unknown", writing.labels, reason=unknown.detail))
        raise
    raise _lost(writing)


def _lost(writing: Writing) -> Exception:
    assert writing.lost is not None, "what has guards says what their loss means"
    return writing.lost()


def _hold(writing: Writing) -> Program[bool]:
    """Whether all that guards a write is held, and as it was when it was said to guard."""
    now = yield from Now()
    return all(hold.remaining(now) > 0 and hold.mode == mode for hold, mode in writing.guards)


def update(
    writing: Writing, step: Callable[[Stored], Change | None], seen: Seen | None = None
) -> Program[Change | None]:
    """Replace a value by what ``step`` makes of it, whatever others write meanwhile.

    A race that is lost brings what was written instead, and costs one write more. From the second on it waits
    for a random moment and reads again: of many that ask at once all but one would only disturb.

    Args:
        writing: Where, and under which conditions.
        step: Returns what to write instead, or None: leave it. It may be asked several times.
        seen: Where to remember what is there, so that the next update need not read it.

    Returns:
        What was written; None: it was left.
    """
    stored = None if seen is None else seen.get(writing.key)
    fresh, lost = stored is None, 0
    while True:
        if stored is None:
            stored, fresh = (yield from read(writing.key)), True
        try:
            change = step(stored)
        except Exception:
            if fresh:
                raise
            change = None
        if change is None and fresh:
            _remember(seen, writing.key, stored)
            if writing.guards and not (yield from _hold(writing)):
                raise _lost(writing)
            return None
        if change is None:  # what was remembered may be out of date
            stored = None
            continue
        written = yield from write(writing, change.data, stored.version)
        if written.done:
            _remember(seen, writing.key, written.stored)
            return change
        stored, fresh, lost = written.stored, True, lost + 1
        if lost >= AT_ONCE:
            yield from _later(lost)
            stored = None


def _later(lost: int) -> Program[None]:
    """Let others go first."""
    try:
        yield from Pause(lost)
    except Expired as expired:
        raise _unanswered(expired) from None


def _remember(seen: Seen | None, key: str, stored: Stored | None) -> None:
    """Note the last that is known of a value, for the most recent of them; None: nothing is."""
    if seen is None:
        return
    seen.pop(key, None)
    if stored is not None:
        seen[key] = stored
        for oldest in list(seen)[:-MOST_SEEN]:
            seen.pop(oldest, None)


def wait_until(observer: Observer, reached: Callable[[Any], bool]) -> Program[bool]:
    """Wait until what is observed is as it should be; False: the time is over."""
    number = 0
    try:
        while True:
            number, seen = yield from observer.next(number)
            if reached(seen):
                return True
    except Expired:
        return False
