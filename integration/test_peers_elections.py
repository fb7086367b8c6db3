"""What elections of others do, and ours must not: each is seen to happen there, and not to happen here.

kazoo's ``Election`` and tooz's leaders of groups, on the same ZooKeeper under the same faults. That etcd's
own election service elects candidates whose lease has expired is seen in ``integration/fleet``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from tooz import coordination

import recipes
from integration import servers
from integration.peers.stage import PATIENCE_S, Doing
from integration.proxy import Proxy
from tests.pace import taking

NAME = "scheduler"
GROUP = b"schedulers"
SESSION_S = 3
SOON_S = 3.0


@pytest.fixture
def proxy(zookeeper: servers.ZooKeeper) -> Iterator[Proxy]:
    """Yield a proxy before ZooKeeper, with nothing wrong yet."""
    zookeeper.start()
    with Proxy.of(zookeeper) as one:
        yield one


@contextlib.contextmanager
def kazoo(address: str) -> Iterator[KazooClient]:
    """Yield a client of kazoo's; one that hangs is left behind."""
    client = KazooClient(address, timeout=SESSION_S)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        Doing(lambda: (client.stop(), client.close())).ends(PATIENCE_S)


@contextlib.contextmanager
def tooz(address: str, prefix: str, member: str) -> Iterator[Any]:
    """Yield a coordinator of tooz's, which is in the group; one that hangs is left behind."""
    url = f"kazoo://{address}?timeout={SESSION_S}&namespace={prefix}"
    one = coordination.get_coordinator(url, member.encode())
    one.start()
    with contextlib.suppress(coordination.GroupAlreadyExist):
        one.create_group(GROUP).get()
    one.join_group(GROUP).get()
    try:
        yield one
    finally:
        Doing(lambda: (one.stop(), one._coord.close())).ends(PATIENCE_S)


class Work:
    """What a leader does: as long as it may, for nobody tells it of a loss."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.may_end.wait(PATIENCE_S)


def test_kazoos_leader_works_on_when_another_leads(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    with kazoo(proxy.address) as cut_off, kazoo(zookeeper.address) as client:
        first, second = Work(), Work()
        leading = Doing(lambda: cut_off.Election(f"/{prefix}/x").run(first))
        assert first.begun.wait(PATIENCE_S)
        following = Doing(lambda: client.Election(f"/{prefix}/x").run(second))
        proxy.blackhole()
        assert second.begun.wait(PATIENCE_S), "another leads"
        assert not leading.ends(SOON_S), "and the first works on"
        proxy.heal()
        assert not leading.ends(SOON_S), "even where it could know better"
        first.may_end.set()
        second.may_end.set()
        assert leading.ends(PATIENCE_S)
        assert following.ends(PATIENCE_S)


def test_tooz_tells_two_that_they_lead_and_neither_that_it_does_not(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    elected: list[str] = []
    with tooz(proxy.address, prefix, "first") as first, tooz(zookeeper.address, prefix, "second") as second:
        for name, one in (("first", first), ("second", second)):
            one.watch_elected_as_leader(GROUP, lambda event, name=name: elected.append(name))
        first.run_elect_coordinator()
        second.run_elect_coordinator()
        assert elected == ["first"]
        proxy.blackhole()

        def asked() -> bool:
            second.run_elect_coordinator()
            return len(elected) == 2

        assert servers.eventually(asked, PATIENCE_S)
        proxy.heal()
        Doing(first.run_elect_coordinator).ends(SOON_S)  # it takes itself for the leader, and asks nothing
        assert elected == ["first", "second"]
        assert first._leader_locks[GROUP].is_acquired
        assert second._leader_locks[GROUP].is_acquired


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_our_leaders_work_has_ended_when_another_leads(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str, api: str
) -> None:
    begun, another = threading.Event(), threading.Event()
    ended_before: list[bool] = []

    def blocking() -> None:
        def work(leadership: recipes.Leadership) -> None:
            begun.set()
            while leadership.held:
                leadership.lost.wait(PATIENCE_S)
            ended_before.append(not another.is_set())

        with recipes.connect(proxy.url(prefix), session_timeout=SESSION_S) as cut_off:
            threading.Thread(target=lambda: another.wait(PATIENCE_S) and cut_off.close()).start()
            cut_off.election(NAME).run(work)

    async def tasks() -> None:
        async def work(leadership: recipes.AsyncLeadership) -> None:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE_S)
            finally:
                ended_before.append(not another.is_set())

        async with recipes.connect_async(proxy.url(prefix), session_timeout=SESSION_S) as cut_off:
            running = asyncio.create_task(cut_off.election(NAME).run(work))
            await asyncio.to_thread(another.wait, PATIENCE_S)
            running.cancel()
            await asyncio.wait([running])

    leading = Doing(blocking if api == "blocking" else lambda: asyncio.run(tasks()))
    assert begun.wait(PATIENCE_S)
    with recipes.connect(zookeeper.url(prefix)) as client:
        following = Doing(lambda: client.election(NAME).campaign(timeout=PATIENCE_S))
        proxy.blackhole()
        assert following.ends(PATIENCE_S)
        another.set()
        assert leading.ends(PATIENCE_S)
    assert ended_before == [True]


def test_a_cancel_does_not_reach_kazoos_candidate_that_has_no_connection(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    """As its issue #264 says of any that waits; today it does where there is a connection."""
    with kazoo(zookeeper.address) as client, kazoo(proxy.address) as cut_off:
        leading = Work()
        first = Doing(lambda: client.Election(f"/{prefix}/x").run(leading))
        assert leading.begun.wait(PATIENCE_S)
        election = cut_off.Election(f"/{prefix}/x")
        waiting = Doing(lambda: election.run(Work()))
        assert servers.eventually(lambda: len(client.get_children(f"/{prefix}/x")) == 2, PATIENCE_S)
        proxy.cut()
        assert servers.eventually(lambda: not cut_off.connected, PATIENCE_S)
        election.cancel()
        assert not waiting.ends(SOON_S)
        proxy.heal()
        assert waiting.ends(PATIENCE_S)
        leading.may_end.set()
        assert first.ends(PATIENCE_S)


@pytest.mark.parametrize("broken", ["cut", "blackhole"])
def test_a_cancel_reaches_ours(zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str, broken: str) -> None:
    async def cancelled() -> None:
        async with recipes.connect_async(proxy.url(prefix)) as cut_off:
            running = asyncio.create_task(cut_off.election(NAME).run(_never))
            assert await asyncio.to_thread(
                servers.eventually, lambda: len(election.contenders()) == 2, PATIENCE_S
            )
            getattr(proxy, broken)()
            with taking(0.5):
                running.cancel()
                await asyncio.wait([running])
            assert running.cancelled()
            proxy.heal()

    with recipes.connect(zookeeper.url(prefix)) as client:
        election = client.election(NAME)
        with election.campaign():
            asyncio.run(cancelled())
            assert servers.eventually(lambda: len(election.contenders()) == 1, PATIENCE_S)
            cut_off = recipes.connect(proxy.url(prefix))
            waiting = Doing(lambda: cut_off.election(NAME).run(_refuse))
            assert servers.eventually(lambda: len(election.contenders()) == 2, PATIENCE_S)
            getattr(proxy, broken)()
            with taking(5):
                cut_off.close()
                assert waiting.ends(5)
            assert isinstance(waiting.error, recipes.ClientClosed)
            proxy.heal()


async def _never(leadership: object) -> None:
    _refuse(leadership)


def _refuse(leadership: object) -> None:
    raise AssertionError(f"{leadership} should never have been")
