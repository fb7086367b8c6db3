"""Eight processes that meet at a barrier, of which some are out of time, and some are killed.

Every generation passes for all of them or breaks for all of them; what a process that was killed would have
been told nobody knows. ``RECIPES_TEST_SEED`` repeats what they draw.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integration import servers
from integration.faults.looking import contenders, hold_fault
from integration.faults.workers import Worker
from recipes._run.clock import boot_time

PARTIES = 8
HASTY = 0.05
UNKNOWN = "it is not known"
"""What is said to one whose session was lost if it cannot find out any more."""
SESSION_S = 12  # only the killed are to lose theirs
PATIENCE_S, CLOSED_S = 900, 30
GENERATIONS = pytest.mark.parametrize(
    "wanted", [pytest.param((60, 3), id="60"), pytest.param((1000, 10), marks=pytest.mark.long, id="1000")]
)


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


@dataclass
class Generation:
    """What its parties were told."""

    passed: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def told(folder: Path) -> tuple[dict[int, Generation], list[list[int]]]:
    """Return what each generation came to, and of which generations each process was."""
    generations: dict[int, Generation] = defaultdict(Generation)
    orders = []
    for file in folder.iterdir():
        lines = [
            json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]
        orders.append([line["generation"] for line in lines])
        for line in lines:
            one = generations[line["generation"]]
            if "index" in line:
                one.passed.append(line["index"])
            elif UNKNOWN not in line["broken"]:
                one.broken.append(line["broken"])
    return generations, orders


@GENERATIONS
@pytest.mark.timeout(60 + PATIENCE_S)
def test_every_generation_passes_for_all_or_breaks_for_all(
    server: servers.Server,
    prefix: str,
    wanted: tuple[int, int],
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    generations, kills = wanted
    seed = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={seed}")
    with contextlib.ExitStack() as stack:

        def process(number: int) -> Worker:
            settings = {"name": f"p{number}", "folder": str(tmp_path), "seed": seed, "parties": PARTIES}
            settings |= {"generations": generations, "hasty": HASTY, "session_s": SESSION_S}
            api = ("blocking", "asyncio")[number % 2]
            worker = Worker("barrier.process", api, server.url(prefix), json.dumps(settings))
            return stack.enter_context(worker)

        workers = [process(number) for number in range(PARTIES)]
        began = boot_time()
        for worker in workers:
            worker.tell("go")
        for number in range(kills):
            reached = generations * (number + 1) // (kills + 2)
            assert servers.eventually(
                lambda least=reached: max(told(tmp_path)[0], default=0) >= least, PATIENCE_S
            )
            hold_fault(0.05)
            workers[number % PARTIES].kill()
            workers[number % PARTIES] = process(number % PARTIES)
            workers[number % PARTIES].tell("go")
        for worker in workers:
            assert worker.next_line(PATIENCE_S) == "done"
        took_s = boot_time() - began
        found, orders = told(tmp_path)
        both = {number: one for number, one in found.items() if one.passed and one.broken}
        assert not both
        assert all(order == sorted({*order}) for order in orders)
        passed = [one.passed for one in found.values() if one.passed]
        assert all(len(indexes) == len({*indexes}) and {*indexes} <= {*range(PARTIES)} for indexes in passed)
        assert sum(PARTIES - len(indexes) for indexes in passed) <= kills
        reasons = Counter(reason for one in found.values() for reason in {*one.broken})
        figure(f"{len(passed)} of {len(found)} generations passed in {took_s:.1f} s; broken: {dict(reasons)}")
        assert len(passed) > len(found) / 4
        assert max(found) >= generations
        for worker in workers:
            worker.tell("close")
        assert servers.eventually(lambda: not contenders(server, prefix), CLOSED_S)
    servers.clean(server, prefix)
