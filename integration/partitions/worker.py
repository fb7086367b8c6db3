"""One process that works on its share: it writes the register of every item that it holds, over and over.

Run as ``python -m integration.partitions.worker API URL SESSION_S REGISTERS ITEMS``. Commands are lines of
JSON on its standard input: ``["join", ID]``, ``["leave"]``. It prints, with the time, what it has at each
change, and what went wrong. After a loss it joins again under the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import sys
import threading
from pathlib import Path
from typing import Any

import recipes
from integration.partitions.register import Registers
from recipes import LockLost
from recipes._run.clock import boot_time

GROUP = "workers"
STEP_S = 0.05


class Work:
    """What is done with an assignment, in either API."""

    def __init__(self, registers: Registers, items: int) -> None:
        self.items = [f"item-{number}" for number in range(items)]
        self._registers = registers
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._assignment: Any = {}
        self._leaves = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            command, *args = json.loads(line)
            if command == "leave":
                self._leaves.set()
            else:
                self._commands.put(args[0])
        self._leaves.set()
        self._commands.put(None)

    def next_id(self) -> str | None:
        """Wait until it is to join, and return its id; None: never again."""
        member_id: str | None = self._commands.get()
        self._leaves.clear()
        return member_id

    def goes_on(self) -> bool:
        """Whether it is to stay a member."""
        return not self._leaves.is_set()

    def take(self, assignment: Any) -> None:
        """Work on these items from now on; None: on the same."""
        if assignment is not None:
            self._assignment = assignment
            self.say("has", [int(item.partition("-")[2]) for item in assignment])
        for item, grant in self._assignment.items():
            if not grant.held or self._registers.write(int(item.partition("-")[2]), grant.token):
                continue
            if grant.held:
                self.say("violation", f"{item}: a later holder than {grant.token} was there")

    def stop(self, what: str) -> None:
        """Work on nothing."""
        self._assignment = {}
        self.say(what, [])

    def say(self, what: str, said: Any) -> None:
        """Print what happened."""
        print(json.dumps({"at": boot_time(), what: said}), flush=True)


def blocking(url: str, session_s: float, work: Work) -> None:
    """Work with threads."""
    with recipes.connect(url, session_timeout=session_s) as client:
        print("ready", flush=True)
        while (member_id := work.next_id()) is not None:
            while work.goes_on():
                with contextlib.suppress(LockLost), client.group(GROUP).join(id=member_id) as membership:
                    work.say("joined", member_id)
                    parts = membership.partitions(work.items)
                    while work.goes_on():
                        work.take(parts.next(STEP_S))
                work.stop("left" if not work.goes_on() else "lost")


async def tasks(url: str, session_s: float, work: Work) -> None:
    """Work in a loop."""
    async with recipes.connect_async(url, session_timeout=session_s) as client:
        print("ready", flush=True)
        while (member_id := await asyncio.to_thread(work.next_id)) is not None:
            while work.goes_on():
                with contextlib.suppress(LockLost):
                    async with client.group(GROUP).join(id=member_id) as membership:
                        work.say("joined", member_id)
                        parts = membership.partitions(work.items)
                        while work.goes_on():
                            work.take(await parts.next(STEP_S))
                work.stop("left" if not work.goes_on() else "lost")


def main(arguments: list[str]) -> None:
    """Work as the arguments say."""
    api, url, session_s, path, items = arguments
    work = Work(Registers(Path(path), int(items)), int(items))
    if api == "blocking":
        blocking(url, float(session_s), work)
    else:
        asyncio.run(tasks(url, float(session_s), work))


if __name__ == "__main__":
    main(sys.argv[1:])
