"""The latch: closed until it was counted down so many times, then open for good."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from recipes._api.shared import AsyncShared, BlockingShared, Shared, whole
from recipes._api.signatures import like
from recipes._contract.deadline import duration
from recipes._contract.operations import Program, Stored
from recipes._programs.observing import Observer
from recipes._programs.values import Change, read, update, wait_until
from recipes.errors import LatchMismatch, StoreRefused

__all__ = ["AsyncLatch", "Latch"]

MOST = 10**9
_NUMBERS = re.compile(rb"([0-9]{1,10}) ([0-9]{1,10})")


def _count(what: str, number: int) -> int:
    if not 1 <= whole(what, number) <= MOST:
        raise ValueError(f"{what}={number}: 1 to {MOST:,} fit".replace(",", " "))
    return number


class _BaseLatch(Shared):
    """What a latch is in both runtimes."""

    _recipe: ClassVar[str] = "latch"

    def __init__(self, runtime: Any, name: str, count: int) -> None:
        super().__init__(runtime, name)
        self._count = _count("count", count)

    def _left(self, stored: Stored) -> int:
        """Return how many are missing yet, by what is stored: the count, and what is left of it."""
        if stored.data is None:
            return self._count
        numbers = _NUMBERS.fullmatch(stored.data)
        if numbers is None:
            said = f"latch {self._name!r} is {stored.data[:40]!r}, which no latch writes"
            raise StoreRefused(self._runtime.backend.label, said)
        count, left = map(int, numbers.groups())
        if count != self._count:
            raise LatchMismatch(self._name, self._count, count)
        return left

    def _read(self) -> Program[int]:
        return self._left((yield from read(self._key)))

    def _count_down(self, n: int) -> Program[int]:
        after = 0

        def step(stored: Stored) -> Change | None:
            nonlocal after
            left = self._left(stored)
            after = max(left - n, 0)
            return Change(b"%d %d" % (self._count, after)) if left else None

        yield from update(self._writing("counted"), step, self._runtime.seen)
        return after

    def _open(self, stored: Stored) -> bool:
        return not self._left(stored)

    def _until_open(self, observer: Observer) -> Program[bool]:
        return wait_until(observer, self._open)


class Latch(_BaseLatch, BlockingShared):
    """Closed until it was counted down ``count`` times, by whichever clients; then open for good.

    Each count counts once, whatever is lost on the way. It stays when its clients have gone: to begin again,
    take another name. Cheap to make, which does no I/O, and safe to share.

    Args:
        name: The latch's name.
        count: How many times, 1 to 1 000 000 000; the same for all clients.

    Raises:
        ValueError: The name or the count does not fit.
        TooWeak: The store keeps no values.
    """

    def count_down(self, n: int = 1) -> int:
        """Count down, to 0 at the least, and return how many are left; waits at most the request timeout.

        Args:
            n: How many at once, 1 to 1 000 000 000.

        Raises:
            LatchMismatch: It was made with another count.
            OutcomeUnknown: It cannot be known whether it was counted; it is not counted twice.
            RecipesError: As for `Value.set`.
        """
        return self._run(self._count_down(_count("n", n)))

    def left(self) -> int:
        """Return how many are left; 0: it is open.

        Raises:
            LatchMismatch: It was made with another count.
            RecipesError: As for `Value.get`.
        """
        return self._run(self._read())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is open, through outages and lost sessions; all waits of a client are one watch.

        Args:
            timeout: Seconds to wait at most; 0: look once; None: without end.

        Raises:
            LatchMismatch: It was made with another count.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            StoreUnavailable: With a timeout of 0: the store gave no answer.
        """
        if duration("timeout", timeout) == 0:
            return self.left() == 0
        return self._observe(timeout, self._until_open)


class AsyncLatch(_BaseLatch, AsyncShared):
    """Closed until it was counted down ``count`` times, for asyncio, as `Latch` is for threads.

    Args:
        name: The latch's name.
        count: How many times, 1 to 1 000 000 000; the same for all clients.

    Raises:
        ValueError: The name or the count does not fit.
        TooWeak: The store keeps no values.
    """

    @like(Latch.count_down)
    async def count_down(self, n: int = 1) -> int:
        return await self._run(self._count_down(_count("n", n)))

    @like(Latch.left)
    async def left(self) -> int:
        return await self._run(self._read())

    @like(Latch.wait)
    async def wait(self, timeout: float | None = None) -> bool:
        if duration("timeout", timeout) == 0:
            return await self.left() == 0
        return await self._observe(timeout, self._until_open)
