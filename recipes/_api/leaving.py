"""Seeing that a ``with`` block was left, also where ``__exit__`` did not come to its first line.

Python hears of a signal as a function begins: a ``KeyboardInterrupt`` there leaves ``__exit__`` before any
``try`` of it. But a ``with`` statement looks up ``__exit__`` as it begins, and is the only one to keep what
it found until it has ended, whatever ended it. So what it finds is an object of its own, and the end of
that object is the end of the block. ``contextlib.ExitStack`` looks it up in another way: of that nothing is
known, and nothing is concluded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial, update_wrapper
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from recipes._api.locks import LockBase
    from recipes._run.runtime import Runtime

__all__ = ["Block", "enters", "seen_leaving"]

F = TypeVar("F", bound=Callable[..., Any])
LOOKED_UP = "_exits"
"""The attribute with what each thread looked up last, maybe to enter a block."""


class Block(weakref.ref["partial[None]"]):
    """A ``with`` block that was entered; when that has ended, it is added to ``Runtime.left``.

    Nothing of Python runs then, where an interrupt would go unheard.
    """

    __slots__ = ("grant", "lock")

    grant: Any  # a grant, whose module imports this one
    lock: LockBase | None

    def leave(self) -> None:
        """Release what is still held, behind the scenes."""
        if self.lock is not None:
            self.lock._forget(self.grant._hold.owner, self.grant)  # noqa: SLF001 - the three are one
        if not self.grant._hold.ended:  # noqa: SLF001 - the three are one
            self.grant._release_behind()  # noqa: SLF001 - the three are one


def enters(what: Any, runtime: Runtime, grant: Any, lock: LockBase | None = None) -> Block | None:
    """Return the block that is entered now, to be kept until its end was seen to; None if it is not seen.

    Args:
        what: What is entered.
        runtime: What the grant belongs to.
        grant: What the end of the block releases.
        lock: Where it is noted as entered.
    """
    looked_up = what.__dict__.get(LOOKED_UP, {}).pop(get_ident(), None)
    leaving = None if looked_up is None else looked_up()
    if leaving is None:
        return None
    block = Block(leaving, runtime.left.append)
    block.grant, block.lock = grant, lock
    return block


class _SeenLeaving:
    """Gives a new object at each look-up, and notes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(cast("Any", self), function)

    def __get__(self, one: Any, kind: type | None = None) -> Any:
        if one is None:
            return self._function
        found = partial(self._function, one)
        one.__dict__.setdefault(LOOKED_UP, {})[get_ident()] = weakref.ref(found)
        return found


def seen_leaving(function: F) -> F:
    """Make an ``__exit__`` of which `enters` knows."""
    return cast("F", _SeenLeaving(function))
