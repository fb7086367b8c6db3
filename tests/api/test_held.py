"""What a new recipe gets of `recipes._api`, in both runtimes."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes import LockLost, LockTimeout, TooWeak, WouldDeadlock, fencing
from recipes._api.clients import checked
from tests.api.seat import AsyncSeatClient, AsyncSeats, SeatClient, Seats


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db" if request.param == "sqlite" else f"memory://{tmp_path.name}"


@pytest.fixture
def client(url: str) -> Iterator[SeatClient]:
    with SeatClient(*checked(url)) as client:
        yield client


def test_a_recipe_has_a_queue_of_its_own(client: SeatClient) -> None:
    with client.lock("x"), client.seats("x", 1) as grant:
        assert grant.held
        (holder,) = client.seats("x", 1).holders()
        assert (holder.holds, holder.mine, holder.lock) == (True, True, "x")
        assert list(client.locks()) == ["x"]
        assert len(client.locks()["x"]) == 1
        assert len(client.locks(limit=1)) == 1
        assert client.locks(contenders=0) == {"x": []}
    assert client.locks() == {}
    for wrong, error in ((-1, ValueError), (10_001, ValueError), (False, TypeError), (1.0, TypeError)):
        with pytest.raises(error, match="contenders"):
            client.locks(contenders=wrong)  # type: ignore[arg-type]


def test_a_recipe_has_the_rule_of_each_object(client: SeatClient) -> None:
    seats = client.seats("x", 2)
    first = seats.acquire()
    second = seats.acquire(1, timeout=5)
    with pytest.raises(WouldDeadlock):
        seats.acquire(timeout=5)
    late: list[type[BaseException]] = []

    def elsewhere() -> None:
        try:
            seats.acquire(timeout=0)
        except LockTimeout:
            late.append(LockTimeout)

    beside = threading.Thread(target=elsewhere)
    beside.start()
    beside.join()
    assert late == [LockTimeout]
    assert first.release()
    assert second.release()
    assert client.seats("x", 2).contenders() == []


def test_a_grant_that_does_not_fence_has_no_token(client: SeatClient) -> None:
    grant = client.seats("x", 2).acquire()
    assert grant.token is None
    assert repr(grant) == f"<SeatGrant of seats 'x' (id {grant.id}): held>"
    with pytest.raises(TooWeak), fencing.MemoryGate().admit("x", grant):
        pass


def test_what_is_said_of_it_names_its_recipe(client: SeatClient) -> None:
    seats = client.seats("x", 1)
    with pytest.raises(RuntimeError, match=r"^seats 'x' was not entered by this thread or task"):
        seats.__exit__(None, None, None)
    with pytest.raises(ZeroDivisionError) as raised, seats as grant:  # noqa: PT012 - it has to fail in there
        assert seats.evict(grant.id)
        assert not grant.verify()
        raise ZeroDivisionError
    reason = "its contender was removed from the store"
    assert raised.value.__notes__ == [f"seats 'x' (id {grant.id}) was lost before this: {reason}"]


def test_what_holds_without_a_token_can_be_removed(client: SeatClient) -> None:
    grant = client.seats("x", 2).acquire()
    (holder,) = client.seats("x", 2).holders()
    assert grant.id == holder.id
    assert client.seats("x", 2).evict(grant.id)
    assert not grant.verify()
    with pytest.raises(LockLost, match="is no longer held"):
        grant.check()


def test_the_same_recipe_in_asyncio(url: str) -> None:
    async def main() -> None:
        async with AsyncSeatClient(*checked(url)) as client:
            seats = client.seats("x", 2)
            async with seats as first, seats.acquire(1, timeout=5) as second:
                assert first.token is None
                assert second.held
                with pytest.raises(LockTimeout):
                    await asyncio.create_task(seats.acquire(timeout=0))
                assert len(await seats.contenders()) == 2
            assert await seats.contenders() == []

    asyncio.run(main())


def test_an_acquire_is_a_coroutine_and_a_recipe_names_it_in_the_warning() -> None:
    client = AsyncSeatClient(*checked("memory://"))
    work = client.seats("x", 2).acquire()
    assert isinstance(work, Coroutine)
    assert asyncio.iscoroutine(work)
    assert inspect.isawaitable(work)
    with pytest.warns(RuntimeWarning, match="'AsyncSeats.acquire' was never awaited"):
        del work


@pytest.mark.parametrize(("client", "noun"), [(SeatClient, Seats), (AsyncSeatClient, AsyncSeats)])
def test_a_client_shows_its_recipe(client: Any, noun: Any) -> None:
    parameters = list(inspect.signature(client.seats).parameters)
    assert parameters[:4] == ["self", "name", "seats", "max_hold"]
    assert inspect.signature(client.seats).return_annotation is noun
    assert client.seats.__doc__ == noun.__doc__
    assert client.seats.__qualname__ == f"{client.__name__}.seats"


def test_the_twin_shows_what_it_takes() -> None:
    one, other = inspect.signature(Seats.acquire), inspect.signature(AsyncSeats.acquire)
    assert one.parameters == other.parameters
    assert AsyncSeats.acquire.__doc__ == Seats.acquire.__doc__
    assert other.return_annotation == "Acquiring[AsyncSeatGrant]"
