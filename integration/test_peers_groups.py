"""What kazoo's ``Party`` does, and groups must not: each is seen to happen there, and not to happen here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

import recipes
from integration import servers
from integration.peers.stage import PATIENCE_S, Doing
from integration.proxy import Proxy
from recipes import Member
from recipes._run.clock import boot_time
from tests.pace import taking

NAME = "workers"
SESSION_S = 6
DELAY_S = 0.02


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


def test_one_that_kazoos_party_has_lost_goes_on_as_if_it_took_part(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    with kazoo(proxy.address) as cut_off, kazoo(zookeeper.address) as client:
        party, others = cut_off.Party(f"/{prefix}/x", "a"), client.Party(f"/{prefix}/x")
        party.join()
        assert list(others) == ["a"]
        before = cut_off.client_id
        proxy.blackhole()
        assert servers.eventually(lambda: list(others) == [], PATIENCE_S), "its session has ended"
        assert party.participating
        proxy.heal()
        assert servers.eventually(lambda: cut_off.connected and cut_off.client_id != before, PATIENCE_S)
        assert list(others) == list(party) == []
        assert party.participating, "even where it sees that it is no member"


def test_ours_is_told_before_the_others_do_not_see_it_any_more(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    with (
        recipes.connect(zookeeper.url(prefix)) as client,
        recipes.connect(proxy.url(prefix), session_timeout=SESSION_S) as cut_off,
    ):
        membership = cut_off.group(NAME).join(id="a")
        with client.group(NAME).watch() as watching:
            assert watching.next() == (Member("a"),)
            proxy.blackhole()
            assert watching.next(PATIENCE_S) == ()
            assert not membership.held
            assert membership.lost.is_set()
        proxy.heal()


def test_kazoos_party_lists_two_under_one_identifier_and_one_that_crashed_beside_its_restart(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    with kazoo(proxy.address) as crashed, kazoo(zookeeper.address) as restarted:
        crashed.Party(f"/{prefix}/x", "a").join()
        proxy.blackhole()
        party = restarted.Party(f"/{prefix}/x", "a")
        party.join()
        assert list(party) == ["a", "a"]
        assert servers.eventually(lambda: list(party) == ["a"], PATIENCE_S)
        restarted.Party(f"/{prefix}/x", "a").join()
        assert list(party) == ["a", "a"], "and two that live are both members"
        proxy.heal()


def test_an_id_of_ours_has_one_member_whatever_crashed(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    with (
        recipes.connect(zookeeper.url(prefix)) as client,
        recipes.connect(proxy.url(prefix), session_timeout=SESSION_S) as cut_off,
    ):
        group = client.group(NAME)
        crashed = cut_off.group(NAME).join(b"before", id="a")
        proxy.blackhole()
        with pytest.raises(recipes.AlreadyJoined):
            group.join(b"after", id="a", timeout=2)
        assert group.members() == (Member("a", b"before"),)
        seen: list[tuple[Member, ...]] = []
        joined = threading.Event()

        def look() -> None:
            while not joined.is_set():
                seen.append(group.members())

        looking = Doing(look)
        with group.join(b"after", id="a", timeout=PATIENCE_S) as restarted:
            assert not crashed.held, "the one before has been told"
            joined.set()
            assert looking.ends(PATIENCE_S)
            assert group.members() == (Member("a", b"after"),)
            assert restarted.token > crashed.token
        proxy.heal()
    assert all(len(members) <= 1 for members in seen)


def test_reading_kazoos_party_takes_a_round_trip_for_each_member_and_ours_takes_two(
    zookeeper: servers.ZooKeeper, proxy: Proxy, prefix: str
) -> None:
    size = 50
    with kazoo(proxy.address) as client, recipes.connect(proxy.url(prefix), session_timeout=60) as ours:
        for _ in range(size):
            client.Party(f"/{prefix}/x").join()
            ours.group(NAME).join()
        party, group = client.Party(f"/{prefix}/x"), ours.group(NAME)
        party.join()
        proxy.delay(DELAY_S)
        started = boot_time()
        assert len(list(party)) == size + 1
        theirs = boot_time() - started
        assert theirs > size * 2 * DELAY_S
        with taking(theirs / 5):
            assert len(group.members()) == size
