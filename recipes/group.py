"""Group membership: the processes that are here, each under an id, and what they say of themselves."""

from __future__ import annotations

from typing import Any, Literal

from recipes._api.acquiring import Acquiring
from recipes._api.held_tasks import AsyncQueued
from recipes._api.held_threads import BlockingQueued
from recipes._api.membership import ALL, BaseGroup, BaseMembership, Member, shown
from recipes._api.observing import AsyncObserving, Observing
from recipes._api.saying import AsyncSaying, Saying
from recipes._api.signatures import like
from recipes.partition import AsyncSharingGrant, SharingGrant

__all__ = ["AsyncGroup", "AsyncMembership", "Group", "Member", "Membership"]


class Membership(BaseMembership, Saying, SharingGrant):
    """The proof of being the one member of a group with this id, until it is released or lost.

    Its ``token`` is larger than that of every earlier member with the same id, and says nothing of others.
    """

    def update(self, data: bytes) -> None:
        """Say this from now on to those that ask for the members, or watch them.

        Waits at most the request timeout, and for other updates of it. What is given up then may still
        be written, but never after a later update. A guard that was made before the first ends with it.

        Args:
            data: As for `Group.join`.

        Raises:
            LockLost: The membership was lost, or released.
            StoreUnavailable: The store gave no answer: it was written, or not, or will be.
            ReentrantCall: A signal handler called it amid another update of the same thread.
            ValueError: The data is longer than 1 000 000 bytes; nothing was sent.
        """
        self._say(self._saying(data), ALL)


class AsyncMembership(BaseMembership, AsyncSaying, AsyncSharingGrant):
    """The proof of being the one member of a group with this id, in asyncio; see `Membership`."""

    @like(Membership.update)
    async def update(self, data: bytes) -> None:
        await self._say(self._saying(data), ALL)


class Group(BaseGroup, BlockingQueued[Membership]):
    """A group: the processes that are here, each a member under an id that no other has at the time.

    A member that crashes leaves when its session ends. Cheap to make, which does no I/O, and safe to share.
    A lock of its name is another thing.

    Args:
        name: The group's name.

    Raises:
        ValueError: The name does not fit.
    """

    _grant = Membership

    def __init__(self, runtime: Any, name: str) -> None:
        super().__init__(runtime, name)

    def join(
        self,
        data: bytes = b"",
        *,
        id: str | None = None,  # noqa: A002 - it is what `Member.id` is
        timeout: float | None = None,
    ) -> Membership:
        """Be a member from now on, until the membership is released or lost.

        In asyncio ``await`` it, or enter it with ``async with``.

        Args:
            data: What the others see of it, as an address: at most 1 000 000 bytes. Every client that
                watches reads that of all members after each change, so keep it short.
            id: The member's id, of 1 character to 1 024 bytes once encoded. This waits for as long as
                another has it, one that crashed until its session ends. None: a new one, of its own.
            timeout: Seconds for the whole call, as for `Lock.acquire`.

        Raises:
            AlreadyJoined: Another had the id until the time was over; nothing is left behind.
            WouldDeadlock: This thread or task is the member that has the id.
            RecipesError: As for `Lock.acquire`; a ValueError if the data, the id or the timeout does not fit.
        """
        joining = self._joining(id)
        return joining._acquire(joining._saying(data, timeout))  # noqa: SLF001 - one of its own

    def members(self) -> tuple[Member, ...]:
        """Return the members, as the store shows them, first come first.

        One that crashed is among them until its session ends, and one that waits for its id is not.

        Raises:
            RecipesError: As for `Lock.holders`.
        """
        return shown(self._outside(self._looking()).contenders)

    def watch(self) -> Observing[tuple[Member, ...]]:
        """Return what yields the members now, and then after every change of them.

        It skips what came and went while nobody asked, never misses the last, and outlasts outages and
        lost sessions. However many watch a group by one client, that is one watch on the store: one that
        begins later shows first what that has seen last, which may be a moment old.
        """
        return Observing(self._runtime, self._observed(), shown)


class AsyncGroup(BaseGroup, AsyncQueued[AsyncMembership]):
    """A group for asyncio, as `Group` is for threads; owners are tasks.

    Args:
        name: The group's name.
        on_lost: What ``async with`` does when the membership is lost: "cancel" the body, or "tell" alone.

    Raises:
        ValueError: The name or ``on_lost`` does not fit.
    """

    _grant = AsyncMembership

    def __init__(self, runtime: Any, name: str, *, on_lost: Literal["cancel", "tell"] = "cancel") -> None:
        super().__init__(runtime, name, on_lost=on_lost)

    @like(Group.join)
    def join(
        self,
        data: bytes = b"",
        *,
        id: str | None = None,  # noqa: A002 - as there
        timeout: float | None = None,
    ) -> Acquiring[AsyncMembership]:
        joining = self._joining(id)
        return joining._acquiring(joining._saying(data, timeout), "join")  # noqa: SLF001 - one of its own

    @like(Group.members)
    async def members(self) -> tuple[Member, ...]:
        return shown((await self._outside(self._looking())).contenders)

    @like(Group.watch)
    def watch(self) -> AsyncObserving[tuple[Member, ...]]:
        return AsyncObserving(self._runtime, self._observed(), shown)
