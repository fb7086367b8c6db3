"""The crew: worker processes, started and ended together, and what they tell."""

from __future__ import annotations

import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import recipes
from recipes._run.clock import boot_time
from recipes.cli.demo.member import Member, Message
from recipes.cli.demo.orders import SESSION_S, Order
from recipes.cli.throwaway import tethered

__all__ = ["Crew", "CrewFailed", "Message"]

TICK_S = 0.05
SILENCE_S = 45.0
"""Longer than any worker waits for the store or for its turn."""
END_WITHIN_S = 6.0
"""A little more than closing a client may take."""
START = """
import os, shutil, signal, sys

home = sys.argv.pop(1)
parent = os.getppid()

def end(*_):
    if os.getppid() != parent:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
    os._exit(143)

signal.signal(signal.SIGTERM, end)
if home not in sys.path:
    sys.path.insert(0, home)
from recipes.cli.demo.worker import main
sys.exit(main())
"""
"""The worker runs this very package, and not a folder named recipes where the user happens to stand.

What it does to tidy up behind a parent that was killed has to stand before the long import.
"""


class CrewFailed(Exception):
    """A worker ended too early, or all fell silent; the message says which and why."""


class Crew:
    """Worker processes: fresh interpreters, each with a session of its own; and as many twins without one.

    All is read in the thread that asks for `messages`, so that a signal finds it there.

    Args:
        url: Their store.
        folder: Where the shared files are.
        size: How many workers, and how many twins.
        session_s: The length of a worker's session, in seconds.

    Attributes:
        members: Them; the workers first.
    """

    def __init__(self, url: str, folder: Path, size: int, session_s: float = SESSION_S) -> None:
        self._url = url
        self._folder = folder
        self._size = size
        self._session_s = session_s
        self.members: list[Member] = []
        self._pipes = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        try:
            for number in range(1, self._size + 1):
                self._start(number, self._url)
            for number in range(1, self._size + 1):
                self._start(number, "")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """The process ids, worker 1 first, the twins behind."""
        return [member.process.pid for member in self.members]

    def order(self, order: Order, *, twins: bool = False) -> None:
        """Give every worker the same order, or every twin."""
        for member in self.members:
            if member.twin == twins:
                member.order(order)

    def busy(self, *, twins: bool) -> bool:
        """Whether a worker, or a twin, still owes an answer."""
        return any(member.owes for member in self.members if member.twin == twins)

    def dismiss(self) -> None:
        """Tell all that there are no more orders: each closes its client, and is ``ended``."""
        for member in self.members:
            member.dismiss()

    def messages(self) -> Iterator[Message | None]:
        """Yield what the workers tell until none owes an answer; None when it is time to draw.

        Each owes one for having been started, one for each order, and one for being dismissed.

        Raises:
            CrewFailed: A worker ended or failed before that, or all are silent for too long.
        """
        heard_at = boot_time()
        while late := [member.name for member in self.members if member.owes]:
            heard = self._hear()
            if heard:
                heard_at = boot_time()
            elif boot_time() - heard_at > SILENCE_S:
                raise CrewFailed(f"{', '.join(late)} is not done, and nothing was heard for {SILENCE_S:g} s")
            else:
                yield None
            for member, message in heard:
                if reason := member.account_for(message):
                    raise CrewFailed(f"{member.name} {reason}")
                yield message

    def stop(self) -> None:
        """End every worker: politely, so that its locks are given back, and then not."""
        try:
            for member in self.members:
                member.terminate()
            end = boot_time() + END_WITHIN_S
            while self._pipes.get_map() and boot_time() < end:
                self._hear()  # who cannot write does not end
        finally:  # also when the user has lost patience
            for member in self.members:
                member.let_go()
            self.members.clear()
            self._pipes.close()

    def _hear(self) -> list[tuple[Member, Message]]:
        """Return what has come, waiting for it a little."""
        heard: list[tuple[Member, Message]] = []
        for key, _ in self._pipes.select(TICK_S):
            member: Member = key.data
            messages, ended = member.read()
            heard += [(member, message) for message in messages]
            if ended:
                self._pipes.unregister(key.fd)
                heard.append((member, member.obituary(END_WITHIN_S)))
        return heard

    def _start(self, number: int, url: str) -> None:
        command = [sys.executable, "-P", "-c", START, str(Path(recipes.__file__).parents[1])]
        errors = tempfile.TemporaryFile("w+", dir=self._folder)  # noqa: SIM115 - closed with the member
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            # If this process is killed, they hear of it, give back what they hold, and tidy up.
            tethered([*command, url, str(self._folder), str(number), str(self._session_s)], signal="TERM"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends its workers
        )
        member = Member(number, process, errors, twin=not url)
        self.members.append(member)
        self._pipes.register(member.output, selectors.EVENT_READ, member)
