"""The examples of the documentation, on real servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import recipes
from integration import servers
from tests.docs.pages import (
    BY_A_SHELL,
    EXAMPLES,
    OF_FRAMEWORKS,
    ON_FILES,
    ON_ITS_STORE,
    ON_OBJECTS,
    ON_SERVERS_ONLY,
    ROOT,
    SHELL,
    TESTS,
    example_on,
)

pytestmark = pytest.mark.measured

ELSEWHERE = OF_FRAMEWORKS | ON_SERVERS_ONLY | ON_OBJECTS | SHELL | TESTS | BY_A_SHELL | ON_ITS_STORE
ON_ANY = [path for path in EXAMPLES if path.name not in ELSEWHERE]


@pytest.mark.parametrize("example", ON_ANY, ids=lambda path: str(path.name))
def test_an_example_runs_on_every_server(example: Path, url: str, tmp_path: Path, nothing_left: None) -> None:
    python(example_on(example, url), tmp_path)


@pytest.mark.parametrize("example", sorted(ON_ITS_STORE - ON_FILES))
def test_an_example_runs_on_the_server_it_names(
    request: pytest.FixtureRequest, example: str, prefix: str, tmp_path: Path
) -> None:
    path = ROOT / "docs/examples" / example
    name = "zookeeper" if "zookeeper://" in path.read_text() else "etcd35"
    server: servers.Server = request.getfixturevalue(name)
    python(example_on(path, server.url(prefix)), tmp_path)
    left = servers.settle(server, prefix)
    servers.clean(server, prefix)
    assert not left, f"left behind: {left.contenders}"


@pytest.mark.parametrize(
    "example", ["beside_kazoo.py", "beside_kazoo_election.py", "beside_kazoo_readers.py"]
)
def test_the_example_beside_kazoo(zookeeper: servers.ZooKeeper, prefix: str, example: str) -> None:
    text = (ROOT / "docs/examples" / example).read_text()
    python(text.replace("127.0.0.1:2181", zookeeper.address).replace("/app", f"/{prefix}"))
    servers.clean(zookeeper, prefix)


@pytest.mark.parametrize("fixture", ["etcd34", "etcd35"])
def test_the_example_of_a_guard(request: pytest.FixtureRequest, fixture: str, prefix: str) -> None:
    server: servers.Etcd = request.getfixturevalue(fixture)
    host, _, port = server.address.rpartition(":")
    text = (ROOT / "docs/examples/guarding.py").read_text()
    text = text.replace('"127.0.0.1", 2379', f'"{host}", {port}').replace("127.0.0.1:2379", server.address)
    python(text.replace("2379/app", f"2379/{prefix}").replace("/app", f"/{prefix}"))
    assert server.keys("settings") != []
    servers.clean(server, "settings")


@pytest.mark.parametrize("fixture", ["etcd34", "etcd35"])
def test_the_example_beside_etcdctl(request: pytest.FixtureRequest, fixture: str, prefix: str) -> None:
    server: servers.Etcd = request.getfixturevalue(fixture)
    text = (ROOT / "docs/examples/beside_etcdctl.sh").read_text()
    text = text.replace("127.0.0.1:2379", server.address).replace("app/", f"{prefix}/")
    folder = str(servers.find_etcdctl().parent)
    env = {**os.environ, "ETCDCTL_API": "3", "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    with recipes.connect(server.url(prefix)) as client:
        with client.lock("reports/nightly"):
            etcdctl = subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE, env=env, text=True)
            assert servers.eventually(lambda: len(server.keys(f"{prefix}/reports%2Fnightly/")) == 2, 10)
            assert etcdctl.poll() is None
        said, _ = etcdctl.communicate(timeout=60)
        assert said == "held by etcdctl\n"
        client.lock("reports/nightly").acquire(timeout=30).release()


def python(text: str, folder: Path = ROOT) -> str:
    """Run ``text`` in an interpreter of its own, where a warning is an error; returns what it says."""
    command = [sys.executable, "-W", "error", "-c", text]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, cwd=folder, env=os.environ | path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
