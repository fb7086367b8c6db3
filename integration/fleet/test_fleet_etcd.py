"""Go and ``etcdctl`` beside ours, on etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.fleet.kinds import ETCD, OURS, Kind
from integration.fleet.meeting import Ground, contend, meet, stays_out
from integration.fleet.table import TABLES, cell

pytestmark = pytest.mark.timeout(1200)  # the first of all compiles

ETCDCTL, MUTEX, WRITE, _ = ETCD


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("kind", ETCD, ids=str)
def test_who_waits_for_whom(on_etcd: Ground, kind: Kind, ours: str) -> None:
    assert cell(kind, ours, meet(on_etcd, kind, ours)) == TABLES["etcd"].documented()[kind.label, ours]


@pytest.mark.parametrize(
    ("kinds", "times"), [((MUTEX,), 10), ((ETCDCTL, MUTEX, WRITE), 4)], ids=["go", "all at once"]
)
def test_many_lose_no_update(on_etcd: Ground, kinds: tuple[Kind, ...], times: int, tmp_path: Path) -> None:
    contend(on_etcd, kinds, tmp_path / "count", times)


@pytest.mark.parametrize("kind", [ETCDCTL, MUTEX, WRITE], ids=str)
def test_a_downgraded_writer_is_one_to_others(on_etcd: Ground, kind: Kind) -> None:
    stays_out(on_etcd, kind)
