"""What ``acquire`` returns in asyncio: a coroutine, and an asynchronous context manager."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from recipes.grant import AsyncGrant

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Acquiring"]

AnyAsyncGrant = TypeVar("AnyAsyncGrant", bound=AsyncGrant)


class Acquiring(Coroutine[Any, Any, AnyAsyncGrant]):
    """An acquire that was asked for: await it for the grant, or enter it with ``async with``, once.

    It is a coroutine: it can be made a task of, and Python warns of one that was never
    awaited. Type checkers report one that is not used if they are asked to report unused
    awaitables (mypy's ``unused-awaitable``) or results (pyright's ``reportUnusedCallResult``).
    """

    __slots__ = ("_grant", "_work")

    def __init__(self, work: Coroutine[Any, Any, AnyAsyncGrant]) -> None:
        self._work = work
        self._grant: AnyAsyncGrant | None = None

    def __await__(self) -> Generator[Any, Any, AnyAsyncGrant]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """Go on with ``value``; for the event loop."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an exception; for the event loop."""
        return self._work.throw(*error)

    def close(self) -> None:
        """End it where it is; for the event loop."""
        self._work.close()

    async def __aenter__(self) -> AnyAsyncGrant:
        self._grant = await self
        return await self._grant.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._grant is not None, "what is left was entered"
        await self._grant.__aexit__(kind, error, trace)
