"""Contenders of other kinds, in the same words: try, acquire, release, count.

A `Program` is a process that is told what to do on its standard input and answers each
line with one: ``use KIND PATH`` ready, ``try`` and ``acquire`` held TOKEN (or busy),
``release`` released, ``count FILE TIMES`` counted; or error WHY. A candidate of an election holds
while it leads: ``use KIND PATH VALUE``, ``proclaim VALUE`` proclaimed, ``leader`` leader VALUE (or nobody),
``observe`` observing, ``saw VALUE`` seen. `Etcdctl` is a process for each time it holds. Whoever is
still waiting or holding at the end is killed.
"""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from integration import servers
from integration.harness.etcd import encoded
from integration.harness.throwaway import tethered

__all__ = ["PATIENCE_S", "Candidate", "Elect", "Etcdctl", "Peer", "Program"]

PATIENCE_S = 60.0
TRY_S = 0.3
"""How long a client that cannot look without waiting stands behind others before a try has failed.

``etcdctl`` waits for all, so it need be no longer.
"""

COUNT = 'n=$(cat "$0"); sleep 0.001; printf %s $((n + 1)) > "$0"'


class Peer(ABC):
    """One contender of another kind; `use` comes first."""

    @abstractmethod
    def use(self, kind: str, path: str, value: str = "") -> None:
        """Make a lock of a kind, or a candidate with a value; what was tried before is over."""

    @abstractmethod
    def start_acquire(self) -> None:
        """Queue for the lock; `held` tells when it has it."""

    @abstractmethod
    def held(self, within_s: float = PATIENCE_S) -> int | None:
        """Wait for the lock; its fencing token, or None if it is not held by then."""

    @abstractmethod
    def try_acquire(self) -> int | None:
        """Take the lock if that needs no waiting; its fencing token, or None."""

    @abstractmethod
    def release(self) -> None:
        """Release it."""

    @abstractmethod
    def start_count(self, path: Path, times: int) -> None:
        """Add one to the number in a file under the lock, times over."""

    @abstractmethod
    def counted(self) -> None:
        """Wait until that is done."""

    @abstractmethod
    def close(self) -> None:
        """End it, whatever it does."""


class Candidate(Peer):
    """One that can also be a candidate of an election."""

    @abstractmethod
    def leader(self) -> str | None:
        """Return the value of whom its kind takes for the leader."""

    @abstractmethod
    def observe(self) -> None:
        """Observe the election from now on."""

    @abstractmethod
    def saw(self, value: str) -> None:
        """Wait until the observation shows this value; what it showed before is skipped."""


class Process:
    """A process of ours, and the lines that it prints; ended by `close`, or with the thread that made it."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._process = subprocess.Popen(
            tethered(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="peer-reader", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put("")  # it has ended

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def next_line(self, within_s: float) -> str | None:
        """Return the next line, "" if it has ended, None if it is silent."""
        try:
            return self._lines.get(timeout=within_s)
        except queue.Empty:
            return None

    def tell(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def finish(self, within_s: float) -> None:
        """End its input, and wait for its end; kill it if that does not come."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._ended()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), and wait for that."""
        self._process.send_signal(signal.SIGTERM)
        self.finish(PATIENCE_S)

    def kill(self) -> None:
        """End it as it stands (SIGKILL)."""
        self._process.kill()
        self._ended()

    def _ended(self) -> None:
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Program(Candidate):
    """One of the programs of this folder, with one lock, or one election, at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = Process(command)
        self._busy = False
        assert self._answer() == "hello"

    def use(self, kind: str, path: str, value: str = "") -> None:
        assert self._ask(f"use {kind} {path} {value}".rstrip()) == "ready"

    def start_acquire(self) -> None:
        self._tell("acquire")

    def held(self, within_s: float = PATIENCE_S) -> int | None:
        said = self._process.next_line(within_s)
        if said is None:
            return None
        self._busy = False
        return _token(said)

    def try_acquire(self) -> int | None:
        said = self._ask("try")
        return None if said == "busy" else _token(said)

    def release(self) -> None:
        assert self._ask("release") == "released"

    def start_count(self, path: Path, times: int) -> None:
        self._tell(f"count {path} {times}")

    def counted(self) -> None:
        assert self._answer() == "counted"

    def proclaim(self, value: str) -> None:
        """Have the leader say something else."""
        assert self._ask(f"proclaim {value}") == "proclaimed"

    def leader(self) -> str | None:
        said, _, value = self._ask("leader").partition(" ")
        assert said in ("leader", "nobody"), f"{said} {value}"
        return value if said == "leader" else None

    def observe(self) -> None:
        assert self._ask("observe") == "observing"

    def saw(self, value: str) -> None:
        assert self._ask(f"saw {value}") == "seen"

    def close(self) -> None:
        self._process.finish(0 if self._busy else PATIENCE_S)

    def kill(self) -> None:
        """End it as a crash does: what it holds is held until its session ends."""
        self._process.kill()

    def _tell(self, line: str) -> None:
        self._busy = True
        self._process.tell(line)

    def _ask(self, line: str) -> str:
        self._tell(line)
        return self._answer()

    def _answer(self) -> str:
        said = self._process.next_line(PATIENCE_S)
        assert said is not None, f"it said nothing within {PATIENCE_S} s"
        self._busy = False
        return said


class Etcdctl(Peer):
    """``etcdctl lock``, which prints its key when it holds, and releases when it is terminated."""

    def __init__(self, server: servers.Etcd) -> None:
        self._server = server
        self._etcdctl = [str(servers.find_etcdctl()), f"--endpoints={server.address}"]
        self._path = ""
        self._process: Process | None = None
        self._counting: Future[None] | None = None

    def use(self, kind: str, path: str, value: str = "") -> None:
        self._path = path

    def start_acquire(self) -> None:
        self._process = Process([*self._etcdctl, *self._holding()], ETCDCTL_API="3")

    def _holding(self) -> list[str]:
        """Return what has it hold."""
        return ["lock", self._path]

    def held(self, within_s: float = PATIENCE_S) -> int | None:
        assert self._process is not None, "start_acquire should come first"
        key = self._process.next_line(within_s)
        return None if key is None else _create_revision(self._server, key)

    def try_acquire(self) -> int | None:
        before = len(self._contenders())
        self.start_acquire()
        stands = servers.eventually(lambda: len(self._contenders()) > before, PATIENCE_S, every_s=0.01)
        assert stands, "etcdctl should have made its key"
        token = self.held(TRY_S if before else PATIENCE_S)
        if token is None:
            self.release()
        return token

    def _contenders(self) -> list[str]:
        return self._server.keys(f"{self._path}/")

    def release(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process = None

    def start_count(self, path: Path, times: int) -> None:
        done: Future[None] = Future()
        self._counting = done

        def run() -> None:
            command = [*self._etcdctl, "lock", self._path, "--", "sh", "-c", COUNT, str(path)]
            try:
                for _ in range(times):
                    _run(command)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="etcdctl-counter").start()

    def counted(self) -> None:
        assert self._counting is not None, "start_count should come first"
        self._counting.result(2 * PATIENCE_S)

    def close(self) -> None:
        self.release()


class Elect(Etcdctl, Candidate):
    """``etcdctl elect``, which prints its key and value when it leads; with ``--listen``, the leader's."""

    def __init__(self, server: servers.Etcd) -> None:
        super().__init__(server)
        self._value = ""
        self._listening: Process | None = None

    def use(self, kind: str, path: str, value: str = "") -> None:
        super().use(kind, path)
        self._value = value

    def _holding(self) -> list[str]:
        return ["elect", self._path, self._value]

    def start_count(self, path: Path, times: int) -> None:
        raise AssertionError("etcdctl elect should not be given a command")

    def leader(self) -> str | None:
        self.observe()
        try:
            return self._shown(PATIENCE_S)
        finally:
            self._listen_no_more()

    def observe(self) -> None:
        self._listening = Process([*self._etcdctl, "elect", "--listen", self._path], ETCDCTL_API="3")

    def saw(self, value: str) -> None:
        while (shown := self._shown(PATIENCE_S)) != value:
            assert shown is not None, f"{value} was never shown"

    def _shown(self, within_s: float) -> str | None:
        assert self._listening is not None, "observe should come first"
        return self._listening.next_line(within_s) and self._listening.next_line(within_s)

    def _listen_no_more(self) -> None:
        if self._listening is not None:
            self._listening.terminate()
            self._listening = None

    def close(self) -> None:
        self._listen_no_more()
        super().close()


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "ETCDCTL_API": "3"}
    subprocess.run(tethered(command), env=environment, check=True, timeout=PATIENCE_S, capture_output=True)


def _token(said: str) -> int:
    word, _, token = said.partition(" ")
    assert word == "held", said or "it ended"
    return int(token)


def _create_revision(server: servers.Etcd, key: str) -> int:
    assert key, "etcdctl ended"
    found = server.ask("/v3/kv/range", {"key": encoded(key)})["kvs"]
    assert base64.b64decode(found[0]["key"]).decode() == key
    return int(found[0]["create_revision"])
