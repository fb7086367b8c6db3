"""Seeing that a ``with`` block was left, also where ``__exit__`` did not come to its first line.

Python handles a signal as a function begins: a ``KeyboardInterrupt`` there leaves ``__exit__`` before any
``try`` of it. But a ``with`` statement looks up ``__exit__`` as it begins, and is the only one to keep what
it found until it has ended, whatever ended it. So what it finds is an object of its own, and the end of
that object is the end of the block. ``contextlib.ExitStack`` looks it up in another way: of that nothing is
known, and nothing is concluded.
"""

from __future__ import annotations

import opcode
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from types import FrameType

    from recipes._api.held import Acquired
    from recipes._run.runtime import Runtime

__all__ = ["Block", "LookUp", "ends", "enters", "looked_up", "seen_leaving"]

F = TypeVar("F", bound=Callable[..., Any])
LOOKED_UP = "_exits"
"""The attribute with what a ``with`` statement of each thread looked up last, and in which frame."""
WITH = frozenset(
    opcode.opmap[name]
    for name in ("BEFORE_WITH", "LOAD_SPECIAL")  # Python 3.11 to 3.13; 3.14
    if name in opcode.opmap
)
"""The instructions with which a ``with`` statement looks up ``__exit__``."""

LookUp = weakref.ref["partial[None]"]


class Block(weakref.ref["partial[None]"]):
    """A ``with`` block that was entered; when that has ended, it is added to ``Runtime.left``.

    Nothing of Python runs then, where an interrupt would be lost.
    """

    __slots__ = ("frame", "grant", "lock")

    frame: int  # where the statement is, by its number
    grant: Any  # a grant, whose module imports this one
    lock: Acquired | None

    def leave(self) -> None:
        """Release what is still held, behind the scenes."""
        if self.lock is not None:
            self.lock._forget(self.grant._hold.owner, self.grant)  # noqa: SLF001 - the three are one
        self.grant._release_behind()  # noqa: SLF001 - the three are one; what was done is not done again


def looked_up(what: Any) -> LookUp | None:
    """Return what the ``with`` statement found that calls the ``__enter__`` of which this is called, if any.

    To be called before anything else: until then a signal handler could enter the same object.
    """
    noted: dict[int, tuple[int, LookUp]] = what.__dict__.get(LOOKED_UP, {})
    frame, found = noted.get(threading.get_ident(), (0, None))
    if found is None or frame != id(sys._getframe(2)):  # noqa: SLF001 - public but for its name
        return None
    noted.pop(threading.get_ident(), None)
    return found


def enters(found: LookUp | None, runtime: Runtime, grant: Any, lock: Acquired | None = None) -> Block | None:
    """Return the block that is entered now, to be kept until its end was seen to; None if it is not seen.

    Args:
        found: What `looked_up` returned.
        runtime: What the grant belongs to.
        grant: What the end of the block releases.
        lock: Where it is noted as entered.
    """
    leaving = None if found is None else found()
    if leaving is None:
        return None
    frame = id(sys._getframe(2))  # noqa: SLF001 - as above
    block = Block(leaving, runtime.left.append)
    block.frame, block.grant, block.lock = frame, grant, lock  # no call here: an interrupt could strike
    return block


def ends(entered: list[Any], elsewhere: Callable[[], list[Any]]) -> Any:
    """Return which grant the ``__exit__`` of which this is called ends; None: that cannot be known.

    That of the ``with`` statement that calls it, whichever thread has entered that; else the innermost that
    no statement will leave.

    Args:
        entered: The grants of the thread that leaves, in the order of entering.
        elsewhere: Returns those of all threads.
    """
    frame = id(sys._getframe(2))  # noqa: SLF001 - as above
    for grants in (entered, others := elsewhere()):
        for grant in reversed(grants):
            block = grant._block  # noqa: SLF001 - the three are one
            if block is not None and block.frame == frame and block() is not None:
                return grant
    for grants in (entered, others):
        loose = [grant for grant in grants if grant._block is None]  # noqa: SLF001 - the three are one
        if loose and (grants is entered or len(loose) == 1):
            return loose[-1]
    return entered[-1] if entered else None


def _is_with(frame: FrameType) -> bool:
    """Whether a ``with`` statement is what it is at."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return 0 <= at < len(code) and code[at] in WITH


class _SeenLeaving:
    """Gives a new object at each look-up, and notes that of a ``with`` statement."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(cast("Any", self), function)

    def __get__(self, one: Any, kind: type | None = None) -> Any:
        if one is None:
            return self._function
        found = partial(self._function, one)
        frame = sys._getframe(1)  # noqa: SLF001 - public but for its name
        if _is_with(frame):
            # By its number: it is nobody else's for as long as the statement keeps what it found.
            noted = one.__dict__.setdefault(LOOKED_UP, {})
            noted[threading.get_ident()] = (id(frame), weakref.ref(found))
        return found


def seen_leaving(function: F) -> F:
    """Make an ``__exit__`` of which `looked_up` knows."""
    return cast("F", _SeenLeaving(function))
