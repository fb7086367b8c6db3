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
from recipes.cli.demo.bank import Bank
from recipes.cli.demo.crew import Crew, CrewFailed
from recipes.cli.demo.orders import Order
from recipes.cli.demo.show import Plan, show
from recipes.cli.demo.work import Work
from recipes.cli.throwaway import ServerUnavailable

READY = """
import sys
print('{"worker": 1, "twin": false, "kind": "ready", "at": 0}', flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("locked", "unlocked"):
        Work(tmp_path, part).prepare()
        Bank(tmp_path, part).prepare()
    return tmp_path


def heard(crew: Crew) -> list[str]:
    return [message["kind"] for message in crew.messages() if message is not None]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_workers_and_their_twins_do_what_they_are_told(folder: Path) -> None:
    with Crew("memory://", folder, 2) as crew:
        assert heard(crew).count("ready") == 4
        crew.order(Order("counter", rounds=3), twins=True)
        assert (crew.busy(twins=True), crew.busy(twins=False)) == (True, False)
        crew.order(Order("bank", rounds=1), twins=True)
        assert heard(crew).count("done") == 4
        crew.dismiss()
        assert heard(crew).count("ended") == 4
        pids = crew.pids
    assert len(Work(folder, "unlocked").ledger()) == 6
    assert len(Bank(folder, "unlocked").ledger()) == 1
    assert all(map(gone, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_too_early_is_named(folder: Path, number: signal.Signals) -> None:
    with Crew("memory://", folder, 2) as crew:
        heard(crew)
        crew.order(Order("counter", seconds=30))
        pids = crew.pids
        os.kill(pids[1], number)
        with pytest.raises(CrewFailed, match=r"worker 2 (was ended by SIGKILL|ended with exit code 130)"):
            heard(crew)
    assert all(map(gone, pids))


def test_a_worker_that_fails_at_the_very_end_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", f"{READY}\nsys.stdin.read()\nsys.exit('could not close')")
    with Crew("memory://", folder, 1) as crew:
        heard(crew)
        crew.dismiss()
        with pytest.raises(CrewFailed, match="worker 1 ended with exit code 1: could not close"):
            heard(crew)


def test_one_that_is_stopped_is_ended_too(folder: Path) -> None:
    with Crew("memory://", folder, 1) as crew:
        heard(crew)
        pids = crew.pids
        os.kill(pids[0], signal.SIGSTOP)
    assert all(map(gone, pids))


def test_one_that_cannot_be_talked_to_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"
    monkeypatch.setattr(module, "START", f"{deaf}\n{READY}\ntime.sleep(60)")
    monkeypatch.setattr(module, "END_WITHIN_S", 0.2)
    with Crew("memory://", folder, 1) as crew:
        heard(crew)
        pids = crew.pids
    assert all(map(gone, pids))


def test_silence_is_no_reason_to_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Crew("memory://", folder, 1) as crew:
        heard(crew)
        monkeypatch.setattr(module, "SILENCE_S", 0.3)
        crew.members[0].owes += 1
        with pytest.raises(CrewFailed, match="worker 1 is not done, and nothing was heard"):
            heard(crew)


def test_a_worker_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", "raise SystemExit('no such thing')")
    with Crew("memory://", folder, 1) as crew:
        with pytest.raises(CrewFailed, match="worker 1 ended with exit code 1: no such thing"):
            heard(crew)
        crew.order(Order("counter"))  # nobody is there to take it


def test_a_worker_that_fails_says_why(folder: Path) -> None:
    with (
        Crew("etcd://127.0.0.1:1/x", folder, 1) as crew,
        pytest.raises(CrewFailed, match=r"worker 1 failed: no answer from 127\.0\.0\.1:1"),
    ):
        heard(crew)


def test_one_process_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, rounds=5)) == 0
    out = capsys.readouterr().out
    assert "updates lost      0 of 5                0 of 5" in out
    assert "wrong sums        0 of 5                0 of 5" in out
    assert "too small to show a difference" in out
    assert out.splitlines()[-1].startswith("OK")


def test_a_lock_that_does_not_exclude_fails_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=2, rounds=50, json=True)) == 1
    verdict = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not verdict["ok"]
    assert verdict["lost"] > 0
    assert not verdict["tokens_rising"]
    assert verdict["overlaps"] > 0
    assert verdict["bank_wrong"] > 0
    assert verdict["bank_overlaps"] > 0


def test_for_so_many_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, rounds=None, seconds=0.2, json=True)) == 0
    verdict = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert verdict["updates"] == verdict["unlocked_updates"] > 1
    assert verdict["bank_sums"] == verdict["unlocked_bank_sums"] > 1


def test_a_worker_that_dies_fails_the_demonstration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Crew.order

    def kill(crew: Crew, one: Order, **options: bool) -> None:
        order(crew, one, **options)
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
    assert show(Plan("etcd", processes=2, rounds=1)) == 1
    assert capsys.readouterr().err == "recipes demo: install etcd\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_no_worker(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Crew.order
    pids: list[int] = []

    def interrupt(crew: Crew, one: Order, **options: bool) -> None:
        order(crew, one, **options)
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
        assert process.wait(60) == 1
        assert process.stderr.read() == ""
