"""``recipes run`` on a file: exit codes, pipes, signals, and the death of any of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import recipes
from integration import servers
from recipes._run.blocking import CLOSE_WITHIN_S
from recipes._run.clock import boot_time
from recipes.cli import codes
from recipes.cli.running import guard
from tests.children import child
from tests.cli.runs import RECIPES, WITHIN_S, Run, recipes_run
from tests.pace import Pace

CLOCK = "time.clock_gettime(time.CLOCK_BOOTTIME)"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


def nobody_is_there(url: str) -> bool:
    """Whether the lock can be had at once."""
    with recipes.connect(url) as client:
        return client.lock("x").try_acquire() is not None


def in_one_process(url: str, cases: list[list[str]]) -> list[tuple[int, str]]:
    """Return exit code and words of ``recipes run x`` for each of these, in one interpreter to save time."""
    program = """
import contextlib, io, json, sys
from recipes.cli import main
for words in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    print(json.dumps([code, said.getvalue()]), flush=True)
"""
    lines = [["run", "x", "--store", url, *words] for words in cases]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_the_exit_code_is_the_command_s(url: str) -> None:
    cases: list[tuple[list[str], int, str]] = [
        (["true"], 0, ""),
        (["sh", "-c", "exit 1"], 1, ""),
        (["sh", "-c", "exit 255"], 255, ""),
        (["sh", "-c", "exit 123"], 123, "123 is the exit code of sh itself"),
        (["sh", "-c", "kill -KILL $$"], 137, ""),
        (["sh", "-c", "kill -SEGV $$"], 139, ""),
        (["sh", "-c", "kill -40 $$"], 168, ""),
        (["no-such-program"], codes.NOT_FOUND, "no-such-program could not be started: No such file"),
        (["./nowhere/program"], codes.NOT_FOUND, "could not be started: No such file"),
        (["/"], codes.CANNOT_RUN, "/ could not be started: Permission denied"),
        ([""], codes.NOT_FOUND, "could not be started: No such file"),
    ]
    seen = in_one_process(url, [["--", *command] for command, _, _ in cases])
    for (command, code, words), (found, said) in zip(cases, seen, strict=True):
        assert found == code, (command, said)
        assert words in said
        assert bool(words) == bool(said), said


def test_wrong_arguments_have_a_code_of_their_own(url: str) -> None:
    cases = [
        (["--"], "Missing argument"),
        (["ls", "-l"], "put -- before the command"),
        (["psql", "-h", "db", "-f", "x.sql"], "put -- before the command: ... -- psql -h db"),
        (["rsync", "--quiet", "a"], "put -- before the command"),
        (["git", "checkout", "--", "file"], "put -- before the command: ... -- git checkout ..."),
        (["cat", "-", "-n"], "put -- before the command: ... -- cat - -n"),
        (["--ttl", "1", "--", "true"], "a number of seconds of at least 2"),
        (["--grace", "6", "--", "true"], "more than a third of --ttl"),
        (["--try", "--timeout", "3", "--", "true"], "--try does not wait"),
        (["--timeout", "-1", "--", "true"], "a number of seconds of at least 0"),
        (["--timeout", "1e300", "--", "true"], "at most a century"),
        (["--on-lost", "panic", "--", "true"], "panic"),
        (["--events", "/nowhere/log", "--", "true"], "/nowhere/log"),
        (["--store", "nonsense://x", "--", "true"], "unknown store"),
        (["--store", "memory://", "--", "true"], "does not give many_processes"),
    ]
    seen = in_one_process(url, [words for words, _ in cases])
    for (words, expected), (code, said) in zip(cases, seen, strict=True):
        assert code == codes.WRONG, (words, said)
        assert expected in said
        assert "Traceback" not in said


def test_a_store_out_of_reach_has_one_too() -> None:
    done = recipes_run("etcd://127.0.0.1:1/x", "--", "true")
    assert done.returncode == codes.UNREACHABLE
    assert "127.0.0.1:1" in done.stderr


def test_the_store_may_be_in_the_environment(url: str) -> None:
    command = [*RECIPES, "run", "x", "--", "sh", "-c", 'echo "$RECIPES_STORE $RECIPES_LOCK $RECIPES_MODE"']
    done = subprocess.run(
        command, env={**os.environ, "RECIPES_STORE": url}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{url} x exclusive\n"


def test_a_lock_that_is_not_free_is_said_by_the_code_alone_if_asked(url: str) -> None:
    with recipes.connect(url) as client, client.lock("x"):
        cases: list[tuple[list[str], int, str]] = [
            (["--try"], codes.NOT_ACQUIRED, "was not acquired"),
            (["--try", "--quiet"], codes.NOT_ACQUIRED, ""),
            (["--timeout", "0.1", "--quiet", "--conflict-exit-code", "0"], 0, ""),
            (["--try", "-E", "75"], 75, "was not acquired"),
            (["--try", "-E", "256"], codes.WRONG, "0<=x<=255"),
        ]
        found = in_one_process(url, [[*words, "true"] for words, _, _ in cases])
    for (code, said), (words, wanted, part) in zip(found, cases, strict=True):
        assert code == wanted, words
        assert (part in said) if part else not said, words


def test_to_be_quiet_hides_no_other_trouble(tmp_path: Path) -> None:
    ((code, said),) = in_one_process(
        f"sqlite://{tmp_path}/missing/locks.db", [["--quiet", "-E", "0", "true"]]
    )
    assert code == codes.UNREACHABLE
    assert "does not exist" in said


def test_the_command_knows_its_token_and_how_long_it_is_proven(url: str, tmp_path: Path) -> None:
    names = "TOKEN", "REMAINING", "DEADLINE"
    print_it = f"import os, time; print(*(os.environ['RECIPES_' + n] for n in {names}), {CLOCK})"
    report = tmp_path / "report"
    words = ["--ttl", "10", "--report", str(report), "--", sys.executable, "-c", print_it]
    tokens = []
    for _ in range(2):
        token, remaining, deadline, now = recipes_run(url, *words).stdout.split()
        assert 5 < float(remaining) <= 9
        assert float(now) < float(deadline) < float(now) + 9
        tokens.append(int(token))
    assert tokens[0] < tokens[1]
    said = json.loads(report.read_text())
    assert (said["outcome"], said["code"], said["command_code"], said["token"]) == ("exited", 0, 0, tokens[1])


def test_a_log_that_cannot_be_written_changes_nothing_but_is_said(url: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    words = ["--events", "/dev/full", "--report", str(report), "--", "sh", "-c", "exit 3"]
    done = recipes_run(url, *words)
    assert done.returncode == 3
    assert json.loads(report.read_text())["outcome"] == "exited"
    assert "recipes run: not all events could be written: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_session_may_be_asked_for_among_the_options_of_the_store(url: str) -> None:
    given = {**os.environ, "RECIPES_STORE_OPTIONS": "session_timeout=40 request_timeout=6 owner=me"}
    done = recipes_run(url, "--", "sh", "-c", 'echo "$RECIPES_REMAINING"', env=given)
    assert done.returncode == 0, done.stderr
    assert 15 < float(done.stdout) <= 40


def test_what_a_store_cannot_give_is_the_store_s_refusal() -> None:
    program = """
import sys
from recipes import testing
from recipes.cli import main
with testing.Store("memcached") as store:
    sys.exit(main(["run", "x", "--shared", "--store", store.url, "--", "true"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == codes.UNREACHABLE
    assert "does not give shared" in done.stderr


SUPERVISED = """
import json, sys
import recipes
from recipes.cli.running.minder import Minder
from recipes.cli.running.signals import Signals
from recipes.cli.running.supervise import Supervisor
from recipes.cli.running.terminal import Terminal
with recipes.connect("memory://") as client, Signals() as signals, Minder([]) as minder:
    minder.await_ready()
    signals.collect()
    grant = client.lock("x").acquire()
    supervisor = Supervisor(grant, minder, signals, Terminal(), print, title="lock 'x'", stops=True)
    ending = supervisor.run(["touch", sys.argv[1]], {}, grace_s=1000.0)
    print(json.dumps(ending.as_fields()))
    print(ending.words("lock 'x'", ["touch"]))
"""


def test_a_command_for_which_it_was_too_late_has_no_exit_code(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    command = [sys.executable, "-c", SUPERVISED, str(touched)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    report, said = done.stdout.splitlines()
    ending = json.loads(report)
    assert (ending["outcome"], ending["code"], ending["command_code"]) == ("lost", codes.LOST, None)
    assert ending["token"] > 0
    assert said == "lock 'x' was lost: its proof ran out; touch was not started"
    assert not touched.exists()


STOPPED = """
import os, signal
from recipes._run.blocking import CLOSE_WITHIN_S
from recipes._run.clock import boot_time
from recipes.cli.running.minder import Minder
with Minder([]) as minder:
    minder.await_ready()
    pid = minder._process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    for number in range(20_000):
        minder.deadline(boot_time() + number)
    os.kill(pid, signal.SIGCONT)
    minder.start(["true"], {}, deadline=None, grace_s=1, terminal=False, ignored=[])
    told = []
    while "ended" not in told:
        told += [message["told"] for message in minder.news()]
    print(*told)
"""


def test_a_guard_that_reads_nothing_does_not_block_who_tells_it_the_deadline() -> None:
    command = [sys.executable, "-c", STOPPED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "forked ended\n"


def test_one_that_waits_in_vain_says_so(url: str) -> None:
    with recipes.connect(url) as client, client.lock("x"):
        tried = recipes_run(url, "--try", "--", "true")
        assert (tried.returncode, "another client holds it" in tried.stderr) == (codes.NOT_ACQUIRED, True)
        late = recipes_run(url, "--timeout", "0.3", "--", "true")
        assert (late.returncode, "within 0.3 s" in late.stderr) == (codes.NOT_ACQUIRED, True)
        assert recipes_run(url, "--shared", "--try", "--", "true").returncode == codes.NOT_ACQUIRED


def test_files_that_are_open_for_it_reach_the_command(url: str, tmp_path: Path) -> None:
    with (tmp_path / "extra").open("w") as extra:
        code = f"import os; os.write({extra.fileno()}, b'written')"
        done = recipes_run(url, "--", sys.executable, "-c", code, pass_fds=(extra.fileno(),))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "extra").read_text() == "written"


def test_nothing_of_the_client_reaches_the_command(url: str) -> None:
    done = recipes_run(url, "--", "sh", "-c", "ls -l /proc/self/fd")
    opened = [line.split()[8:] for line in done.stdout.splitlines()[1:]]
    assert all(int(words[0]) <= 2 or "/proc/" in words[-1] for words in opened), done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_command_s(url: str, tmp_path: Path, number: signal.Signals) -> None:
    with Run(url, tmp_path / "run", words=("family",)) as run:
        run.until("child").signal(number)
        code, _, report = run.ended()
        assert (code, report["outcome"]) == (7, "exited")
        assert run.noted(f"child-{number.name}")
        assert run.running() == []
    assert nobody_is_there(url)


def test_a_signal_that_does_not_end_it_does_not_end_the_lock(url: str, tmp_path: Path) -> None:
    with Run(url, tmp_path / "run", words=("stubborn",)) as run:
        run.until("child").signal(signal.SIGUSR1)
        run.until("child-SIGUSR1").signal(signal.SIGTERM)
        run.until("child-SIGTERM")
        assert not nobody_is_there(url)
        os.kill(run.pid(), signal.SIGKILL)
        code, _, report = run.ended()
        assert (code, report["outcome"]) == (137, "signalled")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_waiting_leaves_nothing_in_the_queue(
    url: str, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "events"
    with recipes.connect(url) as client:
        with client.lock("x"), Run(url, tmp_path / "run", "--events", str(log)) as run:
            assert servers.eventually(lambda: log.exists() and "lock.queued" in log.read_text(), WITHIN_S)
            run.signal(number)
            code, said, report = run.ended()
        assert (code, report["outcome"]) == (128 + number, "interrupted")
        assert f"{number.name} while waiting" in said
        assert not run.noted("child")
        assert client.lock("x").try_acquire() is not None


def test_more_signals_do_not_cut_off_what_the_first_has_begun(url: str, tmp_path: Path) -> None:
    log, path = tmp_path / "events", tmp_path / "locks.db"
    with recipes.connect(url) as client, contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        with (
            client.lock("x") as grant,
            Run(url, tmp_path / "run", "--events", str(log)) as run,
            Pace() as pace,
        ):
            assert servers.eventually(lambda: log.exists() and "lock.queued" in log.read_text(), WITHIN_S)
            locked_at = boot_time()
            db.execute("BEGIN IMMEDIATE")  # nobody else writes: it cannot leave the queue
            signalled_at = boot_time()
            run.signal(signal.SIGTERM)
            assert servers.eventually(lambda: "lock.cancelled" in log.read_text(), 30, every_s=0.005)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                run.signal(number)
            db.rollback()
            code, said, report = run.ended()
            took_s = boot_time() - signalled_at
            waiting = db.execute("SELECT token FROM contender").fetchall()
            late_s = pace.late_s(locked_at)
        # It has 2 s to leave the queue; then it is gone, and who comes next finds that out.
        if took_s < CLOSE_WITHIN_S or late_s < 1:
            assert waiting == [(grant.token,)]
        assert client.lock("x").try_acquire() is not None
    assert (code, report["outcome"]) == (128 + signal.SIGTERM, "interrupted")
    assert said.splitlines() == [
        f"recipes run: SIGTERM while waiting for lock 'x'; {sys.executable} was not started"
    ]


def test_what_the_command_leaves_behind_ends_before_the_lock_does(url: str, tmp_path: Path) -> None:
    with Run(url, tmp_path / "run", "--grace", "3", words=("family", "stubborn", "ends")) as run:
        code, said, report = run.ended()
        assert (code, report["left"]) == (5, 2)
        assert "left 2 processes behind" in said
        assert run.noted("near-SIGTERM")
        assert run.noted("far-SIGTERM")
        assert run.running() == []
    assert nobody_is_there(url)


def test_killed_it_takes_the_command_along_before_anybody_else_holds(url: str, tmp_path: Path) -> None:
    with recipes.connect(url) as client, Run(url, tmp_path / "run", words=("family", "stubborn")) as run:
        run.until("child").signal(signal.SIGKILL)
        client.lock("x").acquire(timeout=20)
        assert run.running() == []


def test_when_its_guard_is_killed_the_command_ends(url: str, tmp_path: Path) -> None:
    with Run(url, tmp_path / "run", words=("family", "stubborn")) as run:
        os.kill(run.until("child").guard, signal.SIGKILL)
        code, said, report = run.ended()
        assert (code, report["outcome"]) == (codes.WRONG, "failed")
        assert "guard" in said
        assert run.running() == []
    assert nobody_is_there(url)


@pytest.mark.parametrize("unread", [False, True])
def test_when_a_guard_that_was_stopped_is_killed_the_command_ends(
    url: str, tmp_path: Path, unread: bool
) -> None:
    with Run(url, tmp_path / "run", "--ttl", "8", words=("family", "stubborn")) as run:
        guard = run.until("child").guard
        os.kill(guard, signal.SIGSTOP)
        if unread:  # orders wait for it, of renewals
            threading.Event().wait(3.5)
        os.kill(guard, signal.SIGKILL)
        code, _, report = run.ended()
        assert (code, report["outcome"]) == (codes.WRONG, "failed")
        assert run.running() == []
    assert nobody_is_there(url)


def test_when_its_guard_is_stopped_and_the_lock_is_lost_the_command_ends(url: str, tmp_path: Path) -> None:
    with recipes.connect(url) as client, Run(url, tmp_path / "run", words=("family", "stubborn")) as run:
        os.kill(run.until("child").guard, signal.SIGSTOP)
        (holder,) = client.lock("x").contenders()
        assert holder.token is not None
        assert client.lock("x").evict(holder.token)
        code, _, report = run.ended()
        assert (code, report["outcome"]) == (codes.LOST, "lost")
        assert run.running() == []


def test_when_nobody_is_left_to_end_the_command_the_kernel_does(url: str, tmp_path: Path) -> None:
    with Run(url, tmp_path / "run", words=("stubborn",)) as run:
        guard = run.until("child").guard
        run.signal(signal.SIGSTOP)
        os.kill(guard, signal.SIGKILL)
        run.gone_at()


def test_on_a_file_the_guard_keeps_the_session_until_it_is_gone(url: str, tmp_path: Path) -> None:
    def liveness_locks(pid: int) -> list[str]:
        return [link for link in links(pid) if link.endswith(".lock")]

    with Run(url, tmp_path / "run", words=("stubborn",)) as run:
        guard = run.until("child").guard
        assert liveness_locks(guard) == liveness_locks(run.process.pid) != []
        assert liveness_locks(run.pid()) == []


def links(pid: int) -> list[str]:
    """Return what a process has open."""
    return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]


def test_stopped_past_the_session_its_command_is_ended_in_time(url: str, tmp_path: Path) -> None:
    with (
        recipes.connect(url) as client,
        Run(url, tmp_path / "run", "--ttl", "8", "--grace", "2", words=("family", "stubborn")) as run,
    ):
        run.until("child").signal(signal.SIGSTOP)
        with run.gone_before(ttl_s=8):
            client.lock("x").acquire(timeout=20)
        assert run.noted("child-SIGTERM")
        run.signal(signal.SIGCONT)
        code, said, report = run.ended()
        assert (code, report["outcome"]) == (codes.LOST, "lost")
        assert report["command_code"] in (137, None)  # None: a starved guard was ended with its command
        assert "was lost" in said


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_files_are_no_reason_to_fail(url: str, tmp_path: Path, closed: str) -> None:
    noted = tmp_path / "noted"
    code = f"ls -l /proc/self/fd > {noted}.fds; echo out; echo err >&2; echo done > {noted}; exit 6"
    line = shlex.join([*RECIPES, "run", "x", "--store", url, "--", "sh", "-c", code])
    done = subprocess.run(
        ["sh", "-c", f"{line} {closed}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (6, "")
    assert done.stdout == ("" if "1>" in closed else "out\n"), "what is for people is not put there"
    assert noted.read_text() == "done\n"
    assert "socket" not in noted.with_suffix(".fds").read_text()


def test_one_that_waits_with_its_standard_error_closed_ends_as_it_should(url: str) -> None:
    line = shlex.join([*RECIPES, "run", "x", "--store", url, "--timeout", "0.2", "--", "true"])
    with recipes.connect(url) as client, client.lock("x"):
        done = subprocess.run(
            ["sh", "-c", f"{line} 2>&-"], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (codes.NOT_ACQUIRED, "", "")


def test_without_a_terminal_and_without_files(url: str) -> None:
    done = recipes_run(url, "--", "sh", "-c", "exit 6", stdin=subprocess.DEVNULL, start_new_session=True)
    assert (done.returncode, done.stderr) == (6, "")


def test_a_command_that_stops_where_there_is_no_terminal_goes_on(url: str) -> None:
    asked = "kill -TTIN $$; exit 6"
    done = recipes_run(url, "--", "sh", "-c", asked, stdin=subprocess.DEVNULL, start_new_session=True)
    assert done.returncode == 6, done.stderr


@pytest.fixture
def undying(tmp_path: Path) -> list[str]:
    """Return the command ``recipes``, for which what it kills seems to hang in the kernel."""
    stub = tmp_path / "stub.py"
    stub.write_text(
        f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("guard", {guard.__file__!r})
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)
killed = guard.end_all
def end_all(*of):
    killed(*of)
    return [4711, 4712]
guard.end_all = end_all
if __name__ == "__main__":
    sys.exit(guard.main(sys.argv[1:]))
"""
    )
    program = f"""
import runpy, sys
from recipes.cli import main
from recipes.cli.running import guard
guard.end_all = runpy.run_path({str(stub)!r})["end_all"]
guard.__file__ = {str(stub)!r}
sys.exit(main(sys.argv[1:]))
"""
    return [sys.executable, "-c", program]


def test_what_cannot_be_ended_is_not_said_to_have_ended(url: str, tmp_path: Path, undying: list[str]) -> None:
    report = tmp_path / "report"
    leaves = ["sh", "-c", "trap '' TERM; (trap '' TERM; while :; do sleep 0.01; done) >&- 2>&- & exit 3"]
    words = ["run", "x", "--store", url, "--grace", "0.1", "--report", str(report), "--", *leaves]
    done = subprocess.run([*undying, *words], capture_output=True, text=True, timeout=60, check=False)
    said = json.loads(report.read_text())
    assert (done.returncode, said["outcome"], said["stuck"]) == (3, "exited", [4711, 4712])
    assert said["left"] >= 1
    assert "which were ended" not in done.stderr
    assert "could not be ended, and may run on all the same: 4711, 4712" in done.stderr


def test_the_same_where_the_guard_was_killed(url: str, tmp_path: Path, undying: list[str]) -> None:
    noted, report = tmp_path / "noted", tmp_path / "report"
    words = ["run", "x", "--store", url, "--report", str(report), "--"]
    command = ["sh", "-c", f"echo $PPID > {noted}.new; mv {noted}.new {noted}; sleep 60"]
    with child([*undying, *words, *command], stderr=subprocess.PIPE, text=True) as run:
        assert servers.eventually(noted.exists, 30, every_s=0.01)
        os.kill(int(noted.read_text()), signal.SIGKILL)
        _, told = run.communicate(timeout=60)
    said = json.loads(report.read_text())
    assert (run.returncode, said["outcome"], said["stuck"]) == (codes.WRONG, "failed", [4711, 4712])
    assert "could not be ended, and may run on all the same: 4711, 4712" in told
    assert "was ended with it" not in told
