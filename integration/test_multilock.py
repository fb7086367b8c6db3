"""Eight processes that acquire two to four of the same four locks at once, in random orders.

None waits for ever, none ever has some of what it asked for, and nothing is left: not by those that give
up, and not by those that are killed in the middle. ``RECIPES_TEST_SEED`` repeats what they draw.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration import servers
from integration.faults.looking import L5_S, contenders, hold_fault
from integration.faults.workers import Worker
from integration.multilock import NAMES
from recipes._run.clock import boot_time

PROCESSES = 8
ROUNDS = pytest.mark.parametrize(
    "rounds", [pytest.param(125, id="125 each"), pytest.param(1000, marks=pytest.mark.long, id="1000 each")]
)
PATIENCE_S, CLOSED_S = 900, 30
SESSION_S, SHORT_SESSION_S = 30, 2


@pytest.fixture(scope="module")
def files() -> Iterator[servers.Files]:
    """Yield a place for files of SQLite."""
    with servers.Files() as made:
        yield made


@pytest.fixture(params=[pytest.param("etcd34", marks=pytest.mark.long), "etcd35", "zookeeper", "files"])
def server(request: pytest.FixtureRequest) -> servers.Server:
    """Return each of the stores of several processes, running."""
    one: servers.Server = request.getfixturevalue(request.param)
    return one.start()


@contextlib.contextmanager
def processes(url: str, folder: Path, rounds: int, session_s: float) -> Iterator[list[Worker]]:
    """Yield the processes, ready."""
    seed = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={seed}")
    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(PROCESSES):
            settings = {"name": f"p{number}", "folder": str(folder), "seed": seed}
            settings |= {"rounds": rounds, "session_s": session_s}
            api = ("blocking", "asyncio")[number % 2]
            worker = Worker("multilock.process", api, url, json.dumps(settings))
            workers.append(stack.enter_context(worker))
        yield workers


@ROUNDS
@pytest.mark.timeout(60 + PATIENCE_S)
def test_random_orders_never_lock_each_other_out(
    server: servers.Server, prefix: str, rounds: int, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with processes(server.url(prefix), tmp_path, rounds, SESSION_S) as workers:
        began = boot_time()
        for worker in workers:
            worker.tell("go")
        told: list[dict[str, Any]] = [json.loads(worker.next_line(PATIENCE_S)) for worker in workers]
        took_s = boot_time() - began
        counts = sum((Counter(one["counts"]) for one in told), Counter[str]())
        figure(f"{rounds * PROCESSES} rounds in {took_s:.1f} s; {dict(sorted(counts.items()))}")
        assert [wrong for one in told for wrong in one["wrong"]] == []
        assert sum(counts.values()) == rounds * PROCESSES
        assert counts["wait: granted"] > 0
        assert "wait: given up" not in counts
        assert servers.eventually(lambda: not contenders(server, prefix), L5_S)  # every session lives
        for worker in workers:
            worker.tell("close")
    servers.clean(server, prefix)


@ROUNDS
@pytest.mark.timeout(60 + PATIENCE_S)
def test_those_killed_in_the_middle_leave_nothing(
    server: servers.Server, prefix: str, rounds: int, tmp_path: Path
) -> None:
    with processes(server.url(prefix), tmp_path, 1_000_000, SHORT_SESSION_S) as workers:
        for worker in workers:
            worker.tell("go")
        for worker in workers:
            hold_fault(random.uniform(0.1, 0.01 * rounds))
            worker.kill()
    with recipes.connect(server.url(prefix)) as client:
        every = client.multilock(*map(client.lock, NAMES))
        assert every.acquire(timeout=CLOSED_S).release()
        assert servers.eventually(lambda: not contenders(server, prefix), CLOSED_S)
    servers.clean(server, prefix)
