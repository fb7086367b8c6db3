"""A candidate as a process of its own, which works whenever it leads; tells what happens to it, line by line.

Run as ``python -m integration.faults.candidate FACE URL SESSION_S NAME VALUE``. Each line is JSON: what, and
when by the boot clock, which all processes of a machine share. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

import recipes
from integration.opening import opened_in_tasks
from recipes import events
from recipes._run.clock import boot_time

LONG_S = 3600.0


class Candidate:
    """What it tells."""

    def __init__(self) -> None:
        self._leadership: Any = None
        self._telling = threading.RLock()  # a signal handler may tell amid a telling
        signal.signal(signal.SIGCONT, self._on_continue)
        events.subscribe(lambda one: one.noun == "election" and self.tell(one.event))

    def tell(self, what: str, **more: Any) -> None:
        """Print a line."""
        line = json.dumps({"what": what, "at": boot_time(), **more}) + "\n"
        with self._telling:
            os.write(sys.stdout.fileno(), line.encode())

    def _on_continue(self, *_: object) -> None:
        if self._leadership is not None:
            held = self._leadership.held  # the first call of all
            self.tell("continued", held=held, lost=self._leadership.lost.is_set())

    def begins(self, leadership: Any) -> None:
        """Tell that the work begins."""
        self._leadership = leadership
        self.tell("begins", token=leadership.token)

    def ends(self, leadership: Any) -> None:
        """Tell that the work has ended."""
        self.tell("ends", token=leadership.token, held=leadership.held)

    def work(self, leadership: Any) -> None:
        """Work until that is over."""
        self.begins(leadership)
        try:
            while leadership.held:
                leadership.lost.wait(LONG_S)
        finally:
            self.ends(leadership)

    async def work_in_tasks(self, leadership: Any) -> None:
        """Work until it is cancelled."""
        self.begins(leadership)
        try:
            await asyncio.sleep(LONG_S)
        finally:
            self.ends(leadership)


def blocking(url: str, session_s: float, name: str, value: str) -> None:
    """Run with a blocking client, in the main thread."""
    candidate, client = Candidate(), recipes.connect(url, session_timeout=session_s)

    def close() -> None:
        sys.stdin.read()
        client.close()

    print("ready", flush=True)
    threading.Thread(target=close, daemon=True).start()
    try:
        client.election(name).run(candidate.work, value)
    except recipes.ClientClosed:
        candidate.tell("closed")


async def tasks(url: str, session_s: float, name: str, value: str) -> None:
    """Run with an asyncio client."""
    candidate = Candidate()
    async with await opened_in_tasks(url, session_timeout=session_s) as client:
        running = asyncio.create_task(client.election(name).run(candidate.work_in_tasks, value))
        print("ready", flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        await reader.read()
        running.cancel()
        await asyncio.wait([running])
        candidate.tell("closed")


if __name__ == "__main__":
    _, api, address, length, *named = sys.argv
    if api == "blocking":
        blocking(address, float(length), *named)
    else:
        asyncio.run(tasks(address, float(length), *named))
