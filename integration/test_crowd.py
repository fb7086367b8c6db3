"""Two hundred readers and twenty writers, in eight processes, at one lock (S3, S6, L3, L5).

``RECIPES_TEST_CROWD_ROUNDS`` has each of them come more often, ``RECIPES_TEST_SEED`` repeats what they
draw.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration import servers
from integration.crowd.bank import Bank
from integration.faults.looking import L5_S, contenders
from integration.faults.workers import Worker
from recipes._run.clock import boot_time
from tests.histories.checks import Visit, faults

READERS, WRITERS, PROCESSES = 200, 20, 8
ROUNDS = int(os.environ.get("RECIPES_TEST_CROWD_ROUNDS", "12"))
PATIENCE_S = 30 + 5 * ROUNDS
CLOSED_S = 10


@pytest.fixture(params=["etcd34", "zookeeper"])
def server(request: pytest.FixtureRequest) -> servers.Server:
    """Return one store of each kind."""
    one: servers.Server = request.getfixturevalue(request.param)
    return one.start()


@contextlib.contextmanager
def crowd(server: servers.Server, prefix: str, folder: Path, seed: str) -> Iterator[list[Worker]]:
    """Yield the processes, ready."""
    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(PROCESSES):
            settings = {
                "name": f"p{number}",
                "folder": str(folder),
                "seed": seed,
                "rounds": ROUNDS,
                "readers": len(range(number, READERS, PROCESSES)),
                "writers": len(range(number, WRITERS, PROCESSES)),
            }
            face = ("blocking", "asyncio")[number % 2]
            worker = Worker("crowd.process", face, server.url(prefix), json.dumps(settings))
            workers.append(stack.enter_context(worker))
        yield workers


def watches(server: servers.Server) -> int:
    """Return how many watches are set on the server."""
    if isinstance(server, servers.ZooKeeper):
        return server.watches()
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=5) as answer:
        found = re.search(r"^etcd_debugging_mvcc_watcher_total (\S+)", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


@pytest.mark.timeout(60 + PATIENCE_S)
def test_two_hundred_readers_and_twenty_writers(
    server: servers.Server, prefix: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    seed = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={seed}")
    Bank.found(tmp_path / "accounts")
    sessions, watched = servers.sessions(server), watches(server)
    with crowd(server, prefix, tmp_path, seed) as workers:
        began = boot_time()
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
        assert servers.eventually(lambda: watches(server) == watched, L5_S), watches(server)
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
