"""A client as a process: forked from one that has imported everything, it works until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import recipes
import recipes.stores.etcd
import recipes.stores.zookeeper
from integration.chaos.further import ALL
from integration.chaos.history import Book
from integration.chaos.lanes import Lane, Shape
from integration.chaos.resources import Bank, Registers
from integration.crowd.visits import APIS, Threads
from recipes.stores.zookeeper import kazoo_client  # noqa: F401 - imported before anybody forks

__all__ = ["CELL_LANES", "LANES", "SHAPE", "Spec", "main"]

SETTLED_S = 8.0
PR_SET_PDEATHSIG = 1
SHAPE = Shape()
LANES = (
    *("counting", "banking", "electing", "joining", "valuing", "adding", "guarding"),
    *("permits", "together", "reentering", "dividing", "latching", "meeting"),
    *("locks",) * 5,
)
"""What a client does: every recipe."""
CELL_LANES = ("counting", "staying", "reentering", "together", *("locks",) * 8)
"""What it does where a store keeps the holder of a name alone."""


@dataclass(frozen=True)
class Spec:
    """What a client has to know."""

    who: str
    api: str
    url: str
    session_s: float
    seed: str
    folder: Path
    lanes: tuple[str, ...] = LANES
    shape: Shape = SHAPE
    options: Mapping[str, Any] = field(default_factory=dict)
    request_s: float = 1.0


def main(spec: Spec, told: Connection) -> None:
    """Work, say what there is when told to stop, and close when told to."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # Ctrl-C is for the run, which then ends its clients; and Linux schedules by sessions
    logging.basicConfig(
        filename=spec.folder / f"{spec.who}.log", format="%(created).3f %(message)s", level=logging.WARNING
    )
    with contextlib.suppress(EOFError, BrokenPipeError):  # nobody is there any more
        if spec.api == "blocking":
            _blocking(spec, told)
        else:
            asyncio.run(_tasks(spec, told))
        os._exit(0)
    os._exit(1)


def _lanes(spec: Spec, client: Any) -> list[Lane]:
    book = Book(spec.folder, spec.who)
    registers, bank = Registers(spec.folder / "registers.db"), Bank(spec.folder / "bank.db")
    lanes = []
    for number, name in enumerate(spec.lanes):
        chance = random.Random(f"{spec.seed} {spec.who} {number}")
        lane = ALL[name](client, APIS[spec.api](), book, spec.shape, chance)
        vars(lane).update(registers=registers, bank=bank, folder=spec.folder)
        lanes.append(lane)
    return lanes


def _blocking(spec: Spec, told: Connection) -> None:
    over = threading.Event()
    client = recipes.connect(
        spec.url, session_timeout=spec.session_s, request_timeout=spec.request_s, **spec.options
    )
    threads = [
        threading.Thread(target=lambda one=lane: Threads.run(one.go(over)), daemon=True)
        for lane in _lanes(spec, client)
    ]
    for thread in threads:
        thread.start()
    told.recv()
    over.set()
    for thread in threads:
        thread.join()
    told.send(_state(client))
    told.recv()
    client.close()


async def _tasks(spec: Spec, told: Connection) -> None:
    over = threading.Event()
    client = recipes.connect_async(
        spec.url, session_timeout=spec.session_s, request_timeout=spec.request_s, **spec.options
    )
    tasks = [asyncio.create_task(lane.go(over)) for lane in _lanes(spec, client)]
    await asyncio.to_thread(told.recv)
    over.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    told.send(await asyncio.to_thread(_state, client))  # the loop has to run for the cleaner to work
    await asyncio.to_thread(told.recv)
    await client.close()


def _state(client: Any) -> dict[str, Any]:
    """Return what there is of a client that does nothing, once it has cleaned up, or should have."""
    until = time.monotonic() + SETTLED_S
    while client.pending_cleanups and time.monotonic() < until:
        time.sleep(0.02)
    return {
        "session": client.session.id,
        "pending": client.pending_cleanups,
        "grants": [repr(grant) for grant in client.grants],
    }
