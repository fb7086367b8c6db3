"""Fault 37: the store is wiped, or restored from a backup; nobody goes on holding what it has forgotten."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration import servers
from integration.faults.labs import LASTING_S, Lab, at_once
from integration.faults.test_connection import told_at
from integration.needing import needed
from recipes._programs.hold import NOT_RENEWED
from recipes._run.clock import boot_time
from tests.pace import grown_s, put_off

pytestmark = pytest.mark.long
SESSION_S = 15.0  # longer than the server is away: no session ends for that alone
SOON_S = 20.0


@pytest.fixture(params=servers.CONSENSUS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Yield a server of its own for each test: its data go."""
    with needed(request.param, servers.ALL[request.param].make) as one:
        yield one


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Return where a backup is put."""
    return tmp_path / "backup"


def back_up(server: servers.Server, backup: Path) -> None:
    """Make a backup of a running server, as its operators do."""
    if isinstance(server, servers.Etcd):
        etcdctl(server, "snapshot", "save", str(backup))
    else:
        shutil.copytree(server.home / "data", backup)


def restore(server: servers.Server, backup: Path) -> None:
    """Kill the server, and start it with what was backed up."""
    server.kill()
    shutil.rmtree(server.home / "data")
    if isinstance(server, servers.Etcd):
        peer = f"http://{server.host}:{server.peer_port}"
        where = ["--data-dir", str(server.home / "data"), "--name", server.name]
        cluster = ["--initial-cluster", f"{server.name}={peer}", "--initial-advertise-peer-urls", peer]
        etcdctl(server, "snapshot", "restore", str(backup), *where, *cluster)
    else:
        shutil.copytree(backup, server.home / "data")
    server.start()


def etcdctl(server: servers.Etcd, *words: str) -> None:
    command = [str(servers.find_etcdctl()), f"--endpoints={server.address}", *words]
    done = subprocess.run(command, env={"ETCDCTL_API": "3"}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_fault_37_store_restored_from_a_backup(
    server: servers.Server, prefix: str, figure: Callable[[str], None], backup: Path
) -> None:
    """What was held is lost; what was released, and stands again, blocks nobody for long."""
    for_both(server, prefix, figure, lambda: back_up(server, backup), lambda: restore(server, backup))


def test_fault_37_store_wiped(server: servers.Server, prefix: str, figure: Callable[[str], None]) -> None:
    for_both(server, prefix, figure, lambda: None, lambda: wipe(server))


def wipe(server: servers.Server) -> None:
    """Kill the server, and start it with nothing."""
    server.kill()
    server.restart(wipe=True)


def for_both(
    server: servers.Server,
    prefix: str,
    figure: Callable[[str], None],
    before: Callable[[], None],
    back: Callable[[], None],
) -> None:
    @at_once()
    def scenario(lab: Lab) -> None:
        one, other = (lab.actor(session_timeout=SESSION_S, request_timeout=3) for _ in range(2))
        kept, released = one.acquire("kept"), one.acquire("released")
        lab.together.wait()
        if lab.together.wait() == 0:
            before()
        lab.together.wait()
        assert released.release()
        new = other.acquire("new")
        for _ in range(20):
            assert other.acquire("released").release()
        told = [told_at(held) for held in (kept, new)]
        assert kept.verify()
        assert new.verify()
        lab.together.wait()
        if lab.together.wait() == 0:
            back()
        lab.together.wait()
        back_at, put_off_before = boot_time(), put_off(server.pid)

        for held, when in zip((kept, new), told, strict=True):
            assert held.wait_lost(2 * SESSION_S)
            assert held.held is False
            if isinstance(server, servers.Etcd):  # its clients find out, and do not wait for the time
                assert held.grant.lost_reason != NOT_RENEWED
            assert when.result(5) <= held.deadline + 0.5 + lab.pace.late_s(held.deadline)
        lab.figure(f"told {max(when.result() for when in told) - back_at:.2f} s after it was back")
        fresh = lab.actor(session_timeout=LASTING_S)
        for name in ("kept", "new", "released"):
            assert fresh.acquire(name, timeout=2 * SESSION_S).verify()
        took_s = boot_time() - back_at
        lab.figure(f"all granted anew {took_s:.2f} s after it was back")
        late_s = lab.pace.late_s(back_at) + grown_s(put_off_before, put_off(server.pid))
        assert took_s <= SESSION_S + 2 + late_s
        assert kept.release() is False
        assert new.release() is False
        assert one.acquire("another", timeout=SOON_S).verify()
        assert len(lab.contenders()) == 4

    scenario(server, prefix, figure)
