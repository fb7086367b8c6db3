"""Leadership: what an election shows to all, and what its winner holds; both runtimes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from recipes._api.held import Held
from recipes._api.saying import AsyncSaying, Saying
from recipes._api.signatures import like
from recipes._callback import check_arguments, check_callback
from recipes._contract.operations import List
from recipes._programs.observing import Observed, look_up
from recipes.errors import LockLost

if TYPE_CHECKING:
    from recipes._contract.contenders import Contender
    from recipes._contract.operations import Listing, Program
    from recipes._programs.hold import HeldState
    from recipes.guarantees import Need

__all__ = ["AsyncLeadership", "AsyncWork", "BaseElection", "Leader", "Leadership", "Work"]

T = TypeVar("T")
MOST_BYTES = 1_000_000
MOST = 100
"""Among how many contenders a leader finds its own; it is the first, unless somebody meddles."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Which candidate leads, as the store shows it: for display, and to find it; no proof.

    Attributes:
        value: What it says: as it campaigned, or as it proclaimed last. Bytes of another client that are
            no UTF-8 come as lone surrogates (``surrogateescape``).
        token: The fencing token of its leadership.
    """

    value: str
    token: int


def _leader(contenders: tuple[Contender, ...]) -> Leader | None:
    """Return which of an election's contenders, from the head on, leads; None: there is none."""
    return Leader(_text(contenders[0].data), contenders[0].token) if contenders else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _data(value: str) -> bytes:
    """Return what a value is on the store.

    Raises:
        TypeError: It is no ``str``.
        ValueError: It has a lone surrogate that stands for no byte, or is too long.
    """
    if not isinstance(value, str):
        raise TypeError(f"a value is a str, not {type(value).__name__}")
    data = value.encode("utf-8", "surrogateescape")
    if len(data) > MOST_BYTES:
        raise ValueError(f"the value has {len(data)} bytes, and {MOST_BYTES} at most are allowed")
    return data


class _BaseLeadership:
    """What leadership is in both runtimes."""

    _runtime: Any
    _hold: HeldState

    @property
    def value(self) -> str:
        """What it says to others, as the store confirmed it last."""
        return _text(self._hold.data)

    def _explains(self, raised: BaseException) -> bool:
        """Whether an error, or each of a group, says that this is lost, or that the client was closed."""
        if isinstance(raised, ExceptionGroup):  # of a `TaskGroup` in the work
            return all(map(self._explains, raised.exceptions))
        return isinstance(raised, LockLost) and self._ended_by(raised)

    def _ended_by(self, lost: LockLost) -> bool:
        ended = self._hold.lost(self._runtime.now()) is not None or self._runtime.state.closed is not None
        its, labels = (lost.recipe, lost.lock, lost.token), self._hold.labels
        return ended and its == (labels["recipe"], labels["name"], self._hold.entry.token)


class Leadership(_BaseLeadership, Saying):
    """The proof of leading; use it in a ``with`` statement, or call `Grant.release` to resign.

    Its ``token`` is larger than that of every earlier leader: hand it to what only the leader may change.

    Attributes:
        lost: An event that is set when the leadership is lost.
    """

    def proclaim(self, value: str) -> None:
        """Replace what it says to others, and go on leading; waits at most the request timeout.

        One at a time: a second call waits for the first. A call that raised may still be done, but never
        after a later one.

        Args:
            value: At most 1 000 000 bytes of UTF-8.

        Raises:
            LockLost: The leadership was lost, or given back.
            StoreUnavailable: The store gave no answer: it was written, or not, or will be.
            ReentrantCall: A signal handler called it amid another one of the same thread.
            ValueError: The value does not fit; nothing was sent.
        """
        self._say(_data(value), MOST)


class AsyncLeadership(_BaseLeadership, AsyncSaying):
    """The proof of leading, in asyncio; use it in ``async with``, or call `AsyncGrant.release` to resign.

    Its ``token`` is larger than that of every earlier leader: hand it to what only the leader may change.

    Attributes:
        lost: An event that is set when the leadership is lost.
    """

    @like(Leadership.proclaim)
    async def proclaim(self, value: str) -> None:
        await self._say(_data(value), MOST)

    def _end_with_client(self) -> None:
        """Have the body cancelled also if somebody else closes the client, which gives this back."""
        told = self._hold.on_end

        def on_end() -> None:
            if told is not None:
                told()
            closed = self._runtime.state.closed is not None
            if closed and self._hold.released and not self._in_body():
                self._interrupt()

        self._hold.on_end = on_end


Work: TypeAlias = Callable[[Leadership], T]
AsyncWork: TypeAlias = Callable[[AsyncLeadership], Awaitable[T]]


def _lead(campaign: Callable[[], Leadership], work: Work[T]) -> T:
    """Have the leader work; campaign again whenever the leadership was lost, and the work has ended."""
    check_callback("what a leader does", work, "the leadership")
    while True:
        leadership = campaign()
        try:
            with leadership:
                return work(leadership)
        except (LockLost, ExceptionGroup) as raised:
            if not leadership._explains(raised):  # noqa: SLF001 - one of us
                raise
        except BaseException:
            if not leadership._hold.ended:  # noqa: SLF001 - an interrupt, before the block was entered
                leadership._release_behind()  # noqa: SLF001 - one of us
            raise


async def _lead_async(campaign: Callable[[], Awaitable[AsyncLeadership]], work: AsyncWork[T]) -> T:
    """The same in asyncio, where the work is cancelled on a loss, or if the client is closed."""
    if not callable(work):
        raise TypeError(f"what a leader does is a coroutine function, not {work!r}")
    check_arguments("what a leader does", work, "the leadership")
    while True:
        leadership = await campaign()
        leadership._end_with_client()  # noqa: SLF001 - one of us
        try:
            async with leadership:
                working: Any = work(leadership)
                if not isawaitable(working):
                    said = f"what a leader does is a coroutine function; {work!r} returned {working!r}"
                    raise TypeError(said)
                done: T = await working
                return done
        except (LockLost, ExceptionGroup) as raised:
            if not leadership._explains(raised):  # noqa: SLF001 - one of us
                raise


class BaseElection(Held):
    """What an election is in both runtimes."""

    _recipe: ClassVar[str] = "election"
    _needs: ClassVar[tuple[Need, ...]] = ("fair",)
    _data, _lead, _lead_async = staticmethod(_data), staticmethod(_lead), staticmethod(_lead_async)

    def _look(self) -> Program[Leader | None]:
        listing: Listing = yield from look_up(List(self._queue, 1))
        return _leader(listing.contenders)

    @property
    def _observed(self) -> tuple[Any, Observed, Callable[[tuple[Contender, ...]], Leader | None]]:
        return self._runtime, Observed(self._queue, 1), _leader
