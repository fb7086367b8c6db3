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
import redis

from integration import servers
from integration.conftest import FIXTURES
from integration.credentials.servers import SENTINEL, SecureRedis
from integration.harness import finding
from integration.harness.process import eventually
from integration.order import spread
from tests.children import child


@pytest.fixture(params=list(servers.ALL))
def own(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """A server of this test's own, which it may treat as it likes."""
    request.getfixturevalue(FIXTURES[request.param])  # skips, or fails in CI, where the server is missing
    with servers.ALL[request.param].make() as server:
        yield server


KEEPING = ["etcd-3.4", "etcd-3.5", "zookeeper-3.8"]
"""Servers that keep on disk what a test wrote."""


def write(server: servers.Server, path: str) -> None:
    if isinstance(server, servers.Etcd):
        server.put(path)
        return
    with servers.kazoo_client(server) as client:
        client.create(f"/{path}", makepath=True)


def present(server: servers.Server, prefix: str) -> set[str]:
    left = servers.leftovers(server, prefix)
    return {path.strip("/") for path in left.contenders + left.parents}


def test_a_server_is_the_version_promised(server: servers.Server) -> None:
    promised = servers.ALL[server.label]
    assert os.environ.get(promised.variable) or server.version() == promised.version


@pytest.mark.parametrize("server", KEEPING, indirect=True)
def test_what_was_written_is_found_and_cleaned(server: servers.Server, prefix: str) -> None:
    write(server, f"{prefix}/a")
    assert f"{prefix}/a" in present(server, prefix)
    servers.clean(server, prefix)
    assert not present(server, prefix)
    assert server.url("/x/") == f"{server.scheme}://127.0.0.1:{server.port}/x"


@pytest.mark.parametrize("own", KEEPING, indirect=True)
def test_data_and_port_survive_stop_kill_and_restart(own: servers.Server, prefix: str) -> None:
    address, first = own.address, own.pid
    write(own, f"{prefix}/a")
    own.restart()
    assert own.pid != first
    write(own, f"{prefix}/b")
    forgets = isinstance(own, servers.Etcd) and own.forgets_when_killed()  # what it has only just answered
    kept = {f"{prefix}/a"} if forgets else {f"{prefix}/a", f"{prefix}/b"}
    own.kill()
    assert not own.running
    assert not own.healthy()
    own.start()
    assert kept <= present(own, prefix)
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
    with child(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, home = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert eventually(lambda: not _exists(int(pid)), 10)
    subprocess.run(["rm", "-r", home], check=True)


def _exists(pid: int) -> bool:
    try:
        # A zombie that nobody collects is gone too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter, if it ends while it is read
        return False


def test_leftovers_tell_contenders_from_parents(server: servers.Server, prefix: str) -> None:
    before = servers.sessions(server)
    if isinstance(server, servers.Etcd):
        lease = server.grant(60)
        server.put(f"{prefix}/lock/one", lease=lease)
        assert servers.leftovers(server, prefix) == servers.Leftovers((f"{prefix}/lock/one",))
        assert servers.sessions(server) - before == {lease}
        server.revoke(lease)
    elif isinstance(server, servers.Redis):
        key, session, far = f"{prefix}:one", f"{prefix}:~session:a", 2**50
        server.ask("ZADD", f"{{{key}}}:queue", 1, "7", 2, "8")
        server.ask("HSET", f"{{{key}}}:known", "d7", far, "d8", 1)
        server.ask("SET", session, 1)
        assert servers.leftovers(server, prefix) == servers.Leftovers((f"{key}/7", session))
        assert servers.sessions(server) - before == {session}
        servers.clean(server, prefix)
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
        assert eventually(lambda: any(cluster._leads(member) for member in others), 20)
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


def test_redis_keeps_what_it_should_over_a_kill(redis_server: servers.Redis) -> None:
    with servers.Redis("redis", redis_server.binary, keeps=True) as kept:
        kept.ask("SET", "a", 1)
        kept.kill()
        assert not kept.healthy()
        kept.start()
        assert kept.ask("GET", "a") == b"1"
        kept.restart(wipe=True)
        assert kept.ask("GET", "a") is None
    with servers.Redis("redis", redis_server.binary) as forgetful:
        forgetful.ask("SET", "a", 1)
        forgetful.kill()
        assert forgetful.start().ask("GET", "a") is None
        forgetful.pause()
        assert forgetful.running
        assert not forgetful.healthy()
        forgetful.resume()
        assert eventually(forgetful.healthy, 10)


def test_a_redis_that_was_left_goes_on_serving(redis_server: servers.Redis) -> None:
    with servers.RedisReplicas("redis-replicas", redis_server.binary) as pair:
        former, replica = pair.members
        replica.follow(None)
        assert former.leads
        assert replica.leads
        assert [former.ask("SET", "a", 1), replica.ask("GET", "a")] == [True, None]
        replica.follow(former)
        assert eventually(pair.formed, 20)
        assert replica.ask("GET", "a") == b"1"
        assert pair.failover() is replica
        assert pair.url("x") == f"redis://{replica.address}/0/x"
        assert not former.leads


def test_sentinels_replace_a_master_that_was_killed(redis_server: servers.Redis) -> None:
    with servers.RedisSentinels("redis-sentinels", redis_server.binary) as group:
        assert group.url("x").count(",") == 2
        assert group.url("x").endswith("/mymaster/0/x")
        former = group.leader()
        former.ask("SET", "a", 1)
        assert former.ask("WAIT", 2, 5000) == 2
        former.kill()
        assert group.promoted(former).ask("GET", "a") == b"1"


def test_a_redis_cluster_goes_on_without_a_master(redis_server: servers.Redis) -> None:
    with servers.RedisCluster("redis-cluster", redis_server.binary) as cluster:
        assert cluster.url("x").count(",") == 5
        former = cluster.master_of("a")
        assert cluster.failover(former) is cluster.master_of("a")
        assert eventually(lambda: cluster.replica_of(cluster.master_of("a")) is former, 20)
        cluster.master_of("a").kill()
        assert eventually(lambda: former.leads, 60)
        cluster.start()
        assert cluster.master_of("a") is former


def test_a_secure_redis_asks_who_is_there(redis_server: servers.Redis) -> None:
    assert redis_server.healthy()
    with SecureRedis(mutual=True) as asking, SecureRedis(tls=False, user=False) as by_password:
        assert asking.ask("SET", "a", 1)
        assert asking.url("x").startswith("rediss://127.0.0.1:")
        assert {"username", "password", "tls_ca", "tls_cert", "restart_grace"} == set(asking.options)
        with redis.Redis(by_password.host, by_password.port, password=SENTINEL) as client:
            assert client.set("t-a", 1)
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set("a", 1)
        nameless = redis.Redis(by_password.host, by_password.port)
        with nameless, pytest.raises(redis.exceptions.AuthenticationError):
            nameless.set("t-a", 1)


@pytest.mark.parametrize("items", ["LLLLLLLaaaaaaaaaaaaaa", "aLaLa", "LLLL", "aaa", "aaaaaaLLLLLLaaa", ""])
@pytest.mark.parametrize("processes", [1, 2, 5])
def test_every_other_process_begins_with_its_share_of_what_takes_long(items: str, processes: int) -> None:
    found = spread(items, lambda one: one == "L", processes)
    assert sorted(found) == sorted(items)
    left, at = len(items), 0
    for number in range(processes):
        share = left // (processes - number)
        own = "".join(found[at : at + share])
        if len(items) >= processes * (items.count("L") + 1):
            of = 0 if number % 2 else len(range(number // 2, items.count("L"), (processes + 1) // 2))
            assert own.count("L") == of
        assert own == "L" * own.count("L") + "a" * own.count("a")
        left, at = left - share, at + share
