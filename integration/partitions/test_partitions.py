"""1 024 items among 16 processes that come and go in every way: one holder each, soon, and few moves."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Self

import pytest

import recipes
from integration import servers
from integration.faults.workers import Worker
from integration.lateness import PutOff
from integration.partitions.worker import GROUP
from recipes._rules.members import member
from recipes._rules.sharing import Sharing
from recipes._run.clock import boot_time
from tests.pace import Pace

MEMBERS = int(os.environ.get("RECIPES_TEST_MEMBERS", "16"))
ITEMS = int(os.environ.get("RECIPES_TEST_ITEMS", "1024"))
CHANGES = int(os.environ.get("RECIPES_TEST_CHANGES", "100"))
SESSION_S = 10.0
"""Long enough that only members that are killed or stopped lose theirs: each loss moves items."""
SETTLED_WITHIN_S = 5.0
PATIENCE_S = 60.0
MOST_MOVES = 1.2


@dataclass
class Process:
    """One worker, and what it said last."""

    worker: Worker
    member_id: str = ""
    has: set[int] = field(default_factory=set)
    said_at: float = 0.0
    moves: int = 0
    stopped: bool = False

    def hear(self) -> None:
        """Take what it printed since."""
        while not self.worker._lines.empty():
            said = json.loads(self.worker.next_line())
            assert "violation" not in said, said
            if "has" in said or "left" in said or "lost" in said:
                self.said_at = said["at"]
                before, self.has = self.has, {*said.get("has", ())}
                self.moves += len(self.has - before)


class Fleet:
    """All processes, and an operator who looks at the group."""

    def __init__(self, url: str, registers: Path) -> None:
        self._args = url, SESSION_S, registers, ITEMS
        self._made = 0
        self._open = contextlib.ExitStack()
        self._operator = self._open.enter_context(recipes.connect(url))
        self._sharing = Sharing(f"item-{number}" for number in range(ITEMS))
        self.present: list[Process] = []
        self.idle: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def join(self) -> float:
        """Have one more join, under an id of its own; returns when."""
        self._made += 1
        if not self.idle:
            api = "asyncio" if self._made % 2 else "blocking"
            worker = self._open.enter_context(Worker("partitions.worker", api, *self._args))
            self.idle.append(Process(worker))
        process = self.idle.pop()
        process.member_id = f"m{self._made}"
        process.worker.tell("join", process.member_id)
        self.present.append(process)
        return boot_time()

    def leave(self, process: Process) -> float:
        """Have one leave; returns when it had."""
        process.worker.tell("leave")
        self.present.remove(process)
        self.idle.append(process)
        return self.gone(process)

    def kill(self, process: Process) -> float:
        """Kill one; returns when the store ended its session."""
        process.worker.kill()
        self.present.remove(process)
        return self.gone(process)

    def stop(self, process: Process) -> float:
        """Stop one until the store has ended its session; returns when."""
        process.worker.stop()
        process.stopped = True
        return self.gone(process)

    def go_on(self, process: Process) -> float:
        """Continue one that was stopped, which is to join again; returns when."""
        process.has = set()
        process.stopped = False
        process.worker.go_on()
        return boot_time()

    def gone(self, process: Process) -> float:
        """Wait until one is no member any more; returns when."""
        made = self._operator.group(GROUP)
        gone = servers.eventually(
            lambda: process.member_id not in {one.id for one in made.members()}, PATIENCE_S, every_s=0.02
        )
        assert gone, f"{process.member_id} should not be a member any more"
        return boot_time()

    def settled(self) -> bool:
        """Whether every process has what is to be its own, and nothing else."""
        for process in (*self.present, *self.idle):
            process.hear()
        counted = {member(one.member_id).kind: one.has for one in self.present if not one.stopped}
        owners = enumerate(self._sharing.owners(counted))
        return {(item, kind) for kind, has in counted.items() for item in has} == {*owners}

    def settle(self) -> float:
        """Wait for that; returns when the last process said so."""
        settled = servers.eventually(self.settled, PATIENCE_S, every_s=0.02)
        assert settled, {process.member_id: len(process.has) for process in self.present}
        return max(process.said_at for process in self.present)

    def put_off(self) -> list[PutOff]:
        """Return what measures, from now on, how late each process is."""
        return [PutOff(process.worker.pid) for process in (*self.present, *self.idle)]

    def take_moves(self) -> int:
        """Return how often an item has come to a process since this was asked last."""
        everyone = [*self.present, *self.idle]
        moves = sum(process.moves for process in everyone)
        for process in everyone:
            process.moves = 0
        return moves


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_item_has_one_holder_whoever_comes_and_goes(
    url: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with Fleet(url, tmp_path / "registers") as fleet:
        coming_and_going(fleet, figure)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_item_has_one_holder_on_a_file(tmp_path: Path, figure: Callable[[str], None]) -> None:
    with Fleet(f"sqlite://{tmp_path}/locks.db", tmp_path / "registers") as fleet:
        coming_and_going(fleet, figure)


def coming_and_going(fleet: Fleet, figure: Callable[[str], None]) -> None:
    """Have members join, leave, be killed and be stopped; after each change everything settles."""
    draw = random.Random(18)
    for _ in range(MEMBERS):
        fleet.join()
    began = boot_time()
    first_s = fleet.settle() - began
    fleet.take_moves()
    took: dict[str, list[float]] = {"join": [], "leave": [], "kill": [], "stop": []}
    in_time: dict[str, list[float]] = {what: [] for what in took}  # but for what the processes were late
    ratios = []

    def measured(what: str, change: Callable[[], float], ideal: float) -> None:
        with Pace() as pace:
            ended_at = change()
            processes = fleet.put_off()
            settled_at = fleet.settle()
            latest_s = sorted(one.seconds for one in processes)[-2:]  # an item passes from one to another
            late_s = pace.late_s(ended_at, settled_at) + sum(latest_s)
        took[what].append(settled_at - ended_at)
        in_time[what].append(max(settled_at - ended_at - late_s, 0.0))
        ratios.append(fleet.take_moves() / ideal)

    while sum(map(len, took.values())) < CHANGES:
        here = len(fleet.present)
        if here < MEMBERS and (here <= MEMBERS - 4 or draw.random() < 0.5):
            measured("join", fleet.join, ITEMS / (here + 1))
            continue
        process = draw.choice(fleet.present)
        match draw.choice(("leave", "kill", "stop")):
            case "leave":
                measured("leave", partial(fleet.leave, process), ITEMS / here)
            case "kill":
                measured("kill", partial(fleet.kill, process), ITEMS / here)
            case _:
                measured("stop", partial(fleet.stop, process), ITEMS / here)

                measured("join", partial(fleet.go_on, process), ITEMS / here)
    slowest, worst = (
        {what: max(seconds, default=0.0) for what, seconds in one.items()} for one in (took, in_time)
    )
    figure(
        f"{CHANGES} changes of {MEMBERS} members with {ITEMS} items: first settled after {first_s:.2f} s, "
        "at worst, and but for late processes, "
        f"{', '.join(f'{what} {slowest[what]:.2f} and {worst[what]:.2f} s' for what in took)}; "
        f"moves {fmean(ratios):.3f} of the ideal, at most {max(ratios):.2f}"
    )
    assert fmean(ratios) <= MOST_MOVES
    assert max(worst[what] for what in ("leave", "kill", "stop")) <= SETTLED_WITHIN_S, worst
