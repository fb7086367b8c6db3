"""Two hundred readers and twenty writers, in eight processes, at one lock (S3, S6, L3, L5).

Once undisturbed, and once, shorter, while connections are reset all the while.

``RECIPES_TEST_CROWD_ROUNDS`` has each of them come more often, ``RECIPES_TEST_SEED`` repeats what they
draw.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration import servers
from integration.crowd.bank import Bank
from integration.faults.looking import L5_S, contenders
from integration.faults.workers import Worker
from integration.proxy import Proxy
from recipes._run.clock import boot_time
from tests.histories.checks import Visit, faults

READERS, WRITERS, PROCESSES = 200, 20, 8
ROUNDS = int(os.environ.get("RECIPES_TEST_CROWD_ROUNDS", "12"))
PATIENCE_S = 240 + 5 * ROUNDS
CLOSED_S = 30
RESET_EVERY_S = 0.3, 1.2


@pytest.fixture(params=["etcd34", "zookeeper"])
def server(request: pytest.FixtureRequest) -> servers.Server:
    """Return one store of each kind."""
    one: servers.Server = request.getfixturevalue(request.param)
    return one.start()


@contextlib.contextmanager
def crowd(url: str, folder: Path, seed: str, rounds: int) -> Iterator[list[Worker]]:
    """Yield the processes, ready."""
    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(PROCESSES):
            settings = {
                "name": f"p{number}",
                "folder": str(folder),
                "seed": seed,
                "rounds": rounds,
                "readers": len(range(number, READERS, PROCESSES)),
                "writers": len(range(number, WRITERS, PROCESSES)),
            }
            api = ("blocking", "asyncio")[number % 2]
            worker = Worker("crowd.process", api, url, json.dumps(settings))
            workers.append(stack.enter_context(worker))
        yield workers


def watches(server: servers.Server) -> int:
    """Return how many watches are set on the server."""
    if isinstance(server, servers.ZooKeeper):
        return server.watches()
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=30) as answer:
        found = re.search(r"^etcd_debugging_mvcc_watcher_total (\S+)", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


@contextlib.contextmanager
def resetting(proxy: Proxy) -> Iterator[None]:
    """Reset every connection, again and again."""
    over = threading.Event()

    def reset() -> None:
        while not over.wait(random.uniform(*RESET_EVERY_S)):
            proxy.reset()

    thread = threading.Thread(target=reset)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class Way:
    """How the crowd reaches the store, how often each of it comes, and what happens meanwhile."""

    url: str
    rounds: int
    meanwhile: contextlib.AbstractContextManager[None]


@pytest.fixture(params=["undisturbed", pytest.param("reset", marks=pytest.mark.long)])
def way(request: pytest.FixtureRequest, server: servers.Server, proxy: Proxy, prefix: str) -> Way:
    """Return the straight way, and one that breaks again and again."""
    if request.param == "undisturbed":
        return Way(server.url(prefix), ROUNDS, contextlib.nullcontext())
    return Way(proxy.url(prefix), math.ceil(ROUNDS / 4), resetting(proxy))


@pytest.mark.timeout(60 + PATIENCE_S)
def test_two_hundred_readers_and_twenty_writers(
    server: servers.Server, way: Way, prefix: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    seed = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={seed}")
    Bank.found(tmp_path / "accounts")
    sessions, watched = servers.sessions(server), watches(server)
    with crowd(way.url, tmp_path, seed, way.rounds) as workers:
        began = boot_time()
        with way.meanwhile:
            for worker in workers:
                worker.tell("go")
            told: list[dict[str, Any]] = [json.loads(worker.next_line(PATIENCE_S)) for worker in workers]
        took_s = boot_time() - began
        visits = [Visit(*visit) for one in told for visit in one["visits"]]
        counts = sum((Counter(one["counts"]) for one in told), Counter[str]())
        report(figure, visits, counts, took_s)

        assert [wrong for one in told for wrong in one["wrong"]] == []
        assert faults(visits) == []
        assert len(visits) == sum(n for what, n in counts.items() if what.endswith(": granted"))
        assert counts["downgraded"] > 0
        assert all(one["settled"] and not one["grants"] for one in told)
        assert servers.eventually(lambda: not contenders(server, prefix), L5_S)  # every session lives
        assert servers.eventually(lambda: watches(server) <= watched, L5_S), watches(server)
        for worker in workers:
            worker.tell("close")
        assert [json.loads(worker.next_line(CLOSED_S)) for worker in workers] == [[]] * PROCESSES
    assert servers.eventually(lambda: not servers.sessions(server) - sessions, CLOSED_S)
    assert not servers.leftovers(server, prefix)
    servers.clean(server, prefix)


def report(figure: Callable[[str], None], visits: list[Visit], counts: Counter[str], took_s: float) -> None:
    """Tell how much was done."""
    waits = sorted(visit.granted - visit.asked for visit in visits) or [0.0]
    writers = sum(visit.writes for visit in visits)
    figure(
        f"{len(visits) - writers} grants of readers, {writers} of writers in {took_s:.1f} s; waited"
        f" {1000 * waits[len(waits) // 2]:.0f} ms in the middle, {waits[-1]:.1f} s at most;"
        f" {dict(sorted(counts.items()))}"
    )
