"""The crew: worker processes, started and ended together, and what they tell."""

from __future__ import annotations

import dataclasses
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import recipes
from recipes._run.clock import boot_time
from recipes.cli.demo.worker import Order
from recipes.cli.throwaway import tethered

__all__ = ["Crew", "CrewFailed", "Message"]

Message = dict[str, Any]
TICK_S = 0.05
SILENCE_S = 45.0
"""Longer than any worker waits for the store or for its turn."""
END_WITHIN_S = 6.0
"""A little more than closing a client may take."""
START = """
import sys
home = sys.argv.pop(1)
if home not in sys.path:
    sys.path.insert(0, home)
from recipes.cli.demo.worker import main
sys.exit(main())
"""
"""The worker runs this very package, and not a folder named recipes where the user happens to stand."""


class CrewFailed(Exception):
    """A worker ended too early, or all fell silent; the message says which and why."""


@dataclasses.dataclass(slots=True)
class _Member:
    number: int
    process: subprocess.Popen[str]
    errors: IO[str]
    reader: threading.Thread | None = None


class Crew:
    """Worker processes: fresh interpreters, each with a session of its own.

    Args:
        url: Their store.
        folder: Where the shared files are.
        size: How many.
    """

    def __init__(self, url: str, folder: Path, size: int) -> None:
        self._url = url
        self._folder = folder
        self._size = size
        self._members: list[_Member] = []
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        try:
            for number in range(1, self._size + 1):
                self._members.append(self._start(number))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """The process ids, worker 1 first."""
        return [member.process.pid for member in self._members]

    def order(self, order: Order) -> None:
        """Give every worker the same order."""
        line = json.dumps(dataclasses.asdict(order)) + "\n"
        for member in self._members:
            assert member.process.stdin is not None, "it was asked for"
            with suppress(BrokenPipeError):  # it has ended, and its reader tells
                member.process.stdin.write(line)
                member.process.stdin.flush()

    def dismiss(self) -> None:
        """Tell every worker that there are no more orders: it closes its client, and is ``ended``."""
        for member in self._members:
            assert member.process.stdin is not None, "it was asked for"
            with suppress(BrokenPipeError):
                member.process.stdin.close()

    def messages(self, until: str) -> Iterator[Message | None]:
        """Yield what the workers tell until each has said ``until``; None when it is time to draw.

        Raises:
            CrewFailed: A worker ended or failed before that, or all are silent for too long.
        """
        waiting = {member.number for member in self._members}
        heard_at = boot_time()
        while waiting:
            try:
                message = self._inbox.get(timeout=TICK_S)
            except queue.Empty:
                if boot_time() - heard_at > SILENCE_S:
                    late = ", ".join(f"worker {number}" for number in sorted(waiting))
                    raise CrewFailed(
                        f"{late} is not done, and nothing was heard for {SILENCE_S:g} s"
                    ) from None
                yield None
                continue
            heard_at = boot_time()
            kind, number = message["kind"], message["worker"]
            if kind == "failed" or (kind == "ended" and (until != "ended" or message["code"])):
                raise CrewFailed(f"worker {number} {message['reason']}")
            yield message
            if kind == until:
                waiting.discard(number)

    def stop(self) -> None:
        """End every worker: politely, so that its locks are given back, and then not."""
        for member in self._members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)  # one that was stopped has to hear it, too
                member.process.terminate()
        end = boot_time() + END_WITHIN_S
        for member in self._members:
            try:
                member.process.wait(max(end - boot_time(), 0.1))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            self._let_go(member)
        self._members.clear()

    def _start(self, number: int) -> _Member:
        command = [sys.executable, "-P", "-c", START, str(Path(recipes.__file__).parents[1])]
        errors = tempfile.TemporaryFile("w+", dir=self._folder)  # noqa: SIM115 - closed with the member
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            tethered([*command, self._url, str(self._folder), str(number)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends its workers
        )
        member = _Member(number, process, errors)
        member.reader = threading.Thread(target=self._read, args=[member], daemon=True)
        member.reader.start()
        return member

    def _read(self, member: _Member) -> None:
        assert member.process.stdout is not None, "it was asked for"
        with suppress(ValueError):  # the last line of a killed worker may be cut
            for line in member.process.stdout:
                message = json.loads(line)
                if message["kind"] == "failed":
                    message["reason"] = f"failed: {message['reason']}"
                self._inbox.put(message)
        code = member.process.wait()
        ended = {"worker": member.number, "kind": "ended", "at": boot_time(), "code": code}
        self._inbox.put({**ended, "reason": self._why(member, code)})

    def _why(self, member: _Member, code: int) -> str:
        """Return how a worker ended, in words."""
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        member.errors.seek(0)
        last = member.errors.read().strip().splitlines()[-1:]
        return f"ended with exit code {code}" + "".join(f": {line}" for line in last)

    def _let_go(self, member: _Member) -> None:
        if member.reader is not None:
            member.reader.join()
        for stream in (member.process.stdin, member.process.stdout, member.errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
