"""Candidates of Go, ``etcdctl``, Curator and kazoo beside ours: one leads, and all know who."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from integration.fleet.elections import candidate, election, known
from integration.fleet.kinds import ELECTION, ETCD_ELECTIONS, ZOOKEEPER_ELECTIONS, Kind, start
from integration.fleet.meeting import Ground, contend, meet, place
from integration.fleet.parties import PARTIES, party_row
from integration.fleet.peers import PATIENCE_S, Program
from integration.fleet.table import ELECTIONS, GROUPS, election_row

pytestmark = pytest.mark.timeout(600)

KINDS = {str(kind): kind for kind in (*ETCD_ELECTIONS, *ZOOKEEPER_ELECTIONS)}
GO, SELECTOR, LATCH, KAZOO = (
    KINDS[name] for name in ("go-election", "curator-selector", "curator-latch", "kazoo-election+")
)
BOTH = (ELECTION, ELECTION)
SESSION_S = "2"


@pytest.mark.parametrize("kind", ETCD_ELECTIONS, ids=str)
def test_who_leads_and_who_is_shown_on_etcd(on_etcd: Ground, kind: Kind) -> None:
    assert observed(on_etcd, kind) == documented("etcd", kind)


@pytest.mark.parametrize("kind", ZOOKEEPER_ELECTIONS, ids=str)
def test_who_leads_and_who_is_shown_on_zookeeper(on_zookeeper: Ground, kind: Kind) -> None:
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
            until(leaders, "ours")
            theirs.saw("ours")
            for value in ("ours-2", "ours-3"):
                leadership.proclaim(value)
                until(leaders, value)
                theirs.saw(value)
            go.start_acquire()
            on_etcd.queued(name, 2)
        theirs.saw("theirs")
        until(leaders, "theirs")
        go.held()
        assert isinstance(go, Program)
        go.proclaim("theirs-2")
        theirs.saw("theirs-2")
        until(leaders, "theirs-2")
        go.release()
        assert next(leaders) is None


def test_a_proclaim_of_go_wakes_no_candidate_of_ours(on_etcd: Ground) -> None:
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
            token = latch.try_acquire()
            assert token is not None
            assert token > leadership.token, "it came behind ours, and leads"
            ours, theirs = (path.rpartition("/")[2] for path in on_zookeeper.store.contenders(name))
            assert "latch-" not in ours
            assert theirs.rpartition("latch-")[2] < ours, "text that begins with a digit, before _c_"
            assert leadership.verify()
            assert (election(on_zookeeper, name).leader().value, latch.leader()) == ("ours", "theirs")
        latch.release()


@pytest.mark.parametrize("party", PARTIES)
def test_who_sees_whose_members(on_zookeeper: Ground, party: str) -> None:
    documented = GROUPS.documented()
    assert party_row(on_zookeeper, party) == {
        column: documented[party, column] for column in ("ours", "theirs")
    }


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
