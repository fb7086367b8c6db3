"""Grants that say something to others, and may replace it while they are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recipes._mutex import new_rlock
from recipes._programs.rewriting import rewrite
from recipes.errors import ReentrantCall
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.tasks import AsyncRuntime

__all__ = ["AsyncSaying", "Saying"]


class Saying(Grant):
    """A grant that says something, replaced by one call at a time; each waits at most the request timeout."""

    def __init__(self, runtime: BlockingRuntime, hold: HeldState) -> None:
        self._speaking = new_rlock()
        super().__init__(runtime, hold)

    def _say(self, data: bytes, most: int) -> None:
        if self._speaking._is_owned():  # noqa: SLF001 - nobody else knows
            raise ReentrantCall
        self.check()  # first: in a forked child nobody frees the lock
        with self._speaking:
            self.check()
            program = rewrite(self._hold, None, data, most)
            if not self._runtime.run(program, self._asking()):
                raise self._lost_error()


class AsyncSaying(AsyncGrant):
    """A grant that says something, in asyncio."""

    def __init__(self, runtime: AsyncRuntime, hold: HeldState, *, cancels: bool) -> None:
        import asyncio  # noqa: PLC0415 - as in lock.py

        self._speaking = asyncio.Lock()
        super().__init__(runtime, hold, cancels=cancels)

    async def _say(self, data: bytes, most: int) -> None:
        self.check()  # first, as above
        async with self._speaking:
            self.check()
            program = rewrite(self._hold, None, data, most)
            if not await self._runtime.run(program, self._asking()):
                raise self._lost_error()
