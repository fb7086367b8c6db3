"""What the page about timeouts computes is what a client does."""

from __future__ import annotations

import re

import pytest

from recipes import testing
from recipes._programs.lease import SessionClock
from recipes.stores._kit.queue import QueueProtocol
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/howto/timeouts.md"
EXAMPLE = ROOT / "docs/examples/timeouts.py"


RENEWALS = {
    store: (protocol.renewals_per_ttl, protocol.renewal_lag)
    for store, protocol in {
        "etcd": EtcdProtocol,
        "sqlite": QueueProtocol,
        "zookeeper": ZooKeeperProtocol,
    }.items()
}


def survives(session_timeout: float, store: str) -> float:
    """Return how many seconds the process may be stopped, at worst, with the lock held."""
    per_ttl, lag = RENEWALS[store]
    clock = SessionClock(session_timeout, 0.0, per_ttl=per_ttl, lag=lag)
    while clock.due < 3 * session_timeout:
        clock.on_renewed(clock.due, session_timeout, clock.due)
    return clock.deadline - clock.due  # at worst it is stopped when a renewal is due


@pytest.mark.parametrize("timeout", [5, 15, 60])
def test_the_example_knows_which_part_of_the_timeout_a_stop_may_last(timeout: float) -> None:
    (line,) = [one for one in EXAMPLE.read_text().splitlines() if one.startswith("SURVIVES")]
    said = [float(number) for number in re.findall(r"0\.\d+", line)]
    parts = [survives(timeout, store) / timeout for store in ("etcd", "zookeeper")]
    assert all(part - 0.02 < one <= part for one, part in zip(said, parts, strict=True)), parts
    assert RENEWALS["sqlite"] == RENEWALS["etcd"]


@pytest.mark.parametrize("timeout", [5, 15, 60])
@pytest.mark.parametrize(("beyond", "held"), [(-0.01, True), (0.01, False)])
def test_a_stop_is_outlived_that_is_shorter(timeout: float, beyond: float, *, held: bool) -> None:
    with testing.Store() as store, store.connect(session_timeout=timeout) as client:
        grant = client.lock("x").acquire()
        store.clock.advance(2 * timeout - 0.0001)  # a renewal is about to be due
        with store.pause(client):
            store.clock.advance(survives(timeout, "etcd") + 0.0001 + beyond)
            assert grant.held is held


def test_the_page_says_how_often_each_store_renews() -> None:
    often = [RENEWALS[store][0] for store in ("etcd", "zookeeper")]
    assert cells("renewed every") == [f"T/{times}: {15 / times:.2g} s" for times in often]


def test_the_page_says_so_of_the_default() -> None:
    stops = [survives(15, store) for store in ("etcd", "zookeeper")]
    assert cells("is survived") == [f"{stop:.1f} s" for stop in stops]


def test_the_page_about_performance_counts_as_many_renewals() -> None:
    page = (ROOT / "docs/operating/performance.md").read_text()
    zookeeper, etcd = ZooKeeperProtocol.renewals_per_ttl, EtcdProtocol.renewals_per_ttl
    assert f"| renewals a second | `{zookeeper} / session` | `{etcd} / session` |" in page
    a_thousand = (round(1000 * zookeeper / 15, -1), round(1000 * etcd * 2 / 15))
    assert "cost {:.0f} requests a second on ZooKeeper and {:.0f} on etcd".format(*a_thousand) in page
    assert f"a hundred grants sends {zookeeper / 15 * 101:.0f} a second" in page


def cells(words: str) -> list[str]:
    """Return what the page's table says in the row with these words: of etcd and SQLite, of ZooKeeper."""
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("|") and words in line)
    return [cell.strip() for cell in row.split("|")[2:4]]
