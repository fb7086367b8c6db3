"""Contenders of other kinds, in the same words: try, acquire, release, count.

A `Program` is a process that is told what to do on its standard input and answers each
line with one: ``use KIND PATH`` ready, ``try`` and ``acquire`` held TOKEN (or busy),
``release`` released, ``count FILE TIMES`` counted; or error WHY. `Etcdctl` is a process
for each time it holds. Whoever is still waiting or holding at the end is killed.
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

__all__ = ["PATIENCE_S", "Etcdctl", "Peer", "Program"]

PATIENCE_S = 60.0
TRY_S = 0.3
"""How long a client that cannot look without waiting stands behind others before a try has failed."""

COUNT = 'n=$(cat "$0"); sleep 0.001; printf %s $((n + 1)) > "$0"'


class Peer(ABC):
    """One contender of another kind; `use` comes first."""

    @abstractmethod
    def use(self, kind: str, path: str) -> None:
        """Make a lock of a kind; what was tried before is over."""

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

    def _ended(self) -> None:
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Program(Peer):
    """One of the programs of this folder, with one lock at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = Process(command)
        self._busy = False
        assert self._answer() == "hello"

    def use(self, kind: str, path: str) -> None:
        assert self._ask(f"use {kind} {path}") == "ready"

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

    def close(self) -> None:
        self._process.finish(0 if self._busy else PATIENCE_S)

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
        self._command = [str(servers.find_etcdctl()), f"--endpoints={server.address}", "lock"]
        self._path = ""
        self._process: Process | None = None
        self._counting: Future[None] | None = None

    def use(self, kind: str, path: str) -> None:
        self._path = path

    def start_acquire(self) -> None:
        self._process = Process([*self._command, self._path], ETCDCTL_API="3")

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
            command = [*self._command, self._path, "--", "sh", "-c", COUNT, str(path)]
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
