"""Leadership in each runtime: what `run` does with its work, and proclamations that strike each other."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import recipes
from recipes import AsyncLeadership, Leader, Leadership, LockLost, ReentrantCall, WouldDeadlock
from recipes.election import Election

PATIENCE_S = 20


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def client(url: str) -> Iterator[recipes.Client]:
    with recipes.connect(url) as one:
        yield one


def lose(leadership: Leadership) -> None:
    """Have it removed as by an operator, and notice that."""
    assert leadership._runtime.client.election(leadership.name).evict(leadership.token)
    assert not leadership.verify()


async def lose_async(leadership: AsyncLeadership) -> None:
    assert await leadership._runtime.client.election(leadership.name).evict(leadership.token)
    assert not await leadership.verify()


def in_asyncio(url: str, main: Callable[[Any], Any], **options: Any) -> Any:
    async def run() -> Any:
        async with recipes.connect_async(url) as client, asyncio.timeout(PATIENCE_S):
            return await main(client.election("x", **options))

    return asyncio.run(run())


# Threads.


def test_work_that_returns_although_it_was_lost_is_called_again(client: recipes.Client) -> None:
    seen: list[tuple[int | None, bool]] = []

    def work(leadership: Leadership) -> int:
        if not seen:
            lose(leadership)
        seen.append((leadership.token, leadership.held))
        return len(seen)

    assert client.election("x").run(work) == 2
    assert [held for _, held in seen] == [False, True]
    assert seen[0][0] != seen[1][0]
    assert client.election("x").leader() is None


def test_a_loss_that_only_the_end_finds_out_is_one(client: recipes.Client) -> None:
    election, calls = client.election("x"), []

    def work(leadership: Leadership) -> str:
        calls.append(leadership)
        if len(calls) == 1:
            assert election.evict(leadership.token)  # and nothing has noticed
        return "done"

    assert election.run(work) == "done"
    assert len(calls) == 2


def test_an_error_besides_the_loss_is_raised_with_a_note_of_it(client: recipes.Client) -> None:
    def work(leadership: Leadership) -> None:
        lose(leadership)
        raise LookupError

    with pytest.raises(LookupError) as raised:
        client.election("x").run(work)
    assert "was lost before this" in raised.value.__notes__[0]


def test_the_error_of_a_leadership_that_was_given_back_is_the_users(client: recipes.Client) -> None:
    def work(leadership: Leadership) -> None:
        leadership.release()
        leadership.check()

    with pytest.raises(LockLost, match="released"):
        client.election("x").run(work)


def test_work_is_not_called_with_a_leadership_that_died_on_the_way(
    client: recipes.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, campaigns = Election.campaign, []

    def dying(self: Election, *args: Any, **options: Any) -> Leadership:
        leadership = campaign(self, *args, **options)
        if not campaigns:
            lose(leadership)
        campaigns.append(leadership)
        return leadership

    monkeypatch.setattr(Election, "campaign", dying)
    assert client.election("x").run(lambda leadership: leadership) is campaigns[1]
    assert len(campaigns) == 2


def test_work_that_campaigns_for_what_it_leads_is_refused(client: recipes.Client) -> None:
    election = client.election("x")
    with pytest.raises(WouldDeadlock):
        election.run(lambda leadership: client.election("x").campaign(timeout=PATIENCE_S))
    assert election.leader() is None


def test_a_loop_over_the_leaders(client: recipes.Client) -> None:
    election = client.election("x")
    seen: list[Leader | None] = []
    with election.campaign("a") as leadership:
        for leader in election.observe():
            seen.append(leader)
            if len(seen) == 1:
                leadership.proclaim("b")
            elif leader is not None and leader.value == "b":
                leadership.release()
            else:
                break
    assert seen == [Leader("a", leadership.token), Leader("b", leadership.token), None]


def test_a_proclamation_of_what_is_said_already_is_no_change(client: recipes.Client) -> None:
    election = client.election("x")
    with election.campaign("a") as leadership, election.observe() as leaders:
        assert next(leaders) == Leader("a", leadership.token)
        leadership.proclaim("a")
        assert leaders.next(0.2, "nothing") == "nothing"
        leadership.proclaim("b")
        assert next(leaders) == Leader("b", leadership.token)


def test_a_signal_handler_may_not_proclaim_amid_a_proclamation(
    client: recipes.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck: list[BaseException] = []
    with client.election("x").campaign("a") as leadership:
        run = client._runtime.run

        def handler(*_: object) -> None:
            try:
                leadership.proclaim("from the handler")
            except ReentrantCall as refused:
                struck.append(refused)

        def interrupted(*args: Any, **options: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)
            return run(*args, **options)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            monkeypatch.setattr(client._runtime, "run", interrupted)
            leadership.proclaim("b")
        finally:
            monkeypatch.undo()
            signal.signal(signal.SIGUSR1, before)
        assert len(struck) == 1
        assert client.election("x").leader() == Leader("b", leadership.token)
        leadership.proclaim("c")  # nothing stays taken


def test_a_forked_child_does_not_lead(client: recipes.Client) -> None:
    with client.election("x").campaign("parent") as leadership:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                leadership.proclaim("child")
            except LockLost:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert leadership.held
        assert client.election("x").leader() == Leader("parent", leadership.token)


# Tasks.


def test_work_that_takes_its_cancelling_for_the_end_is_called_again(url: str) -> None:
    calls: list[AsyncLeadership] = []

    async def work(leadership: AsyncLeadership) -> str:
        calls.append(leadership)
        if len(calls) == 1:
            losing = asyncio.create_task(lose_async(leadership))
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                await losing
                return "lost"
        return "done"

    assert in_asyncio(url, lambda election: election.run(work)) == "done"
    assert [leadership.held for leadership in calls] == [False, False]


def test_nothing_of_a_cancelled_leadership_is_left_in_the_task(url: str) -> None:
    calls: list[AsyncLeadership] = []

    async def work(leadership: AsyncLeadership) -> None:
        calls.append(leadership)
        if len(calls) < 3:
            await lose_async(leadership)
            await asyncio.sleep(PATIENCE_S)

    async def main(election: Any) -> int:
        await election.run(work)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert in_asyncio(url, main) == 0
    assert len(calls) == 3


def test_a_cancel_beside_a_loss_ends_it(url: str) -> None:
    calls: list[AsyncLeadership] = []

    async def main(election: Any) -> None:
        begun = asyncio.Event()

        async def work(leadership: AsyncLeadership) -> None:
            calls.append(leadership)
            begun.set()
            try:
                await asyncio.sleep(PATIENCE_S)
            finally:
                running.cancel()  # from outside, while the loss ends it
                await asyncio.sleep(0)

        running = asyncio.create_task(election.run(work))
        await begun.wait()
        await lose_async(calls[0])
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await election.leader() is None

    in_asyncio(url, main)
    assert len(calls) == 1


def in_a_group(beside: type[Exception] | None) -> Any:
    """Return work of which a task notices the loss, and another may fail; ends in its second term."""
    terms: list[AsyncLeadership] = []

    async def child(leadership: AsyncLeadership) -> None:
        await lose_async(leadership)
        leadership.check()

    async def failing() -> None:
        if beside is not None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:  # for the loss
                raise beside from None

    async def work(leadership: AsyncLeadership) -> int:
        terms.append(leadership)
        if len(terms) == 1:
            async with asyncio.TaskGroup() as tasks, asyncio.TaskGroup() as nested:
                nested.create_task(child(leadership))
                tasks.create_task(failing())
        return len(terms)

    return work


def test_a_loss_that_a_task_of_the_work_notices_is_no_error(url: str) -> None:
    """Out of a task group it comes in a group."""
    assert in_asyncio(url, lambda election: election.run(in_a_group(None))) == 2


def test_another_error_in_such_a_group_is_one(url: str) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        in_asyncio(url, lambda election: election.run(in_a_group(LookupError)))
    assert raised.value.subgroup(LookupError)
    assert raised.value.subgroup(LockLost), "it came beside the loss"


def test_with_tell_the_work_is_not_cancelled(url: str) -> None:
    calls: list[AsyncLeadership] = []
    ended: list[AsyncLeadership] = []

    async def work(leadership: AsyncLeadership) -> str:
        calls.append(leadership)
        if len(calls) == 1:
            await lose_async(leadership)
            assert await leadership.lost.wait(PATIENCE_S)
            await asyncio.sleep(0.01)  # where a cancel would strike
            ended.append(leadership)
        return "the second"

    assert in_asyncio(url, lambda election: election.run(work), on_lost="tell") == "the second"
    assert ended == calls[:1]


def test_work_that_closes_its_own_client_is_not_cancelled(url: str) -> None:
    async def work(leadership: AsyncLeadership) -> str:
        await leadership._runtime.client.close()
        await asyncio.sleep(0.01)
        return "closed"

    assert in_asyncio(url, lambda election: election.run(work)) == "closed"


def test_a_loop_over_the_leaders_in_asyncio(url: str) -> None:
    async def main(election: Any) -> list[Leader | None]:
        seen = []
        async with election.campaign("a") as leadership:
            async for leader in election.observe():
                seen.append(leader)
                if leader is None:
                    break
                await leadership.release()
        return seen

    (leader, none) = in_asyncio(url, main)
    assert (leader.value, none) == ("a", None)


def test_a_proclamation_that_is_cancelled_while_it_waits_lets_the_next_go(url: str) -> None:
    async def main(election: Any) -> None:
        async with election.campaign() as leadership:
            many = [asyncio.create_task(leadership.proclaim(str(number))) for number in range(5)]
            await asyncio.sleep(0)
            many[1].cancel()
            many[3].cancel()
            await asyncio.wait(many)
            assert (await election.leader()).value == "4" == leadership.value

    in_asyncio(url, main)


def test_a_campaign_that_was_never_awaited_is_named(url: str) -> None:
    campaign = recipes.connect_async(url).election("x").campaign("a")
    with pytest.warns(RuntimeWarning, match=r"AsyncElection\.campaign.* was never awaited"):
        del campaign


def test_what_fits_no_campaign_is_refused_before_it_is_awaited(url: str) -> None:
    election = recipes.connect_async(url).election("x")
    with pytest.raises(ValueError, match="at most are allowed"):
        election.campaign("x" * 1_000_001)
    with pytest.raises(ValueError, match="timeout"):
        election.campaign(timeout=-1)
    with pytest.raises(TypeError, match="a value is a str"):
        election.campaign(7)  # type: ignore[arg-type]


def test_proclaiming_from_several_threads_says_what_the_last_said(client: recipes.Client) -> None:
    with client.election("x").campaign() as leadership:
        threads = [
            threading.Thread(target=lambda name=name: [leadership.proclaim(f"{name} {n}") for n in range(20)])
            for name in "abcd"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert leadership.value.endswith(" 19")
        assert client.election("x").leader() == Leader(leadership.value, leadership.token)
