"""What docs/internals/peers.md says of this package and of others is what is observed."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

import pytest

from integration import servers
from integration.conftest import FIXTURES
from integration.harness.worn import WornZooKeeper
from integration.peers.careless import Careless
from integration.peers.checks import BUGS, Bug
from integration.peers.stage import Broken, Stage
from integration.peers.subjects import SUBJECTS
from integration.peers.table import TABLE, observe, worn_zookeeper

PASSES = "passes"
FAILS = "**fails**"
ON = {"etcd": "etcd-3.5", "ZooKeeper": "zookeeper-3.8"}
CASES = [
    pytest.param(
        bug,
        name,
        id=f"{bug}-{name}",
        marks=[pytest.mark.long] * bug.long + [pytest.mark.measured] * (not name.startswith("ours")),
    )
    for bug in BUGS
    for name in SUBJECTS
]
NOBODY_FAILS = [
    bug for bug in BUGS if all(FAILS not in TABLE.documented()[bug.said, name] for name in SUBJECTS)
]


@pytest.fixture(scope="module")
def worn(zookeeper: servers.ZooKeeper) -> Iterator[WornZooKeeper]:
    """Yield a ZooKeeper whose counters are near their end; where there is one, there is the other."""
    with worn_zookeeper() as one:
        yield one


@pytest.mark.parametrize(("bug", "name"), CASES)
def test_what_the_page_says_is_observed(request: pytest.FixtureRequest, bug: Bug, name: str) -> None:
    backend = SUBJECTS[name].backend
    server = request.getfixturevalue("worn" if bug.worn and backend == "ZooKeeper" else FIXTURES[ON[backend]])
    assert observe(server.start(), bug, name) == TABLE.documented()[bug.said, name]


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name.startswith("ours")])
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_ours_fails_nothing(bug: Bug, name: str) -> None:
    assert TABLE.documented()[bug.said, name].startswith((PASSES, "does not apply"))


@pytest.mark.long
@pytest.mark.parametrize("bug", NOBODY_FAILS, ids=str)
def test_a_check_that_nobody_fails_can_be_failed(etcd35: servers.Etcd, bug: Bug) -> None:
    with Stage(etcd35.start(), "careless", Careless) as stage, pytest.raises(Broken):
        bug.check(stage)


@pytest.mark.parametrize("package", ["kazoo", "etcd3gw", "tooz"])
def test_the_page_names_the_versions(package: str) -> None:
    said = re.search(rf"{package} (\d+\.\d+\.\d+)", TABLE.page.read_text())
    assert said is not None
    assert said[1] == importlib.metadata.version(package)


def test_a_worn_zookeeper_is_worn(worn: WornZooKeeper) -> None:
    with servers.kazoo_client(worn) as client:
        made = [client.create(f"/worn-etcd3gw/x/{n}-", sequence=True)[-10:] for n in range(4)]
    assert made == ["2147483645", "2147483646", "2147483647", "2147483647"]
