"""``recipes demo`` on real servers: the verdict, a worker that dies, Ctrl-C, and without ``--store``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from integration import servers


def demo(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start the command."""
    return subprocess.Popen(
        [sys.executable, "-m", "recipes.cli", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finished(process: subprocess.Popen[str], within_s: float = 60) -> tuple[int, str, str]:
    """Wait for the command to end; returns its exit code and what it printed."""
    try:
        out, err = process.communicate(timeout=within_s)
    finally:
        process.kill()
    return process.returncode, out, err


def lines_until_first_turn(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Read JSON lines until a worker has held the lock."""
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []
    while not lines or lines[-1]["kind"] != "turn":
        lines.append(json.loads(process.stdout.readline()))
    return lines


def test_nothing_is_lost_under_the_lock_and_much_without(url: str, nothing_left: None) -> None:
    code, out, err = finished(demo("--store", url, "--processes", "3", "--rounds", "30", "--json"))
    assert code == 0, err
    *messages, verdict = map(json.loads, out.splitlines())
    assert verdict["kind"] == "verdict"
    assert verdict["problems"] == []
    assert (verdict["updates"], verdict["counter"], verdict["lost"]) == (90, 90, 0)
    assert verdict["tokens_rising"]
    assert verdict["overlaps"] == 0
    assert verdict["hand_overs"] >= 2
    assert verdict["unlocked_updates"] == 90
    assert verdict["unlocked_lost"] > 0
    acquired = [message for message in messages if message.get("event") == "lock.acquired"]
    assert len(acquired) == 90


def test_for_people_it_is_short(url: str, nothing_left: None) -> None:
    code, out, err = finished(demo("--store", url, "--processes", "2", "--rounds", "40"))
    assert code == 0, err
    lines = out.splitlines()
    assert "0 of 80 updates lost" in out
    assert "without the lock" in out
    assert lines[-1] == "OK      no update was lost under the lock"
    assert len(lines) <= 75
    assert max(map(len, lines)) <= 80
    assert "\033" not in out


def test_a_killed_worker_fails_the_demo_and_does_not_hang_it(url: str) -> None:
    process = demo("--store", url, "--processes", "3", "--seconds", "60", "--json")
    lines = lines_until_first_turn(process)
    pids = [line["pid"] for line in lines if line["kind"] == "ready"]
    os.kill(pids[0], signal.SIGKILL)
    code, out, _ = finished(process, within_s=15)
    verdict = json.loads(out.splitlines()[-1])
    assert code == 1
    assert not verdict["ok"]
    assert "was ended by SIGKILL" in verdict["problems"][0]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_ctrl_c_stops_the_workers_and_gives_the_lock_back(url: str, nothing_left: None) -> None:
    process = demo("--store", url, "--processes", "3", "--seconds", "60", "--json")
    pids = [line["pid"] for line in lines_until_first_turn(process) if line["kind"] == "ready"]
    process.send_signal(signal.SIGINT)
    code, _, err = finished(process, within_s=15)
    assert code == 130
    assert "interrupted" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("end", [None, signal.SIGINT, signal.SIGTERM])
def test_without_a_store_it_starts_one_and_ends_it(etcd35: servers.Etcd, end: signal.Signals | None) -> None:
    size = ["--rounds", "5"] if end is None else ["--seconds", "60"]
    process = demo(
        "--processes", "2", *size, "--json", env={**os.environ, "RECIPES_ETCD": str(etcd35.binary)}
    )
    lines = lines_until_first_turn(process)
    if end is not None:
        process.send_signal(end)
    code, _, err = finished(process, within_s=30)
    assert code == (0 if end is None else 130), err
    assert "started for this run" in err
    store = next(line["store"] for line in lines if line.get("event") == "lock.acquired")
    host, _, port = urlsplit(store).netloc.partition(":")
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), timeout=5):
        pass
