"""Worker processes and the whole demonstration, without a server.

In ``memory://`` each process has a store of its own. One worker alone is fine there; two do not
exclude each other, which is how the demonstration is shown to be able to fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.cli.demo import crew as module
from recipes.cli.demo import show as demo
from recipes.cli.demo.crew import Crew, CrewFailed
from recipes.cli.demo.show import Plan, show
from recipes.cli.demo.work import Work
from recipes.cli.demo.worker import Order
from recipes.cli.throwaway import ServerUnavailable

READY = """
import sys
print('{"worker": 1, "kind": "ready", "at": 0}', flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("locked", "unlocked"):
        Work(tmp_path, part).prepare()
    return tmp_path


def until(crew: Crew, kind: str) -> list[str]:
    return [message["kind"] for message in crew.messages(kind) if message is not None]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_workers_do_what_they_are_told(folder: Path) -> None:
    with Crew("memory://", folder, 2) as crew:
        assert until(crew, "ready").count("ready") == 2
        crew.order(Order(lock=False, rounds=3))
        assert until(crew, "done").count("done") == 2
        crew.dismiss()
        assert until(crew, "ended").count("ended") == 2
        pids = crew.pids
    assert len(Work(folder, "unlocked").ledger()) == 6
    assert all(map(gone, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_too_early_is_named(folder: Path, number: signal.Signals) -> None:
    with Crew("memory://", folder, 2) as crew:
        until(crew, "ready")
        crew.order(Order(lock=True, seconds=30))
        pids = crew.pids
        os.kill(pids[1], number)
        with pytest.raises(CrewFailed, match=r"worker 2 (was ended by SIGKILL|ended with exit code 130)"):
            until(crew, "done")
    assert all(map(gone, pids))


def test_a_worker_that_fails_at_the_very_end_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", f"{READY}\nsys.stdin.read()\nsys.exit('could not close')")
    with Crew("memory://", folder, 1) as crew:
        until(crew, "ready")
        crew.dismiss()
        with pytest.raises(CrewFailed, match="worker 1 ended with exit code 1: could not close"):
            until(crew, "ended")


def test_one_that_is_stopped_is_ended_too(folder: Path) -> None:
    with Crew("memory://", folder, 1) as crew:
        until(crew, "ready")
        pids = crew.pids
        os.kill(pids[0], signal.SIGSTOP)
    assert all(map(gone, pids))


def test_one_that_cannot_be_talked_to_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"
    monkeypatch.setattr(module, "START", f"{deaf}\n{READY}\ntime.sleep(60)")
    monkeypatch.setattr(module, "END_WITHIN_S", 0.2)
    with Crew("memory://", folder, 1) as crew:
        until(crew, "ready")
        pids = crew.pids
    assert all(map(gone, pids))


def test_silence_is_no_reason_to_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Crew("memory://", folder, 1) as crew:
        until(crew, "ready")
        monkeypatch.setattr(module, "SILENCE_S", 0.3)
        with pytest.raises(CrewFailed, match="worker 1 is not done, and nothing was heard"):
            until(crew, "done")


def test_a_worker_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", "raise SystemExit('no such thing')")
    with Crew("memory://", folder, 1) as crew:
        with pytest.raises(CrewFailed, match="worker 1 ended with exit code 1: no such thing"):
            until(crew, "ready")
        crew.order(Order(lock=True))  # nobody is there to take it


def test_a_worker_that_fails_says_why(folder: Path) -> None:
    with (
        Crew("etcd://127.0.0.1:1/x", folder, 1) as crew,
        pytest.raises(CrewFailed, match=r"worker 1 failed: no answer from 127\.0\.0\.1:1"),
    ):
        until(crew, "ready")


def test_one_process_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, rounds=5)) == 0
    out = capsys.readouterr().out
    assert "with the lock     0 of 5 updates lost; the counter says 5" in out
    assert "without the lock  0 of 5 updates lost (0%)" in out
    assert "too small to show a difference" in out
    assert out.splitlines()[-1].startswith("OK")


def test_a_lock_that_does_not_exclude_fails_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=2, rounds=50, json=True)) == 1
    verdict = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not verdict["ok"]
    assert verdict["lost"] > 0
    assert not verdict["tokens_rising"]
    assert verdict["overlaps"] > 0


def test_for_so_many_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, rounds=None, seconds=0.2, json=True)) == 0
    verdict = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert verdict["updates"] == verdict["unlocked_updates"] > 1


def test_a_worker_that_dies_fails_the_demonstration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Crew.order

    def kill(crew: Crew, one: Order) -> None:
        order(crew, one)
        os.kill(crew.pids[0], signal.SIGKILL)

    monkeypatch.setattr(Crew, "order", kill)
    assert show(Plan("memory://", processes=2, rounds=None, seconds=30)) == 1
    assert "FAILED  worker 1 was ended by SIGKILL" in capsys.readouterr().out


def test_a_store_that_does_not_answer_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("etcd://127.0.0.1:1/x", processes=2, rounds=1)) == 1
    printed = capsys.readouterr()
    assert printed.err.count("no answer from 127.0.0.1:1") == 1
    assert printed.out == ""


def test_no_server_to_be_had(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise ServerUnavailable("install etcd")

    monkeypatch.setattr(demo, "throwaway_etcd", unavailable)
    assert show(Plan(None, processes=2, rounds=1)) == 1
    assert capsys.readouterr().err == "recipes demo: install etcd\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_worker(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Crew.order
    pids: list[int] = []

    def interrupt(crew: Crew, one: Order) -> None:
        order(crew, one)
        pids.extend(crew.pids)
        signal.raise_signal(number)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Crew, "order", interrupt)
    assert show(Plan("memory://", processes=2, rounds=None, seconds=30)) == 130
    assert "interrupted" in capsys.readouterr().err
    assert pids
    assert all(map(gone, pids))
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_reader_that_has_seen_enough_ends_it() -> None:
    code = (
        "import sys; from recipes.cli.demo.show import Plan, show; "
        "sys.exit(show(Plan('memory://', processes=1, rounds=None, seconds=30)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 1
        assert process.stderr.read() == ""
