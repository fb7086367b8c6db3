"""Curator and kazoo beside ours, on ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.fleet.kinds import OURS, ZOOKEEPER, Kind
from integration.fleet.meeting import Ground, contend, meet, stays_out
from integration.fleet.table import TABLES, cell
from recipes.events import Transition, subscribe

pytestmark = pytest.mark.timeout(600)

KINDS = {str(kind): kind for kind in ZOOKEEPER}
CURATOR, KAZOO, KAZOO_WRITE = (KINDS[name] for name in ("curator-mutex", "kazoo-lock+", "kazoo-write+"))

WAITING = [kind for kind in ZOOKEEPER if TABLES["ZooKeeper"].documented()[kind.label, "writer"] == "excluded"]


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("kind", ZOOKEEPER, ids=str)
def test_who_waits_for_whom(on_zookeeper: Ground, kind: Kind, ours: str) -> None:
    assert (
        cell(kind, ours, meet(on_zookeeper, kind, ours)) == TABLES["ZooKeeper"].documented()[kind.label, ours]
    )


@pytest.mark.parametrize("kinds", [(CURATOR,), (KAZOO, KAZOO_WRITE)], ids=["curator", "kazoo"])
def test_many_lose_no_update(on_zookeeper: Ground, kinds: tuple[Kind, ...], tmp_path: Path) -> None:
    contend(on_zookeeper, kinds, tmp_path / "count", 10)


@pytest.mark.parametrize("kind", WAITING, ids=str)
def test_a_downgraded_writer_is_one_to_others(on_zookeeper: Ground, kind: Kind) -> None:
    stays_out(on_zookeeper, kind)


@pytest.mark.parametrize("kind", ZOOKEEPER, ids=str)
def test_whoever_may_not_wait_for_ours_is_told(on_zookeeper: Ground, kind: Kind) -> None:
    """By its node it cannot be seen which patterns kazoo was given."""
    told: list[Transition] = []
    name = f"told/{kind}"
    with on_zookeeper.peer(kind, name) as theirs:
        theirs.try_acquire()
        stop = subscribe(told.append)
        try:
            for _ in range(3):
                assert on_zookeeper.ours("Lock", name).try_acquire() is None
        finally:
            stop()
        theirs.release()
    reasons = [one.reason or "" for one in told if one.event == "store.stranger"]
    expected = {"mutex": [], "shared": [], "write": ["InterProcessMutex"], "read": ["InterProcessMutex"]}
    words = expected[kind.kind] if kind.program == "curator" else ["extra_lock_patterns"]
    assert len(reasons) == len(words)
    assert all(word in reason for word, reason in zip(words, reasons, strict=True))


@pytest.mark.parametrize("kind", [KAZOO, KAZOO_WRITE], ids=str)
def test_curator_does_not_wait_for_kazoo(on_zookeeper: Ground, kind: Kind) -> None:
    """Two others that both exclude ours need not exclude each other: the docs say so."""
    name = f"others/{kind}"
    with on_zookeeper.peer(kind, name) as kazoo, on_zookeeper.peer(CURATOR, name) as curator:
        assert kazoo.try_acquire() is not None
        assert curator.try_acquire() is not None
        kazoo.release()
        assert kazoo.try_acquire() is None
        curator.release()
