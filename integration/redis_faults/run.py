"""Rounds of faults at a place, clients under load meanwhile, and what their histories say."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import recipes
from integration.chaos.batch import commit
from integration.chaos.client import Spec
from integration.chaos.history import entries_of, read
from integration.chaos.judge import stays_of, unfair
from integration.chaos.lanes import Shape
from integration.chaos.processes import Process
from integration.chaos.resources import REGISTERS, Registers
from integration.faults.looking import hold_fault
from integration.harness.throwaway import memory_directory
from integration.redis_faults.places import Place

__all__ = ["Plan", "Result", "judged", "run"]

APIS = ("blocking", "asyncio")
LANES = ("counting", "staying", "staying", "locks")
GRANTED_S = 60.0
AT_ONCE = 1 / 6
"""How often the next fault does not wait until something is granted again."""


@dataclass(frozen=True)
class Plan:
    """How much happens.

    Attributes:
        rounds: How many faults, one after the other.
        grace_s: The ``restart_grace`` of all clients.
        session_s: How long their sessions last.
        processes: How many clients; every other one is for asyncio.
        load_s: How long clients work at most between two faults.
        seed: What is drawn from.
        waits: Renewals wait for all replicas (``replicas``), as they should.
    """

    rounds: int
    grace_s: float = 2.0
    session_s: float = 2.0
    processes: int = 4
    load_s: float = 1.5
    seed: str = "1"
    waits: bool = True


@dataclass
class Result:
    """What came of a run.

    Attributes:
        overlaps: Grants of one lock whose holders both believed to hold, by their own clocks.
        tokens: Tokens that did not rise.
        updates: How many updates of each register were acknowledged.
        lost: How many of them are not in it.
    """

    version: str
    commit: str
    plan: Plan
    grants: int = 0
    lost_grants: int = 0
    overlaps: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    updates: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def exclusive(self) -> bool:
        """Whether there were never two holders, and nothing was raised that should not be."""
        return not (self.overlaps or self.wrong)

    @property
    def fenced(self) -> bool:
        """Whether tokens rose, and no fenced update was lost."""
        return not (self.tokens or self.lost["fenced"])

    def __str__(self) -> str:
        plan = self.plan
        waits = "" if plan.waits else ", which do not wait for replicas"
        lines = [
            f"{self.version}, commit {self.commit}, seed {plan.seed}: {plan.rounds} rounds {self.faults}",
            f"grace {plan.grace_s:g} s, sessions of {plan.session_s:g} s, {plan.processes} clients{waits}",
            f"{self.grants} grants, {self.lost_grants} of them lost, {len(self.overlaps)} overlaps",
            f"{len(self.tokens)} tokens that did not rise; updates {self.updates}, lost {self.lost}",
            f"{self.seconds:.0f} s",
            *(one for some in (self.overlaps, self.tokens, self.wrong) for one in some[:3]),
        ]
        return "\n  ".join(lines)


def run(
    place: Place, plan: Plan, *, say: Callable[[str], None] | None = None, keep: Path | None = None
) -> Result:
    """Have clients hold locks at a place, which is started, while it fails; judge what they noted.

    Args:
        place: Where.
        plan: How much.
        say: Is given a line about each round.
        keep: A folder for the histories.
    """
    result, began = Result(place.version(), commit(), plan), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="redis-faults-", dir=memory_directory()) as name:
        folder = Path(name)
        registers = Registers(folder / "registers.db")
        registers.make()
        with contextlib.ExitStack() as stack:
            prefix = f"faults-{uuid.uuid4().hex[:8]}"
            options: dict[str, Any] = {"restart_grace": plan.grace_s, "replicas": place.replicas * plan.waits}
            probe = stack.enter_context(
                recipes.connect(
                    place.url(prefix), session_timeout=plan.session_s, request_timeout=1.0, **options
                )
            )
            clients = [
                _client(plan, number, place.url(prefix), folder, options) for number in range(plan.processes)
            ]
            for client in clients:
                stack.callback(client.kill)
            _rounds(place, plan, probe, say)
            for client in clients:
                client.tell("stop")
            for client in clients:
                client.answer(GRANTED_S)
            for client in clients:
                client.tell("close")
                if not client.ended():
                    result.wrong.append(f"{client.spec.who} did not end")
        judged(folder, registers.values(), result)
        registers.close()
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
    result.faults = dict(place.done)
    result.seconds = time.monotonic() - began
    return result


def _client(plan: Plan, number: int, url: str, folder: Path, options: Mapping[str, Any]) -> Process:
    shape = Shape(stay_s=2 * plan.session_s)
    api = APIS[number % len(APIS)]
    return Process(
        Spec(f"c{number}", api, url, plan.session_s, plan.seed, folder, LANES, shape, dict(options))
    )


def _rounds(place: Place, plan: Plan, probe: Any, say: Callable[[str], None] | None) -> None:
    chance = random.Random(plan.seed)
    _granted(probe)
    for number in range(plan.rounds):
        hold_fault(chance.uniform(0.2, 1) * plan.load_s)
        fault = place.strike(chance)
        struck = time.monotonic()
        if chance.random() > AT_ONCE or number == plan.rounds - 1:
            _granted(probe)
        if say is not None:
            say(f"{number + 1} {fault}: granted again after {time.monotonic() - struck:.1f} s")


def _granted(probe: Any) -> None:
    """Wait until a lock is granted, whatever fails before."""
    until = time.monotonic() + GRANTED_S
    while True:
        try:
            probe.lock("probe").acquire(timeout=max(1.0, until - time.monotonic())).release()
            return
        except (recipes.LockTimeout, recipes.StoreError, recipes.SessionLost):
            if time.monotonic() > until:
                raise


def judged(folder: Path, values: Mapping[str, int], result: Result) -> None:
    """Put into ``result`` what the histories in a folder and the registers say."""
    lines = list(read(folder))
    result.wrong += [f"{line['id']} raised {line['why']}" for line in lines if line["is"] == "wrong"]
    entries = entries_of(line for line in lines if line["is"] != "wrong")
    stays = stays_of(entries, {})
    result.grants = len(stays)
    releases = [one for one in entries.values() if one.what == "release"]
    result.lost_grants = sum(not one.facts["held"] for one in releases)
    for fault in unfair(stays):
        (result.overlaps if "beside" in fault else result.tokens).append(fault)
    for name in REGISTERS:
        updates = [one for one in entries.values() if one.what == "write" and one.facts["register"] == name]
        result.updates[name] = sum(one.how == "ok" for one in updates)
        result.lost[name] = max(0, result.updates[name] - values[name])
