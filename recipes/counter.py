"""The counter: a whole number that all clients share, to which every addition is made once."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from recipes._api.observing import AsyncObserving, Observing
from recipes._api.shared import AsyncShared, BlockingShared, Shared, whole
from recipes._api.signatures import like
from recipes._contract.operations import Program, Stored
from recipes._programs.values import Change, read, update
from recipes.errors import StoreRefused

__all__ = ["AsyncCounter", "Counter"]

MOST_DIGITS = 4300
_NUMBER = re.compile(rb"-?[0-9]{1,%d}" % MOST_DIGITS)
_TOO_LARGE = 10**MOST_DIGITS


def _fits(what: str, number: int) -> int:
    if not -_TOO_LARGE < whole(what, number) < _TOO_LARGE:
        raise ValueError(f"{what} has more than {MOST_DIGITS} digits")
    return number


class _BaseCounter(Shared):
    """What a counter is in both runtimes."""

    _recipe: ClassVar[str] = "counter"

    def __init__(self, runtime: Any, name: str, start: int = 0) -> None:
        super().__init__(runtime, name)
        self._start = _fits("start", start)

    def _number(self, stored: Stored) -> int:
        if stored.data is None:
            return self._start
        if not _NUMBER.fullmatch(stored.data):
            said = f"counter {self._name!r} is {stored.data[:40]!r}, which is no whole number"
            raise StoreRefused(self._runtime.backend.label, said)
        return int(stored.data)

    def _get(self) -> Program[int]:
        return self._number((yield from read(self._key)))

    def _add(self, n: int) -> Program[int]:
        def step(stored: Stored) -> Change | None:
            return Change(b"%d" % _fits("the sum", self._number(stored) + n))

        change = yield from update(self._writing("added"), step, self._runtime.seen)
        assert change is not None, "every sum is written"
        return int(change.data or b"0")

    def _set_if(self, new: int, expected: int) -> Program[bool]:
        def step(stored: Stored) -> Change | None:
            return Change(b"%d" % new) if self._number(stored) == expected else None

        return (yield from update(self._writing("written"), step, self._runtime.seen)) is not None


class Counter(_BaseCounter, BlockingShared):
    """A whole number that all clients share; every addition counts once, whatever is lost on the way.

    It stays when its clients have gone. Cheap to make, which does no I/O, and safe to share. Each call waits
    at most the request timeout. A value of its name is another thing.

    Args:
        name: The counter's name.
        start: What it is before anything was written. All clients should name the same.

    Raises:
        ValueError: The name or the start does not fit.
        TooWeak: The store keeps no values.
    """

    def add(self, n: int = 1) -> int:
        """Add a number, which may be negative, and return the sum.

        Args:
            n: Of at most 4 300 digits, as the sum.

        Raises:
            OutcomeUnknown: It cannot be known whether it was added; it is not added twice.
            StoreUnavailable: The store could not be asked; nothing was added, nor will be.
            StoreRefused: The store said no, or what is there is no number.
            RecipesError: As for `Value.set`.
            ValueError: A number is too long.
        """
        return self._run(self._add(_fits("n", n)))

    def get(self) -> int:
        """Return the number; it is read linearizably, if the store is.

        Raises:
            StoreRefused: What is there is no number.
            RecipesError: As for `Value.get`.
        """
        return self._run(self._get())

    def set_if(self, new: int, expected: int) -> bool:
        """Replace the number if it is what is expected; return whether it was.

        Args:
            new: Of at most 4 300 digits.
            expected: What it has to be.

        Raises:
            RecipesError: As for `add`.
        """
        return self._run(self._set_if(_fits("new", new), _fits("expected", expected)))

    def changes(self) -> Observing[int]:
        """Return what yields the number now, and then after every change, as `Value.changes` does."""
        return Observing(self._runtime, self._observed, self._number)


class AsyncCounter(_BaseCounter, AsyncShared):
    """A whole number that all clients share, for asyncio, as `Counter` is for threads.

    Args:
        name: The counter's name.
        start: What it is before anything was written. All clients should name the same.

    Raises:
        ValueError: The name or the start does not fit.
        TooWeak: The store keeps no values.
    """

    @like(Counter.add)
    async def add(self, n: int = 1) -> int:
        return await self._run(self._add(_fits("n", n)))

    @like(Counter.get)
    async def get(self) -> int:
        return await self._run(self._get())

    @like(Counter.set_if)
    async def set_if(self, new: int, expected: int) -> bool:
        return await self._run(self._set_if(_fits("new", new), _fits("expected", expected)))

    @like(Counter.changes)
    def changes(self) -> AsyncObserving[int]:
        return AsyncObserving(self._runtime, self._observed, self._number)
