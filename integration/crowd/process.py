"""One process of the crowd: ``python -m integration.crowd.process FACE URL SETTINGS`` (JSON).

It says "ready", begins when told, prints what it found, and closes its client when told.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from dataclasses import astuple
from pathlib import Path
from typing import Any

from integration import servers
from integration.crowd.bank import Bank, Witness
from integration.crowd.visits import APIS, Found, Member, Tasks, Threads
from integration.opening import opened, opened_in_tasks

SESSION_S = 30
SETTLED_S = 5


def members(client: Any, api: Tasks | Threads, settings: dict[str, Any], found: Found) -> list[Member]:
    """Return the members of this process; the same seed has them draw the same."""
    folder, name = Path(settings["folder"]), settings["name"]
    bank, witness = Bank(folder / "accounts"), Witness(folder)
    witness.seen = found.wrong
    crew = []
    for number in range(settings["readers"] + settings["writers"]):
        writes = number < settings["writers"]
        who = f"{name}-{'W' if writes else 'R'}{number}"
        chance = random.Random(f"{settings['seed']} {who}")
        crew.append(Member(who, client.rwlock("crowd"), writes, api, bank, witness, found, chance))
    return crew


def tell(client: Any, found: Found) -> None:
    """Print what was found, while the client is still open."""
    settled = servers.eventually(lambda: client.pending_cleanups == 0, SETTLED_S)
    visits = [astuple(visit) for visit in found.visits]
    told = {"visits": visits, "counts": found.counts, "wrong": found.wrong}
    print(json.dumps({**told, "settled": settled, "grants": len(client.grants)}), flush=True)


def left() -> list[str]:
    """Return what the package has left running."""
    servers.eventually(lambda: not _ours(), SETTLED_S)
    return _ours()


def _ours() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("recipes-")]


def blocking(url: str, settings: dict[str, Any]) -> None:
    """Be threads."""
    api, found = Threads(), Found()
    with opened(url, session_timeout=SESSION_S) as client:
        crew = members(client, api, settings, found)
        print("ready", flush=True)
        sys.stdin.readline()
        threads = [threading.Thread(target=_run, args=(one, settings, found)) for one in crew]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tell(client, found)
        sys.stdin.readline()


def _run(member: Member, settings: dict[str, Any], found: Found) -> None:
    try:
        Threads.run(member.go(settings["rounds"]))
    except BaseException as error:
        found.wrong.append(f"{member.who}: {error!r}")


async def tasks(url: str, settings: dict[str, Any]) -> None:
    """Be tasks."""
    api, found = Tasks(), Found()
    async with await opened_in_tasks(url, session_timeout=SESSION_S) as client:
        crew = members(client, api, settings, found)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        ended = await asyncio.gather(*(one.go(settings["rounds"]) for one in crew), return_exceptions=True)
        found.wrong += [
            f"{one.who}: {error!r}" for one, error in zip(crew, ended, strict=True) if error is not None
        ]
        await asyncio.to_thread(tell, client, found)  # the loop has to run for the cleaner to work
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    _, chosen, address, described = sys.argv
    assert chosen in APIS
    if chosen == "blocking":
        blocking(address, json.loads(described))
    else:
        asyncio.run(tasks(address, json.loads(described)))
    print(json.dumps(left()), flush=True)
