"""The guard of a command, at one moment: in a process of its own, since it takes signals."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

EXITS_AMID_A_LOOK = """
import os, socket
from recipes.cli.running.guard import Guard

run, control = socket.socketpair()
guard = Guard(control)
stay, go = os.pipe()
child = os.fork()
if child == 0:
    os.read(stay, 1)
    os._exit(3)
guard._child = child
asked = os.waitid

def waitid(kind, number, options):
    found = asked(kind, number, options)
    if kind == os.P_PID and options & os.WEXITED:
        assert found is None
        os.write(go, b".")
        asked(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # until it has exited
    return found

os.waitid = waitid
assert not guard._look()
os.waitid = asked
assert guard._look()
print(run.recv(1000).decode())
"""

FORKS_AMID_A_LOOK = """
import os, signal, socket
from recipes.cli.running import guard

guard.become_reaper()
run, control = socket.socketpair()
one = guard.Guard(control)
wait, go = os.pipe()
told, tell = os.pipe()
command = os.fork()
if command == 0:
    between = os.fork()
    if between:
        os.write(tell, str(between).encode())
        os._exit(3)
    os.read(wait, 1)
    daemon = os.fork()
    if daemon:
        os.write(tell, str(daemon).encode())
        os._exit(0)
    signal.pause()
between, daemon = int(os.read(told, 10)), 0
os.waitid(os.P_PID, command, os.WEXITED | os.WNOWAIT)
one._child = command
listed = os.listdir

def listdir(path):
    global daemon
    names = listed(path)
    if not daemon:
        os.write(go, b".")
        daemon = int(os.read(told, 10))
        os.waitid(os.P_PID, between, os.WEXITED | os.WNOWAIT)
        assert str(between) in names and str(daemon) not in names
    return names

os.listdir = listdir
assert one._look()
try:
    os.kill(daemon, 0)
except ProcessLookupError:
    print(run.recv(1000).decode())
"""


def test_what_is_forked_amid_a_look_by_one_that_exits_is_ended_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS_AMID_A_LOOK], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["told"], told["left"], told["stuck"]) == ("ended", 1, [])


LEFT_A_THREAD = """
import ctypes, os, platform, socket, threading, time
from pathlib import Path
from recipes.cli.running import guard

guard.become_reaper()
run, control = socket.socketpair()
one = guard.Guard(control)
told, tell = os.pipe()
command = os.fork()
if command == 0:
    if os.fork():
        os._exit(3)
    threading.Thread(target=time.sleep, args=[600]).start()
    os.write(tell, str(os.getpid()).encode())
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # this thread alone
left = int(os.read(told, 10))
os.waitid(os.P_PID, command, os.WEXITED | os.WNOWAIT)
while ") Z" not in Path(f"/proc/{left}/stat").read_text():
    time.sleep(0.001)
one._child = command
assert one._look()
try:
    os.kill(left, 0)
except ProcessLookupError:
    print(run.recv(1000).decode())
"""


def test_threads_that_run_on_behind_their_main_thread_are_ended_too() -> None:
    """Their process looks dead, and is not: it cannot be buried."""
    done = subprocess.run(
        [sys.executable, "-c", LEFT_A_THREAD], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["told"], told["left"], told["stuck"]) == ("ended", 1, [])


def order(do: str, **fields: object) -> bytes:
    return json.dumps({"do": do, **fields}).encode() + b"\n"


def start(deadline: float | None, *command: str) -> bytes:
    words = {"command": list(command), "environment": {}, "ignored": [], "terminal": False}
    return order("start", deadline=deadline, grace_s=0.0, **words)


@contextlib.contextmanager
def guarding(program: str) -> Iterator[tuple[socket.socket, Iterator[dict[str, Any]]]]:
    """Have a guard run; yields what to send orders by, and what it tells."""
    ours, theirs = socket.socketpair()
    ours.settimeout(180)
    with theirs, ours, ours.makefile("rb") as lines:
        words = [sys.executable, "-c", program, str(theirs.fileno())]
        with subprocess.Popen(words, pass_fds=[theirs.fileno()]) as guard:
            theirs.close()
            told = map(json.loads, lines)
            assert next(told) == {"told": "ready"}
            yield ours, told
            ours.shutdown(socket.SHUT_RDWR)
            assert guard.wait(180) == 0


HANGS = """
import os, signal, sys
from recipes.cli.running import guard

os.execvpe = lambda *_: signal.pause()
guard.main(sys.argv[1:])
"""
"""A file that is on a network which does not answer: the command does not begin."""


@pytest.mark.parametrize("how", ["deadline", "signal", "gone"])
def test_a_command_that_does_not_begin_is_ended_all_the_same(how: str) -> None:
    with guarding(HANGS) as (orders, told):
        orders.sendall(start(None, "true"))
        forked = next(told)
        assert forked["told"] == "forked"
        if how == "gone":
            orders.shutdown(socket.SHUT_WR)
            assert next(told, None) is None
        else:
            orders.sendall(
                order("deadline", at=0.0) if how == "deadline" else order("signal", number=signal.SIGTERM)
            )
            ended = next(one for one in told if one["told"] != "killed")
            assert ended["told"] == "ended"
            assert os.waitstatus_to_exitcode(ended["status"]) in (-signal.SIGKILL, -signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        os.kill(forked["pid"], 0)


REFUSED = """
import errno, os, sys
from recipes.cli.running import guard

def fork():
    raise OSError(errno.EAGAIN, "no more processes")

os.fork = fork
guard.main(sys.argv[1:])
"""


def test_a_machine_that_has_no_process_more_starts_no_command() -> None:
    with guarding(REFUSED) as (orders, told):
        orders.sendall(start(None, "true"))
        assert next(told) == {"told": "failed", "errno": errno.EAGAIN}


def test_a_command_that_is_not_there_is_told_as_such() -> None:
    with guarding("import sys; from recipes.cli.running import guard; guard.main(sys.argv[1:])") as (
        orders,
        told,
    ):
        orders.sendall(start(None, "/nowhere/at/all"))
        assert [next(told)["told"], next(told)] == ["forked", {"told": "failed", "errno": errno.ENOENT}]


def test_a_command_that_exits_between_two_looks_is_seen_by_the_next() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXITS_AMID_A_LOOK], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["told"], os.waitstatus_to_exitcode(told["status"])) == ("ended", 3)
