"""Partitions that could not begin leave nothing behind: neither an item, nor what is observed."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import recipes
from integration.harness.process import eventually
from recipes._rules.members import member
from recipes._rules.sharing import Sharing
from tests.run.test_tasks import until

if TYPE_CHECKING:
    from recipes import AsyncClient

ITEMS = ["a", "b"]
MANY = [f"i{number}" for number in range(8)]


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("started", [False, True], ids=["before it runs", "as it runs"])
def test_partitions_that_could_not_begin(
    error: BaseException, started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recipes.connect(f"memory://{uuid.uuid4()}") as client:
        runtime = client._runtime
        real, left = runtime.run_behind, [1]

        def run_behind(program: Any, call: Any) -> None:
            shares = program.gi_code.co_name == "share"
            if shares and left and not started:
                left.pop()
                raise error
            real(program, call)
            if shares and left:
                left.pop()
                raise error

        monkeypatch.setattr(runtime, "run_behind", run_behind)
        with client.group("g").join(id="one") as membership:
            mine = membership.partitions(ITEMS)
            with pytest.raises(type(error)):
                next(mine)
            with pytest.raises(recipes.Closed):
                mine.next(timeout=5)
            mine.close()
            again = membership.partitions(ITEMS)
            seen = again.next(timeout=10)
            while seen is not None and len(seen) < len(ITEMS):
                seen = again.next(timeout=10)
            assert seen is not None
            assert [*seen] == ITEMS
            again.close()
            assert eventually(lambda: not runtime.hub._watched, 30)  # it is over a moment before


async def cancelled(client: AsyncClient) -> None:
    """Cancel what runs behind, as code does that cancels all tasks but its own."""
    behind = {*client._runtime._behind}
    assert behind
    for task in behind:
        task.cancel()
    await asyncio.wait(behind)


async def until_has(partitions: Any, items: list[str]) -> None:
    seen: Any = None
    while seen is None or [*seen] != items:
        seen = await partitions.next(20)
        assert seen is not None, f"it should come to have {items}"


def items_of(client: AsyncClient) -> list[Any]:
    return [grant for grant in client.grants if grant.name.startswith("g/")]


@pytest.mark.parametrize("how", ["close", "release", "next"])
def test_other_code_that_cancels_the_tasks_ends_no_sharing(how: str) -> None:
    """Nobody could give the items back any more, and all that was asked said that the client was closed."""

    kinds = [member("one").kind, member("two").kind]
    own, others = (list(Sharing(tuple(MANY)).of(kind, kinds)) for kind in kinds)
    assert own
    assert others

    async def main() -> None:
        url = f"memory://{uuid.uuid4()}"
        async with recipes.connect_async(url) as client, recipes.connect_async(url) as other:
            membership = await client.group("g").join(id="one")
            mine = membership.partitions(MANY)
            await until_has(mine, MANY)
            theirs = (await other.group("g").join(id="two")).partitions(MANY)
            await cancelled(client)
            if how == "next":
                waiting = asyncio.ensure_future(until_has(theirs, others))
                await until_has(mine, own)
                assert await mine.next(0) is None
                await waiting
                await theirs.close()
                await until_has(mine, MANY)
                await mine.close()
            elif how == "close":
                assert len(items_of(client)) == len(MANY), "its user may work on them"
                await mine.close()
            else:
                await membership.release()
                await until_has(theirs, MANY)
            if how == "close":
                assert items_of(client) == []
                await until_has(theirs, MANY)
                await theirs.close()
                again = membership.partitions(MANY)
                await until_has(again, MANY)
            else:
                await until(lambda: not items_of(client))

    asyncio.run(main())


def test_a_member_leaves_though_no_thread_can_be_started() -> None:
    """What other code had ended was to go on first, and its error kept the membership from being released."""

    def refused(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with recipes.connect(f"memory://{uuid.uuid4()}") as client:
        membership = client.group("g").join(id="one")
        mine: Any = membership.partitions(ITEMS)
        mine.next()
        mine._parts.topic.restart = refused
        mine._parts.topic.lapse()
        assert membership.release()
        assert client.group("g").members() == ()


def test_what_is_still_being_given_back_is_in_the_way_of_the_next() -> None:
    """It said to close first what had been closed."""
    with (
        recipes.connect(f"memory://{uuid.uuid4()}") as client,
        client.group("g").join(id="one") as membership,
    ):
        mine: Any = membership.partitions(ITEMS)
        mine._begun = "by a program that hangs"
        with pytest.raises(RuntimeError, match="close its partitions first"):
            membership.partitions(ITEMS)
        mine._parts.closing = True
        with pytest.raises(recipes.StoreUnavailable, match="not all given back yet"):
            membership.partitions(ITEMS)
        mine._parts.over = True
        membership.partitions(ITEMS)


def test_an_assignment_that_an_interrupt_takes_away_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with recipes.connect(f"memory://{uuid.uuid4()}") as client:
        run = client._runtime.run
        with client.group("g").join(id="one") as membership, membership.partitions(["a"]) as mine:
            while not mine.next(timeout=10):
                pass
            mine._given = 0, type(mine._given[1])({}, {}, {})  # as if it had asked for none yet

            def struck(*given: Any) -> None:
                run(*given)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(client._runtime, "run", struck)
                with pytest.raises(KeyboardInterrupt):
                    mine.next(timeout=0)
            found = mine.next(timeout=0)
            assert found is not None
            assert [*found.new] == ["a"]
