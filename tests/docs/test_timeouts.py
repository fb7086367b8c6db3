"""What the page about timeouts computes is what a client does."""

from __future__ import annotations

import contextlib
import io
import uuid
from typing import Any

import pytest

from recipes import testing
from recipes.stores._kit.queue import QueueProtocol
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from tests.docs.pages import ROOT, example_on

PAGE = ROOT / "docs/howto/timeouts.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Return what the example defines, after it has run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    text = example_on(ROOT / "docs/examples/timeouts.py", f"memory://{uuid.uuid4().hex}")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(text, names)
    return names


def test_it_knows_how_often_each_store_renews(example: dict[str, Any]) -> None:
    protocols = {"etcd": EtcdProtocol, "sqlite": QueueProtocol, "zookeeper": ZooKeeperProtocol}
    assert example["RENEWALS"] == {
        store: (protocol.renewals_per_ttl, protocol.renewal_lag) for store, protocol in protocols.items()
    }


@pytest.mark.parametrize("timeout", [5, 15, 60])
@pytest.mark.parametrize(("beyond", "held"), [(-0.01, True), (0.01, False)])
def test_a_stop_is_outlived_that_is_shorter(
    example: dict[str, Any], timeout: float, beyond: float, *, held: bool
) -> None:
    with testing.Store() as store, store.connect(session_timeout=timeout) as client:
        grant = client.lock("x").acquire()
        store.clock.advance(2 * timeout - 0.0001)  # a renewal is about to be due
        with store.pause(client):
            store.clock.advance(example["survives"](timeout, "etcd") + 0.0001 + beyond)
            assert grant.held is held


def test_the_page_says_how_often_each_store_renews(example: dict[str, Any]) -> None:
    often = [example["RENEWALS"][store][0] for store in ("etcd", "zookeeper")]
    assert cells("renewed every") == [f"T/{times}: {15 / times:.2g} s" for times in often]


def test_the_page_says_so_of_the_default(example: dict[str, Any]) -> None:
    stops = [example["survives"](15, store) for store in ("etcd", "zookeeper")]
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
