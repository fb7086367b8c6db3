"""One process: ``python -m integration.barrier.process API URL SETTINGS`` (JSON).

It says "ready", begins when told, and appends to a file of its own what each of its calls came to, a line
each, so that a kill loses none but the last. It ends when the generations are as many as wanted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import recipes
from integration.barrier import NAME
from integration.crowd.visits import APIS, Tasks, Threads
from integration.opening import opened, opened_in_tasks
from recipes._programs.barrier import Party

SHORT_S, LONG_S = (0.0005, 0.02), 20.0  # the latter outlasts the session of one that was killed


class Meetings:
    """What one process does."""

    def __init__(self, client: Any, api: Tasks | Threads, settings: dict[str, Any]) -> None:
        self.api = api
        self.barrier = client.barrier(NAME, settings["parties"])
        self.wanted = settings["generations"]
        self.hasty = settings["hasty"]
        self.chance = random.Random(f"{settings['seed']} {settings['name']} {os.getpid()}")
        self.file = Path(settings["folder"], f"{settings['name']}.{os.getpid()}")
        self.generation = 0

    async def go(self) -> None:
        """Come so often."""
        tell = Party.tell

        def noting(party: Party, *args: Any, **fields: Any) -> Any:
            self.generation = party.generation
            return tell(party, *args, **fields)

        Party.tell = noting  # type: ignore[method-assign] - of which generation a call was it says nowhere
        with self.file.open("a", buffering=1) as file:
            while self.generation < self.wanted:
                file.write(json.dumps(await self._meet()) + "\n")

    async def _meet(self) -> dict[str, Any]:
        hasty = self.chance.random() < self.hasty
        timeout = self.chance.uniform(*SHORT_S) if hasty else LONG_S
        try:
            index = await self.api.call(self.barrier.wait, timeout=timeout)
        except recipes.BarrierBroken as broken:
            return {"generation": broken.generation, "broken": broken.reason}
        return {"generation": self.generation, "index": index}


def blocking(url: str, settings: dict[str, Any]) -> None:
    """Be a thread."""
    with opened(url, session_timeout=settings["session_s"]) as client:
        meetings = Meetings(client, Threads(), settings)
        print("ready", flush=True)
        sys.stdin.readline()
        Threads.run(meetings.go())
        print("done", flush=True)
        sys.stdin.readline()


async def tasks(url: str, settings: dict[str, Any]) -> None:
    """Be a task."""
    async with await opened_in_tasks(url, session_timeout=settings["session_s"]) as client:
        meetings = Meetings(client, Tasks(), settings)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await meetings.go()
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    _, chosen, address, described = sys.argv
    assert chosen in APIS
    if chosen == "blocking":
        blocking(address, json.loads(described))
    else:
        asyncio.run(tasks(address, json.loads(described)))
