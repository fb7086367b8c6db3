"""The harness itself: servers start, stop, pause and forget nothing; leftovers are seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import servers
from integration.harness import finding
from integration.harness.process import eventually


@pytest.fixture(params=list(servers.ALL))
def own(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """A server of this test's own, which it may treat as it likes."""
    request.getfixturevalue(  # skips, or fails in CI, where the server is missing
        {"etcd-3.4": "etcd34", "etcd-3.5": "etcd35", "zookeeper-3.8": "zookeeper"}[request.param]
    )
    with servers.ALL[request.param].make() as server:
        yield server


def write(server: servers.Server, path: str) -> None:
    if isinstance(server, servers.Etcd):
        server.put(path)
        return
    with servers.kazoo_client(server) as client:
        client.create(f"/{path}", makepath=True)


def present(server: servers.Server, prefix: str) -> set[str]:
    left = servers.leftovers(server, prefix)
    return {path.strip("/") for path in left.contenders + left.parents}


def test_a_server_is_the_version_promised_and_serves(server: servers.Server, prefix: str) -> None:
    promised = servers.ALL[server.label]
    assert os.environ.get(promised.variable) or server.version() == promised.version
    write(server, f"{prefix}/a")
    assert f"{prefix}/a" in present(server, prefix)
    servers.clean(server, prefix)
    assert not present(server, prefix)
    assert server.url("/x/") == f"{server.scheme}://127.0.0.1:{server.port}/x"


def test_data_and_port_survive_stop_kill_and_restart(own: servers.Server, prefix: str) -> None:
    address, first = own.address, own.pid
    write(own, f"{prefix}/a")
    own.restart()
    assert own.pid != first
    write(own, f"{prefix}/b")
    own.kill()
    assert not own.running
    assert not own.healthy()
    own.start()
    assert {f"{prefix}/a", f"{prefix}/b"} <= present(own, prefix)
    assert own.address == address
    own.restart(wipe=True)
    assert not present(own, prefix)


def test_a_paused_server_is_silent_until_it_is_resumed(own: servers.Server) -> None:
    own.pause()
    assert own.running
    assert not own.healthy()
    own.resume()
    assert eventually(own.healthy, 10)
    own.pause()
    own.stop()  # also ends a paused one
    assert not own.running


def test_closing_removes_process_and_data_once(own: servers.Server) -> None:
    pid, home = own.pid, own.home
    own.pause()
    own.close()
    own.close()
    assert not home.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_dies_with_a_test_process_that_is_killed(own: servers.Server) -> None:
    program = f"""
        import sys
        from integration import servers
        server = servers.ALL[{own.label!r}].make().start()
        print(server.pid, server.home, flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        pid, home = child.stdout.readline().split()
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert eventually(lambda: not _exists(int(pid)), 10)
    subprocess.run(["rm", "-r", home], check=True)


def _exists(pid: int) -> bool:
    try:
        # A zombie that nobody collects is gone too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_leftovers_tell_contenders_from_parents(server: servers.Server, prefix: str) -> None:
    before = servers.sessions(server)
    if isinstance(server, servers.Etcd):
        lease = server.grant(60)
        server.put(f"{prefix}/lock/one", lease=lease)
        assert servers.leftovers(server, prefix) == servers.Leftovers((f"{prefix}/lock/one",))
        assert servers.sessions(server) - before == {lease}
        server.revoke(lease)
    else:
        with servers.kazoo_client(server) as client:
            client.create(f"/{prefix}/lock/one", ephemeral=True, makepath=True)
            left = servers.leftovers(server, prefix)
            assert left.contenders == (f"/{prefix}/lock/one",)
            assert left.parents == (f"/{prefix}", f"/{prefix}/lock")
            assert f"{client.client_id[0]:#x}" in servers.sessions(server) - before
    assert not servers.settle(server, prefix)
    assert servers.sessions(server) <= before


def test_etcd_lists_and_compacts(etcd35: servers.Etcd, prefix: str) -> None:
    etcd35.put(f"{prefix}/b")
    etcd35.put(f"{prefix}/a")
    assert etcd35.keys(prefix) == [f"{prefix}/b", f"{prefix}/a"]
    assert set(etcd35.keys(prefix)) <= set(etcd35.keys(""))
    revision = etcd35.compact()
    with pytest.raises(RuntimeError, match="compacted"):
        etcd35.ask("/v3/kv/range", {"key": "eA==", "revision": str(revision - 1)})


def test_etcd_cluster_survives_the_loss_of_its_leader(etcd35: servers.Etcd, prefix: str) -> None:
    with servers.EtcdCluster("etcd-cluster", etcd35.binary) as cluster:
        leader = cluster.leader()
        leader.kill()
        others = [member for member in cluster.members if member is not leader]
        assert eventually(lambda: any(cluster.leads(member) for member in others), 20)
        others[0].put(f"{prefix}/a")
        assert others[1].keys(prefix) == [f"{prefix}/a"]
        assert cluster.url("x").count(",") == 2


def test_zookeeper_cluster_survives_the_loss_of_its_leader(zookeeper: servers.ZooKeeper, prefix: str) -> None:
    with servers.ZooKeeperCluster("zookeeper-cluster", zookeeper.java) as cluster:
        leader = cluster.leader()
        leader.kill()
        others = [member for member in cluster.members if member is not leader]
        assert eventually(lambda: all(member.healthy() for member in others), 20)
        write(others[0], prefix)


def test_servers_are_looked_for_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, etcd35: servers.Etcd
) -> None:
    monkeypatch.setenv("RECIPES_TEST_ETCD_34", str(etcd35.binary))
    assert finding.find_etcd_34() == etcd35.binary
    monkeypatch.setenv("RECIPES_TEST_ETCD_34", "/nowhere/etcd")
    with pytest.raises(servers.ServerUnavailable, match="RECIPES_TEST_ETCD_34=/nowhere/etcd"):
        finding.find_etcd_34()
    monkeypatch.setenv("RECIPES_TEST_ETCD_34", sys.executable)
    with pytest.raises(servers.ServerUnavailable, match="no etcd"):
        finding.find_etcd_34()


def test_nothing_is_installed_when_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECIPES_TEST_NO_INSTALL", "1")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(finding, "_apt_install", lambda packages: pytest.fail("installed all the same"))
    with pytest.raises(servers.ServerUnavailable, match="etcd"):
        finding.find_etcdctl()
