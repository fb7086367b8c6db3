"""A recipe as it is added: a rule, and a noun in both runtimes. So many sit at once, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from recipes import AsyncClient, AsyncGrant, Client, Grant
from recipes._api.acquiring import Acquiring
from recipes._api.held import Held
from recipes._api.held_tasks import AsyncHeld
from recipes._api.held_threads import BlockingHeld
from recipes._api.options import AcquireOptions
from recipes._api.signatures import Recipe, like
from recipes._contract.contenders import Ahead
from recipes._contract.rule import Rule

__all__ = ["AsyncSeatClient", "AsyncSeats", "SeatClient", "Seats"]


def seated(seats: int) -> Rule:
    """Return the rule: blocked by the one that is so many ahead."""

    def blocked_by(ahead: Ahead) -> Ahead:
        return ahead[seats - 1 : seats]

    return Rule("W", blocked_by, depth=seats, steps_up=False, mode="shared")


class SeatGrant(Grant):
    """The proof of sitting."""

    _fences = False


class AsyncSeatGrant(AsyncGrant):
    """The proof of sitting, in asyncio."""

    _fences = False


class _BaseSeats(Held):
    """What seats are in both runtimes."""

    _recipe: ClassVar[str] = "seats"

    def __init__(self, runtime: Any, name: str, seats: int, **options: Any) -> None:
        super().__init__(runtime, name, **options)
        self._rule = seated(seats)


class Seats(_BaseSeats, BlockingHeld[SeatGrant]):
    """So many seats.

    Args:
        name: Their name.
        seats: How many there are.
        max_hold: As of a lock.
    """

    _grant = SeatGrant

    def __init__(self, runtime: Any, name: str, seats: int, *, max_hold: float | None = None) -> None:
        super().__init__(runtime, name, seats, max_hold=max_hold)

    def acquire(
        self,
        row: int = 1,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> SeatGrant:
        """Sit down in a row."""
        return self._acquire(AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position))


class AsyncSeats(_BaseSeats, AsyncHeld[AsyncSeatGrant]):
    """So many seats, in asyncio.

    Args:
        name: Their name.
        seats: How many there are.
        max_hold: As of a lock.
        on_lost: As of a lock.
    """

    _grant = AsyncSeatGrant

    def __init__(
        self,
        runtime: Any,
        name: str,
        seats: int,
        *,
        max_hold: float | None = None,
        on_lost: Literal["cancel", "tell"] = "cancel",
    ) -> None:
        super().__init__(runtime, name, seats, max_hold=max_hold, on_lost=on_lost)

    @like(Seats.acquire)
    def acquire(
        self,
        row: int = 1,
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> Acquiring[AsyncSeatGrant]:
        return self._acquiring(AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position))


class SeatClient(Client):
    """A client with one more recipe."""

    seats = Recipe(Seats)


class AsyncSeatClient(AsyncClient):
    """The same for asyncio."""

    seats = Recipe(AsyncSeats)
