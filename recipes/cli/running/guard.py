"""The guard: a small process between ``recipes run`` and its command, that ends the command in time.

It is the command's parent, and knows until when the lock is proven. It ends the command

* at the deadline, whatever happens to ``recipes run``: it may be stopped, or starved;
* at once when ``recipes run`` is gone: the socket between them then reads as ended. On a file,
  the session lives until the guard is gone, too: it keeps open what the kernel has locked for it.

The kernel ends the command if the guard itself is killed (``PR_SET_PDEATHSIG``). What the command
starts belongs to it, in whatever session or process group: orphans become children of the guard
(``PR_SET_CHILD_SUBREAPER``), and it ends them, too.

It runs as a script, without this package, so that it starts fast and stays small. Both sides write
JSON lines. Its messages are: ``start`` a command, the new ``deadline`` (seconds of the boot clock, null
for none), to pass a ``signal`` on, and to ``resume`` what was stopped. It tells that it is ``ready``, that
it is too ``late`` to start the command, and that this is ``forked``, ``failed`` to start, was ``stopped``,
is being ended (``stopping``, ``killed``), and has ``ended``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["KEPT", "Guard", "become_reaper", "boot_time", "bury", "end_all", "main"]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LONGEST_WAIT_S = 0.25
"""A machine that slept wakes with a clock that jumped, and with waits that did not."""
LINGER_S = 0.2
"""What is still there when the command has ended gets so long to end by itself."""
MOST_FILES = 16
DYING_S = 5.0
"""A killed process that is not gone by then hangs in the kernel."""
KEPT = frozenset(
    number
    for number in signal.valid_signals()
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT)
    and number < getattr(signal, "SIGRTMIN", signal.NSIG)  # macOS has none
    # What reports an error of the guard's own still ends it.
    and number not in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
)
"""Signals that do not end the guard; the command gets them as ``recipes run`` got them."""

if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_time() -> float:
        """Return seconds since boot, as in ``recipes._run.clock``."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":  # pragma: no cover - macOS

    def boot_time() -> float:
        """Return seconds of macOS's raw monotonic clock, as in ``recipes._run.clock``."""
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:  # pragma: no cover - neither

    def boot_time() -> float:
        """Return seconds of the monotonic clock, as in ``recipes._run.clock``."""
        return time.monotonic()


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def become_reaper() -> None:
    """Have the orphans among the descendants of this process become its children."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _seen(root: int) -> tuple[list[int], set[int]]:
    """Return the processes that descend from ``root`` and run, and its children that are dead."""
    children: dict[int, list[tuple[int, bool]]] = {}
    for pid, state, parent in _processes():
        children.setdefault(parent, []).append((pid, state not in "ZX"))
    found: list[int] = []
    generation = [root]
    while generation:
        below = [child for pid in generation for child in children.get(pid, ())]
        found += [pid for pid, runs in below if runs]
        generation = [pid for pid, _ in below]
    return found, {pid for pid, runs in children.get(root, ()) if not runs}


def _family(me: int, spared: int) -> list[int]:
    """Return the processes that descend from this one and run; none only if there are none.

    A process that forks while all are looked at, and exits, leaves a child that was not seen. But then one of
    this process's has died, which takes in the orphans: these deaths are taken note of, but for ``spared``,
    and if there were any, all are looked at again.
    """
    while True:
        found, dead = _seen(me)
        dead.discard(spared)
        found += [pid for pid in dead if not _buried(pid)]
        if found or not dead:
            return found


def _buried(pid: int) -> bool:
    """Take note of the death of a child; False: threads of it run on behind its main thread."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _processes() -> Iterator[tuple[int, str, int]]:
    """Yield id, state and parent of every process that was there at the beginning."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        with suppress(OSError):  # it is gone, or no process
            text = Path("/proc", name, "stat").read_text(errors="replace") if name.isdecimal() else ""
            if text:
                state, parent = text.rpartition(")")[2].split()[:2]
                yield int(name), state, int(parent)


def end_all(group: int, me: int, within_s: float = DYING_S) -> list[int]:
    """Kill the process group and all that descend from this process; returns those that do not die."""
    end = boot_time() + within_s
    signal_all(group, me, signal.SIGKILL)
    while (left := _family(me, group)) and boot_time() < end:
        time.sleep(0.002)
        signal_all(group, me, signal.SIGKILL)
    return left


def bury() -> None:
    """Take note of all dead children of this process: what does not wait for them keeps them as zombies."""
    with suppress(ChildProcessError):  # there are none any more
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def signal_all(group: int, me: int, number: int) -> None:
    """Send a signal to the process group and to those who left it."""
    with suppress(OSError):
        os.killpg(group, number)
    found, dead = _seen(me)
    for pid in (*found, *dead):  # of the dead some threads may run on
        with suppress(OSError):
            if os.getpgid(pid) != group:
                os.kill(pid, number)


class Guard:
    """The guard of one command.

    Args:
        control: The way to ``recipes run``.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._unread = b""
        self._kept: list[int] = []
        self._child = 0
        self._starting: int | None = None  # the pipe that ends as the command begins, or says why it does not
        self._deadline: float | None = None
        self._grace_s = 0.0
        self._kill_at: float | None = None
        self._terminal = False
        self._waker, ringer = socket.socketpair()
        for end in (self._waker, ringer):
            end.setblocking(False)
        self._ringer = ringer
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Carry out messages until the command has ended."""
        self._tell("ready")
        while True:
            heard: list[Any] = [self._control, self._waker]
            heard += [] if self._starting is None else [self._starting]
            ready, _, _ = select.select(heard, [], [], self._patience())
            if self._waker in ready:
                self._waker.recv(4096)
            if self._starting in ready:
                self._begun()
            if self._control in ready and not self._listen():
                if self._child:
                    end_all(self._child, os.getpid())
                return
            if self._child and self._look():
                return

    def _patience(self) -> float | None:
        due = self._due()
        return None if due is None else max(0.0, min(due - boot_time(), LONGEST_WAIT_S))

    def _due(self) -> float | None:
        """Return when there is something to do to the command."""
        if not self._child:
            return None
        if self._kill_at is not None:
            return self._kill_at
        return None if self._deadline is None else self._deadline - self._grace_s

    def _listen(self) -> bool:
        """Carry out messages; returns whether the other side is there."""
        try:
            chunk, files, _, _ = socket.recv_fds(self._control, 1 << 16, MOST_FILES)
        except OSError:
            return False
        for file in files:
            os.set_inheritable(file, False)  # the command shall not have it
        self._kept += files
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            getattr(self, f"_do_{order.pop('do')}")(**order)
        return bool(chunk)

    def _tell(self, what: str, **fields: Any) -> None:
        with suppress(OSError):  # it is gone, and the next look at the socket will say so
            self._control.sendall(json.dumps({"told": what, **fields}).encode() + b"\n")

    def _do_start(
        self,
        *,
        command: list[str],
        environment: dict[str, str],
        deadline: float | None,
        grace_s: float,
        terminal: bool,
        ignored: list[int],
    ) -> None:
        self._deadline, self._grace_s, self._terminal = deadline, grace_s, terminal
        if deadline is not None and boot_time() >= deadline - grace_s:
            self._tell("late")  # it was stopped in between: nothing is started
            return
        words = [word.encode("latin-1") for word in command]
        added = {name.encode("latin-1"): value.encode("latin-1") for name, value in environment.items()}
        become = partial(_become, words, {**os.environb, **added}, terminal=terminal, ignored=ignored)
        try:
            self._fork(become)
        except OSError as error:
            self._tell("failed", errno=error.errno)
            return
        with suppress(OSError):
            os.setpgid(self._child, self._child)
        self._tell("forked", pid=self._child)

    def _fork(self, become: Callable[[int, int, Iterable[int]], NoReturn]) -> None:
        """Have a child become the command. That may take long, where its file is on a network."""
        me = os.getpid()
        self._starting, breaks = os.pipe()
        try:
            # What comes for the command waits until it can take it, as a command does.
            masked = signal.pthread_sigmask(signal.SIG_BLOCK, KEPT)
            try:
                child = os.fork()
                if child == 0:
                    become(breaks, me, masked)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        except OSError:
            os.close(self._starting)
            self._starting = None
            raise
        finally:
            os.close(breaks)
        self._child = child

    def _begun(self) -> None:
        """Take note that the command runs, or why it could not be started."""
        assert self._starting is not None, "it is being started"
        failure = os.read(self._starting, 64)
        os.close(self._starting)
        self._starting = None
        if failure:
            os.waitpid(self._child, 0)
            self._child = 0
            self._tell("failed", errno=int(failure))

    def _do_deadline(self, *, at: float | None) -> None:
        self._deadline = at
        if self._kill_at is not None and at is not None:
            self._kill_at = min(self._kill_at, at)  # it was lost while the command was ending

    def _do_signal(self, *, number: int) -> None:
        with suppress(OSError):
            os.killpg(self._child, number)

    def _do_resume(self, *, terminal: bool) -> None:
        if terminal:
            _take_terminal(self._child)
        self._do_signal(number=signal.SIGCONT)

    def _look(self) -> bool:
        """Look at the command and at the clock; returns whether the command has ended."""
        exited = os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if exited is not None:
            if self._starting is not None:
                self._begun()
            if self._child:
                self._end()
            return bool(self._child)
        self._reap()
        due = self._due()
        if due is None or boot_time() < due:
            return False
        if self._kill_at is None:
            self._begin_to_end()
        else:
            self._tell("killed")
            end_all(self._child, os.getpid())
        return False

    def _begin_to_end(self) -> None:
        """Ask the command to end before its deadline: it is given what is left, and no more."""
        now = boot_time()
        assert self._deadline is not None, "there is something due"
        self._kill_at = min(self._deadline, now + self._grace_s)
        if now < self._kill_at:
            self._tell("stopping", within_s=self._kill_at - now)
            signal_all(self._child, os.getpid(), signal.SIGTERM)
            signal_all(self._child, os.getpid(), signal.SIGCONT)  # one that is stopped has to receive it, too

    def _reap(self) -> None:
        """Take note of a stop, and of the deaths of orphans."""
        with suppress(ChildProcessError):  # it has exited just now, and so does not stop any more
            stopped = os.waitid(os.P_PID, self._child, os.WSTOPPED | os.WNOHANG)
            if stopped is not None:
                self._tell("stopped", number=stopped.si_status)
        while True:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is None or dead.si_pid == self._child:
                return
            os.waitpid(dead.si_pid, 0)

    def _end(self) -> None:
        """End what the command left behind, and tell how it ended.

        The command itself stays a zombie until then, so that its group is nobody else's.
        """
        left = self._left_after(LINGER_S)
        stuck: list[int] = []
        if left:
            signal_all(self._child, os.getpid(), signal.SIGTERM)
            self._left_after(self._grace_s)
            stuck = end_all(self._child, os.getpid())
        _, status = os.waitpid(self._child, 0)
        self._tell("ended", status=status, left=len(left), stuck=stuck)

    def _left_after(self, within_s: float) -> list[int]:
        """Return the processes left after a while: at the deadline, or when nobody is there to notify."""
        end = boot_time() + within_s
        if self._deadline is not None:
            end = min(end, self._deadline)
        while (left := _family(os.getpid(), self._child)) and (rest := end - boot_time()) > 0:
            ready, _, _ = select.select([self._control], [], [], min(rest, 0.01))
            if ready and not self._listen():
                return left
            if self._deadline is not None:
                end = min(end, self._deadline)
        return left


def _become(
    command: list[bytes],
    environment: dict[bytes, bytes],
    breaks: int,
    parent: int,
    masked: Iterable[int],
    *,
    terminal: bool,
    ignored: list[int],
) -> NoReturn:
    """Become the command: a process group of its own, that dies with its parent.

    Args:
        command: Its words.
        environment: All of it.
        breaks: Where to write the error's number if it cannot be started.
        parent: The guard.
        masked: Its signals are masked like this.
        terminal: Whether it has the terminal.
        ignored: The signals that it ignores.
    """
    try:
        os.setpgid(0, 0)
        if terminal:
            _take_terminal(os.getpid())
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (*KEPT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        os.execvpe(command[0], command, environment)  # noqa: S606 - the user's own choice of program
    except (OSError, ValueError) as error:  # an empty name is a ValueError
        os.write(breaks, str(getattr(error, "errno", errno.ENOENT)).encode())
    finally:
        os._exit(1)


def _take_terminal(group: int) -> None:
    """Make ``group`` the one that reads the terminal's keys; SIGTTOU is ignored here."""
    with suppress(OSError):  # there is no terminal any more
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            os.tcsetpgrp(terminal, group)
        finally:
            os.close(terminal)


def main(argv: list[str]) -> int:
    """Guard one command; the argument is the number of the socket to ``recipes run``."""
    for number in KEPT:
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(argv[0]))
    control.set_inheritable(False)
    become_reaper()
    Guard(control).serve()
    bury()  # else those of the command become children of ``recipes run``
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
