"""Guards for transactions of the user's own: they prove nothing once the grant was released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import recipes
import recipes.etcd
import recipes.zookeeper
from tests.programs.test_hold import hold


def granted(url: str) -> Any:
    return SimpleNamespace(_hold=hold(), _runtime=recipes.connect(url)._runtime)


def test_a_comparison_for_etcd_that_is_made_after_the_release_is_false() -> None:
    grant = granted("etcd://127.0.0.1:2379/app")
    assert recipes.etcd.guard(grant)["mod_revision"] == "7"
    assert grant._hold.guards
    grant._hold.release(101.0)
    made = recipes.etcd.guard(grant)
    assert (made["target"], made["create_revision"]) == ("CREATE", "-1")


def test_a_check_for_zookeeper_that_is_made_after_the_release_fails() -> None:
    grant, checked = granted("zookeeper://127.0.0.1:2181/app"), list[tuple[str, int]]()
    transaction = SimpleNamespace(check=lambda path, version: checked.append((path, version)))
    recipes.zookeeper.guard(grant, transaction)
    assert grant._hold.guards
    grant._hold.release(101.0)
    recipes.zookeeper.guard(grant, transaction)
    assert checked == [("q/id-1", 0), ("q/id-1", 2**31 - 1)]


@pytest.mark.parametrize("root", ["", "app"])
def test_a_lock_by_name_on_zookeeper_has_no_check(root: str) -> None:
    """The node of each holder has the same path and version: a check would pass for a former one."""
    made = recipes.connect(f"zookeeper://127.0.0.1:2181/{root}", layout="name")
    grant = SimpleNamespace(_hold=hold(), _runtime=made._runtime)
    with pytest.raises(TypeError, match="compare the token"):
        recipes.zookeeper.guard(grant, SimpleNamespace())


def test_a_session_longer_than_zookeeper_can_be_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than ZooKeeper can be asked for"):
        recipes.connect("zookeeper://127.0.0.1:2181/app", session_timeout=3_000_000)
