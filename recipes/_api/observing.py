"""Observing a queue: what it shows now, and again after every change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from recipes._contract.deadline import Deadline, Expired, duration
from recipes._programs.observing import Observed, Observer, Over
from recipes.errors import Closed, SessionLost

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._run.runtime import Call

__all__ = ["AsyncObserving", "Observing"]

T = TypeVar("T")
D = TypeVar("D")


class _Observing(Generic[T]):
    """What both runtimes share.

    Args:
        runtime: The client's.
        observed: What is observed.
        shown: Makes what users see of a queue, from its head on, or of a value.
    """

    def __init__(self, runtime: Any, observed: Observed, shown: Callable[[Any], T]) -> None:
        self._runtime = runtime
        self._observed = observed
        self._shown = shown
        self._joined: tuple[Observer, Call] | None = None
        self._last: tuple[int] | tuple[int, T] = (0,)  # the number of the last state, and how it looked
        self._closed = False

    def _next(self, timeout: float | None) -> tuple[Program[tuple[int, T]], Call]:
        """Return what waits for the next state; joins the others that observe the same before the first."""
        within_s = duration("timeout", timeout)
        if self._joined is None:
            if self._closed:
                raise Over
            call: Call = self._runtime.call(None, None)
            self._joined = self._runtime.hub.join(self._observed, call.mailbox), call
        observer, call = self._joined
        if self._closed:  # looked at last: if it is closed meanwhile, there may be nothing to leave yet
            self._leave()
        call.deadline = Deadline.after(within_s, self._runtime.now())
        return self._another(observer), call

    def _another(self, observer: Observer) -> Program[tuple[int, T]]:
        """Wait for a state that looks another than the last; not all that changes in a queue is shown."""
        number, *last = self._last
        while True:
            try:
                number, shown = yield from observer.next(number)
            except SessionLost:  # this is a child of the process: the next call begins anew
                self._runtime.hub.leave(self._observed, observer)
                self._joined, self._last = None, (0,)
                raise
            seen = observer.topic.view(shown, self._shown)
            if last != [seen]:
                return number, seen

    def _took(self, found: tuple[int, T]) -> T:
        """Note what was shown, last of all: what an interrupt takes away before is shown again."""
        self._last = found
        return found[1]

    def _leave(self) -> None:
        self._closed = True
        if self._joined is not None:
            observer = self._joined[0]
            observer.close()  # first: an interrupt behind it leaves no thread waiting
            self._runtime.hub.leave(self._observed, observer)


class Observing(_Observing[T]):
    """What a queue shows now, and after every change of that; skips what came and went while nobody asked.

    An iterator for one thread; close it, or leave it in a ``with`` statement. However many there are of one
    client for the same, they are one watch on the store.
    """

    @overload
    def next(self, timeout: float | None = None) -> T | None: ...

    @overload
    def next(self, timeout: float | None, default: D) -> T | D: ...

    def next(self, timeout: float | None = None, default: Any = None) -> Any:
        """Wait for the next state, at most ``timeout`` seconds; return ``default`` if there was none.

        Raises:
            Closed: It was closed, by this thread or task or another.
            ClientClosed: The client was closed.
            SessionLost: In a child of the process that began to observe; the next call begins anew.
            StoreRefused: The store said no.
        """
        try:
            return self._asked(timeout)
        except Expired:
            return default

    def close(self) -> None:
        """Observe no more; the last of several ends the watch.

        A thread that waits for what is next does so no longer: for it, too, this is the end.
        """
        self._leave()

    def _asked(self, timeout: float | None) -> T:
        try:
            return self._took(self._runtime.run(*self._next(timeout)))
        except Over:
            raise Closed from None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._asked(None)
        except Closed:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncObserving(_Observing[T]):
    """Same as `Observing`, but for asyncio: an asynchronous iterator, for one task."""

    @overload
    async def next(self, timeout: float | None = None) -> T | None: ...

    @overload
    async def next(self, timeout: float | None, default: D) -> T | D: ...

    async def next(self, timeout: float | None = None, default: Any = None) -> Any:
        """Same as `Observing.next`, but awaits."""
        try:
            return await self._asked(timeout)
        except Expired:
            return default

    def close(self) -> None:
        """Same as `Observing.close`; waits for nothing."""
        self._leave()

    async def _asked(self, timeout: float | None) -> T:
        try:
            return self._took(await self._runtime.run(*self._next(timeout)))
        except Over:
            raise Closed from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._asked(None)
        except Closed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()
