"""Candidates of Go, ``etcdctl``, Curator and kazoo beside ours, and kazoo's parties beside our groups."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooState

import recipes
from integration import servers
from integration.fleet.elections import candidate, election, known
from integration.fleet.kinds import ELECTION, ETCD_ELECTIONS, ZOOKEEPER_ELECTIONS, Kind, start
from integration.fleet.meeting import Ground, contend, meet, place
from integration.fleet.parties import PARTIES, party_row
from integration.fleet.peers import PATIENCE_S, Program
from integration.fleet.table import ELECTIONS, GROUPS, election_row
from integration.harness.etcd import encoded
from integration.stores import ZooKeeperStore
from recipes.events import Transition, subscribe
from tests.contract.stores import ELECTIONS as QUEUES

pytestmark = pytest.mark.timeout(600)

ETCDCTL, GO = ETCD_ELECTIONS
SELECTOR, LATCH, _, KAZOO = ZOOKEEPER_ELECTIONS
BOTH = (ELECTION, ELECTION)
SESSION_S = "6"


@pytest.mark.parametrize("kind", ETCD_ELECTIONS, ids=str)
def test_which_candidate_leads_and_is_shown_on_etcd(on_etcd: Ground, kind: Kind) -> None:
    assert observed(on_etcd, kind) == documented("etcd", kind)


@pytest.mark.parametrize("kind", ZOOKEEPER_ELECTIONS, ids=str)
def test_which_candidate_leads_and_is_shown_on_zookeeper(on_zookeeper: Ground, kind: Kind) -> None:
    assert observed(on_zookeeper, kind) == documented("ZooKeeper", kind)


def test_many_lead_one_at_a_time_on_etcd(on_etcd: Ground, tmp_path: Path) -> None:
    contend(on_etcd, (GO,), tmp_path / "count", 10, BOTH)


@pytest.mark.parametrize("kind", [SELECTOR, KAZOO], ids=str)
def test_many_lead_one_at_a_time_on_zookeeper(on_zookeeper: Ground, kind: Kind, tmp_path: Path) -> None:
    contend(on_zookeeper, (kind,), tmp_path / "count", 10, BOTH)


@pytest.mark.parametrize("kind", ETCD_ELECTIONS, ids=str)
def test_each_observes_what_the_other_says(on_etcd: Ground, kind: Kind) -> None:
    name = place(ELECTION, kind, "observed")
    with (
        candidate(on_etcd, kind, name) as theirs,
        candidate(on_etcd, GO, name) as go,
        election(on_etcd, name, 1).observe() as leaders,
    ):
        assert next(leaders) is None
        theirs.observe()
        with election(on_etcd, name).campaign("ours", timeout=PATIENCE_S) as leadership:
            go.start_acquire()
            on_etcd.queued(name, 2)
            until(leaders, "ours")
            theirs.saw("ours")
            for value in ("ours-2", "ours-3"):
                leadership.proclaim(value)
                until(leaders, value)
                theirs.saw(value)
            assert go.held(0.1) is None
        theirs.saw("theirs")
        until(leaders, "theirs")
        go.held()
        assert isinstance(go, Program)
        go.proclaim("theirs-2")
        theirs.saw("theirs-2")
        until(leaders, "theirs-2")
        go.release()
        assert next(leaders) is None


def test_a_candidate_of_ours_waits_on_while_go_proclaims(on_etcd: Ground) -> None:
    name = place(ELECTION, "proclaimed")
    with candidate(on_etcd, GO, name) as go, election(on_etcd, name).observe() as leaders:
        token = go.try_acquire()
        waiting = behind(on_etcd, name)
        assert isinstance(go, Program)
        for value in ("theirs-2", "theirs-3"):
            go.proclaim(value)
            until(leaders, value)
        assert not waiting.done()
        assert election(on_etcd, name).leader().token == token
        go.release()
        assert waiting.result(PATIENCE_S).release()


def test_ours_leads_when_a_leader_in_go_has_died(on_etcd: Ground) -> None:
    died(on_etcd, GO)


def test_ours_leads_when_a_leader_in_java_has_died(on_zookeeper: Ground) -> None:
    died(on_zookeeper, SELECTOR)


def test_go_leads_when_our_session_has_ended(on_etcd: Ground) -> None:
    ended(on_etcd, GO)


@pytest.mark.parametrize("kind", [SELECTOR, KAZOO], ids=str)
def test_theirs_leads_when_our_session_has_ended(on_zookeeper: Ground, kind: Kind) -> None:
    ended(on_zookeeper, kind)


def test_a_leader_latch_leads_beside_ours_since_it_sorts_our_nodes_behind_its_own(
    on_zookeeper: Ground,
) -> None:
    """It compares what follows ``latch-`` in a node's name, or the whole name if nothing does."""
    name = place(ELECTION, "latch")
    with candidate(on_zookeeper, LATCH, name) as latch:
        with election(on_zookeeper, name).campaign("ours", timeout=PATIENCE_S) as leadership:
            latch.start_acquire()
            token = latch.held()
            assert token is not None
            assert token > leadership.token, "it came behind ours, and leads"
            ours, theirs = (path.rpartition("/")[2] for path in on_zookeeper.store.contenders(name))
            assert "latch-" not in ours
            assert theirs.rpartition("latch-")[2] < ours, "text that begins with a digit, before _c_"
            assert leadership.verify()
            assert (election(on_zookeeper, name).leader().value, latch.leader()) == ("ours", "theirs")
        latch.release()


def test_etcdctl_elect_has_a_lease_of_a_minute(on_etcd: Ground) -> None:
    name = place(ELECTION, "minute")
    assert isinstance(on_etcd.server, servers.Etcd)
    with candidate(on_etcd, ETCDCTL, name) as theirs:
        assert theirs.try_acquire() is not None
        (key,) = on_etcd.store.contenders(name)
        lease = str(int(key.rpartition("/")[2], 16))
        assert on_etcd.server.ask("/v3/lease/timetolive", {"ID": lease})["grantedTTL"] == "60"
        theirs.release()


def test_etcds_own_service_elects_a_candidate_whose_lease_has_expired(on_etcd: Ground) -> None:
    """Ours that waits behind Go when its session ends leads under a new one, or not at all."""
    name = place(ELECTION, "service")
    server = on_etcd.server
    assert isinstance(server, servers.Etcd)
    with election(on_etcd, name).campaign("ours", timeout=PATIENCE_S) as leadership:
        lease = server.grant(5)
        asked = {"name": encoded(on_etcd.path(name)), "lease": lease, "value": encoded("theirs")}
        with ThreadPoolExecutor(1) as pool:
            elected = pool.submit(server.ask, "/v3/election/campaign", asked, timeout_s=PATIENCE_S)
            on_etcd.queued(name, 2)
            on_etcd.queued(name, 1)
            assert not elected.done()
            assert leadership.release()
            won = base64.b64decode(elected.result()["leader"]["key"]).decode()
    assert won == f"{on_etcd.path(name)}/{int(lease):x}"
    assert server.keys(won) == []
    with candidate(on_etcd, GO, name) as go:
        assert go.try_acquire() is not None
        waiting = behind(on_etcd, name)
        first = on_etcd.actors[0].client.session.id
        on_etcd.store.end_session(on_etcd.actors[0].client)
        go.release()
        with waiting.result(PATIENCE_S) as leadership:
            assert leadership.verify()
            assert on_etcd.actors[0].client.session.id != first
            assert len(on_etcd.store.contenders(name)) == 1


def test_kazoos_leader_works_on_after_its_session_has_ended_and_ours_leads(on_zookeeper: Ground) -> None:
    name = place(ELECTION, "on")
    leads, lost, ended = threading.Event(), threading.Event(), threading.Event()
    assert isinstance(on_zookeeper.store, ZooKeeperStore)

    def work() -> None:
        leads.set()
        ended.wait()

    with servers.kazoo_client(on_zookeeper.server) as kazoo:
        running = threading.Thread(target=kazoo.Election(on_zookeeper.path(name), "theirs").run, args=(work,))
        running.start()
        try:
            assert leads.wait(PATIENCE_S)
            waiting = behind(on_zookeeper, name)
            kazoo.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
            on_zookeeper.store.expire(kazoo)
            with waiting.result(PATIENCE_S) as leadership:
                assert lost.wait(PATIENCE_S)
                assert leadership.verify()
                assert running.is_alive()
        finally:
            ended.set()
            running.join()


def test_candidates_in_asyncio_on_etcd(on_etcd: Ground) -> None:
    asyncio.run(in_turns(on_etcd, GO))


def test_candidates_in_asyncio_on_zookeeper(on_zookeeper: Ground) -> None:
    asyncio.run(in_turns(on_zookeeper, SELECTOR))


@pytest.mark.parametrize("party", PARTIES)
def test_neither_a_party_nor_a_group_shows_the_others_members(on_zookeeper: Ground, party: str) -> None:
    documented = GROUPS.documented()
    told: list[Transition] = []
    stop = subscribe(told.append)
    try:
        row = party_row(on_zookeeper, party)
    finally:
        stop()
    assert row == {column: documented[party, column] for column in ("ours", "theirs")}
    assert [one.event for one in told if one.event == "store.stranger"] == ["store.stranger"]


async def in_turns(ground: Ground, kind: Kind) -> None:
    """Have theirs lead, then ours in asyncio, then theirs."""
    name = place(ELECTION, kind, "asyncio")
    with candidate(ground, kind, name) as theirs, candidate(ground, kind, name) as viewer:
        async with recipes.connect_async(ground.store.url()) as client:
            one: Any = client.election(name.removeprefix(QUEUES))
            token = await asyncio.to_thread(theirs.try_acquire)
            assert token is not None
            assert await one.leader() == recipes.Leader("theirs", token)
            waiting = asyncio.ensure_future(one.campaign("ours", timeout=PATIENCE_S))
            await asyncio.to_thread(ground.queued, name, 2)
            await asyncio.to_thread(theirs.release)
            async with await waiting as leadership, one.observe() as leaders:
                assert await anext(leaders) == recipes.Leader("ours", leadership.token)
                await leadership.proclaim("ours-2")
                assert await anext(leaders) == recipes.Leader("ours-2", leadership.token)
                assert await asyncio.to_thread(viewer.leader) == "ours-2"
                theirs.start_acquire()
                await asyncio.to_thread(ground.queued, name, 2)
            token = await asyncio.to_thread(theirs.held)
            assert token is not None
            async with one.observe() as leaders:
                assert await anext(leaders) == recipes.Leader("theirs", token)
            await asyncio.to_thread(theirs.release)


def observed(ground: Ground, kind: Kind) -> dict[str, str]:
    """Return what happens between candidates of this kind and ours."""
    return election_row(kind, meet(ground, kind, ELECTION), known(ground, kind))


def documented(store: str, kind: Kind) -> dict[str, str]:
    """Return what the page says of it."""
    cells = ELECTIONS[store].documented()
    return {column: said for (row, column), said in cells.items() if row == kind.label}


def until(leaders: Iterator[Any], value: str) -> None:
    """Observe until this value is shown; the observer may skip any before it."""
    for leader in leaders:
        if leader is not None and leader.value == value:
            return


def behind(ground: Ground, name: str) -> Future[Any]:
    """Have a candidate of ours queue behind another."""
    campaign: Callable[..., Any] = election(ground, name).campaign
    waiting = ground.actors[0].start(campaign, "ours", timeout=PATIENCE_S)
    ground.queued(name, 2)
    return waiting


def died(ground: Ground, kind: Kind) -> None:
    """See that ours leads once the session of a leader that was killed has ended, and not before."""
    name = place(ELECTION, kind, "died")
    one = start(kind.program, ground.server, SESSION_S)
    assert isinstance(one, Program)
    try:
        one.use(kind.kind, ground.path(name), kind.value)
        token = one.try_acquire()
        assert token is not None
        waiting = behind(ground, name)
        one.kill()
        assert election(ground, name).leader().token == token, "its session has not ended"
        with waiting.result(PATIENCE_S) as leadership:
            assert leadership.token > token
            assert leadership.verify()
            assert election(ground, name).leader().value == "ours"
    finally:
        one.kill()


def ended(ground: Ground, kind: Kind) -> None:
    """See that theirs leads once our session has ended, and that ours is told."""
    name = place(ELECTION, kind, "ended")
    with candidate(ground, kind, name) as theirs:
        leadership = election(ground, name).campaign("ours", timeout=PATIENCE_S)
        theirs.start_acquire()
        ground.queued(name, 2)
        ground.store.end_session(ground.actors[0].client)
        token = theirs.held()
        assert token is not None
        assert token > leadership.token
        assert leadership.lost.wait(PATIENCE_S)
        assert not leadership.verify()
        assert election(ground, name).leader().value == "theirs"
        theirs.release()
