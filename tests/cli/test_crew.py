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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes.cli.demo import crew as module
from recipes.cli.demo.command import Plan, show
from recipes.cli.demo.crew import Crew, CrewFailed
from recipes.cli.demo.scenes import SCENES, Numbers
from tests.children import child

READY = """
import sys
print('{"worker": %s, "event": "ready", "at": 0}' % sys.argv[-1], flush=True)
"""


def heard(crew: Crew) -> list[str]:
    return [message["event"] for message in crew.messages() if message is not None]


def pids(crew: Crew) -> list[int]:
    return [process.pid for process in crew.processes.values()]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_workers_do_what_they_are_ordered(folder: Path) -> None:
    with Crew("memory://", folder, 2, 10.0) as crew:
        assert heard(crew).count("ready") == 2
        crew.order("counter", "unlocked", 3, 0.0)
        assert heard(crew).count("done") == 2
        crew.order("accounts", "locked", 1, 0.0)
        assert heard(crew).count("done") == 2
        processes = pids(crew)
    assert 3 <= Numbers(folder, SCENES["counter"], "unlocked").read().numbers[0] <= 6
    assert Numbers(folder, SCENES["accounts"], "locked").read().changes == 2
    assert all(map(gone, processes))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_too_early_is_named(folder: Path, number: signal.Signals) -> None:
    with Crew("memory://", folder, 2, 10.0) as crew:
        heard(crew)
        crew.order("counter", "locked", 10_000, 0.001)
        processes = pids(crew)
        os.kill(processes[1], number)
        os.kill(processes[0], signal.SIGSTOP)
        with pytest.raises(CrewFailed, match=r"worker 2 ended (by SIGKILL|with exit code 0)"):
            heard(crew)
    assert all(map(gone, processes))


def test_one_that_is_stopped_is_ended_too(folder: Path) -> None:
    with Crew("memory://", folder, 1, 10.0) as crew:
        heard(crew)
        processes = pids(crew)
        os.kill(processes[0], signal.SIGSTOP)
    assert all(map(gone, processes))


def test_one_that_cannot_be_talked_to_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"
    monkeypatch.setattr(module, "START", f"{deaf}\n{READY}\ntime.sleep(60)")
    monkeypatch.setattr(module, "END_WITHIN_S", 0.2)
    with Crew("memory://", folder, 1, 10.0) as crew:
        heard(crew)
        processes = pids(crew)
    assert all(map(gone, processes))


def test_silence_is_no_reason_to_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", f"{READY}\nsys.stdin.read()")
    with Crew("memory://", folder, 1, 10.0) as crew:
        heard(crew)
        monkeypatch.setattr(module, "SILENCE_S", 0.3)
        crew.order("counter", "locked", 1, 0.0)
        with pytest.raises(CrewFailed, match=r"no answer came from the workers \{1\} for 0.3 s"):
            heard(crew)


def test_a_worker_that_cannot_start_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START", "raise SystemExit(3)")
    with Crew("memory://", folder, 1, 10.0) as crew:
        with pytest.raises(CrewFailed, match="worker 1 ended with exit code 3"):
            heard(crew)
        crew.order("counter", "locked", 1, 0.0)  # nobody is there to take it


def test_if_one_cannot_be_started_the_others_are_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def second_fails(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise OSError("no more processes")
        started.append(popen(*arguments, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", second_fails)
    with pytest.raises(OSError, match="no more processes"), Crew("memory://", folder, 2, 10.0):
        pytest.fail("it should not have started")
    assert started[0].returncode is not None


def test_a_worker_that_fails_says_why(folder: Path) -> None:
    with (
        Crew("etcd://127.0.0.1:1/x", folder, 1, 10.0) as crew,
        pytest.raises(CrewFailed, match=r"worker 1 failed: no answer from 127\.0\.0\.1:1"),
    ):
        heard(crew)


def test_workers_are_given_the_options_of_the_store(folder: Path) -> None:
    options = {"username": "me", "password": "secret"}
    with (
        Crew("etcd://127.0.0.1:1/x", folder, 1, 10.0, {**options, "colour": "red"}) as crew,
        pytest.raises(CrewFailed, match="worker 1 ended with exit code 1"),
    ):
        heard(crew)
    with Crew("etcd://127.0.0.1:1/x", folder, 1, 10.0, options) as crew:
        assert "secret" not in str(crew.processes[1].args)
        with pytest.raises(CrewFailed, match="worker 1 failed: no answer"):
            heard(crew)


def verdict(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))


def test_one_process_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, rounds=7)) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "updates lost 0 of 7 0 of 7" in lines
    assert "wrong sums 0 of 7 0 of 7" in lines
    assert lines[-1].startswith("OK")


def test_a_lock_that_does_not_exclude_fails_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=3, rounds=50, as_json=True)) == 1
    found = verdict(capsys)
    assert not found["ok"]
    for scene, wrongs in (("counter", "updates lost"), ("accounts", "wrong sums")):
        problems = "\n".join(problem for problem in found["problems"] if problem.startswith(scene))
        for words in (wrongs, "the file counted", "do not rise", "beside a holder that excludes it"):
            assert words in problems


def test_for_so_many_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("memory://", processes=1, seconds=0.2, as_json=True)) == 0
    found = verdict(capsys)
    for scene in ("counter", "accounts"):
        assert found[scene]["locked"]["turns"] == found[scene]["unlocked"]["turns"] > 1


def test_the_orders_are_slow_at_first_or_all_the_time() -> None:
    assert list(Plan(rounds=12).orders(0)) == [(5, 0.002), (5, 0.002), (2, 0.002)]
    assert list(Plan(rounds=9).orders(3)) == [(3, 0.15), (5, 0.002), (1, 0.002)]
    assert list(Plan(rounds=2).orders(3)) == [(2, 0.15)]
    assert list(Plan(rounds=6, slowly=True).orders(0)) == [(5, 0.15), (1, 0.15)]
    assert sum(turns for turns, _ in Plan().orders(3)) == 100


def on_order(monkeypatch: pytest.MonkeyPatch, does: Any) -> None:
    """Have something happen once everyone was ordered something."""
    order = Crew.order

    def ordered(crew: Crew, *words: object) -> None:
        order(crew, *words)
        does(crew)

    monkeypatch.setattr(Crew, "order", ordered)


def test_a_worker_that_dies_fails_the_demonstration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_order(monkeypatch, lambda crew: os.kill(pids(crew)[0], signal.SIGKILL))
    assert show(Plan("memory://", processes=2, seconds=30.0)) == 1
    assert "FAILED  worker 1 ended by SIGKILL" in capsys.readouterr().out


def test_a_store_that_does_not_answer_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Plan("etcd://127.0.0.1:1/x", processes=2, rounds=1)) == 1
    printed = capsys.readouterr()
    assert printed.err.count("no answer from 127.0.0.1:1") == 1
    assert printed.out == ""


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.usefixtures("_signals_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_no_worker(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[int] = []

    def interrupt(crew: Crew) -> None:
        processes.extend(pids(crew))
        signal.raise_signal(number)

    on_order(monkeypatch, interrupt)
    assert show(Plan("memory://", processes=2, seconds=30.0)) == 130
    assert "interrupted" in capsys.readouterr().err
    assert processes
    assert all(map(gone, processes))


def test_a_reader_that_has_seen_enough_ends_it() -> None:
    code = (
        "import sys; from recipes.cli.demo.command import Plan, show; "
        "sys.exit(show(Plan('memory://', processes=1, seconds=30.0, as_json=True)))"
    )
    with child([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == ""


def test_a_password_in_the_url_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def screen(store: str, *_: object, **__: object) -> None:
        shown.append(store)
        raise KeyboardInterrupt

    monkeypatch.setattr("recipes.cli.demo.command.Screen", screen)
    assert show(Plan("etcd://user:secret@127.0.0.1:1/x")) == 130
    assert shown == ["etcd://127.0.0.1:1/x"]
