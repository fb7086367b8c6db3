"""One soak: every recipe at once on one store, a fault now and then, and what grew meanwhile."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.chaos.batch import EXPIRED_S, commit
from integration.chaos.faults import Storm
from integration.chaos.lanes import Shape
from integration.chaos.processes import Process
from integration.chaos.run import Run
from integration.chaos.stage import Stage
from integration.chaos.stages import staged
from integration.harness.process import eventually
from integration.harness.throwaway import memory_directory
from integration.soak.growth import Growth
from integration.soak.sampling import Sampler

__all__ = ["EVERY_S", "LANES", "STORES", "Plan", "Result", "lanes_of", "plain", "soak"]

EVERY_S = 20.0
MORTAL = 2
"""How many clients may be killed: the others live from the beginning to the end, and are measured."""
BEGUN_S = 120.0
UNDECIDED = "not decided"
STORES = (
    *("etcd-3.4", "etcd-grpc", "etcd-grpc-cluster", "zookeeper", "zookeeper-cluster"),
    *("redis", "sqlite", "postgres", "mariadb", "memcached", "redlock"),
)
"""Where it is soaked by default, in this order."""
LANES = (
    *("locks", "locks", "staying", "counting", "reentering", "banking", "permits", "electing", "joining"),
    *("dividing", "together", "valuing", "adding", "guarding", "latching", "meeting", "blocks"),
)
"""What each client does all the while: every recipe."""
CELL_LANES = ("locks", "locks", "locks", "staying", "counting", "reentering", "together", "blocks")
"""The same where a store keeps the holder of a name alone."""
SHAPE = Shape(wait_s=3.0, hold_s=0.02, update_s=0.05, stay_s=3.0, rest_s=2.0)


@dataclass(frozen=True)
class Plan:
    """How much happens.

    Attributes:
        seconds: How long clients work.
        every_s: How often a fault strikes.
        seed: What is drawn from.
        warm: The part of the time after which growth is looked for.
        samples: How many samples there are in all.
        shape: How long things take.
        lanes: More lanes for each client.
        session_s: How long sessions are; a request may take half of that.
    """

    seconds: float
    every_s: float = EVERY_S
    seed: str = "1"
    warm: float = 1 / 3
    samples: int = 600
    shape: Shape = SHAPE
    lanes: tuple[str, ...] = ()
    session_s: float = 6.0


@dataclass
class Result:
    """What came of it.

    Attributes:
        growths: By the client ("store" for the store), and by what was measured.
        undecided: Histories too tangled for the search for an order; by tokens they are judged all the same.
    """

    store: str
    version: str
    commit: str
    seed: str
    seconds: float
    clients: int = 0
    grants: int = 0
    operations: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    growths: dict[tuple[str, str], Growth] = field(default_factory=dict)

    @property
    def leaks(self) -> list[str]:
        """What grows, in words."""
        return [
            f"{who}: {what} rises by {one.rise:.4g} in {one.seconds:.0f} s, from {one.level:.4g}"
            f" (standard error {one.error:.2g}, floor {one.floor:.4g})"
            for (who, what), one in self.growths.items()
            if one.leaks
        ]

    @property
    def good(self) -> bool:
        """Whether nothing was broken, and nothing grows."""
        return not (self.violations or self.leaks)


class Regular(Storm):
    """A fault at regular times; all kinds come, in an order that is drawn, before one comes again."""

    def __init__(self, run: Soak) -> None:
        super().__init__(run, "mixed")
        self._every_s = run.plan.every_s

    def rage(self, number: int, over: threading.Event) -> None:
        chance = random.Random(f"{self.run.seed} storm {number}")
        deck: list[str] = []
        next_at = time.monotonic()
        try:
            while True:
                next_at += self._every_s
                if over.wait(max(0.0, next_at - time.monotonic())):
                    return
                deck = deck or chance.sample(self._chosen, len(self._chosen))
                kind = deck.pop()
                self._acts[kind](chance, over)
                self.done[kind] += 1
        except BaseException as error:
            self.failed.append(error)


class Soak(Run):
    """A run with a few faults and many samples."""

    size = 8

    def __init__(self, where: Stage, plan: Plan, folder: Path) -> None:
        super().__init__(
            where, 0, plan.seed, folder, plan.seconds, theme="mixed", lanes=lanes_of(where) + plan.lanes
        )
        self.plan, self.shape = plan, plan.shape
        self.request_s = plan.session_s / 2
        self.at_once = self.result.at_once = 1
        self.sampler = Sampler(lambda: list(self.clients), where.size, plan.seconds / plan.samples)
        self.growths: dict[tuple[str, str], Growth] = {}

    @property
    def mortal(self) -> range:
        return range(self.size - MORTAL, self.size)

    def _storm(self) -> Storm:
        return Regular(self)

    def _rage(self) -> Storm:
        """Begin when all clients have begun, which takes a while where little else can go on."""
        assert eventually(lambda: all(map(_has_begun, self.clients)), BEGUN_S), "clients should begin"
        return super()._rage()

    def _pass(self) -> None:
        began = time.monotonic()
        self.sampler.start()
        super()._pass()
        self.sampler.close()
        self.growths = self.sampler.growths(began + self.plan.warm * self.seconds)


def lanes_of(where: Stage) -> tuple[str, ...]:
    """Return what clients do there."""
    return LANES if where.queues else CELL_LANES


def _has_begun(client: Process) -> bool:
    return (client.spec.folder / f"{client.spec.who}.blocks").exists()


def soak(store: str, plan: Plan, *, say: Callable[[str], None] = print, keep: Path | None = None) -> Result:
    """Have eight clients use every recipe that a store has, and return what came of it.

    Args:
        store: One of `integration.chaos.stages.STAGES`.
        plan: How much.
        say: Is given what happens.
        keep: A folder for the histories if anything is wrong.
    """
    revision = commit()
    with (
        tempfile.TemporaryDirectory(prefix="soak-", dir=memory_directory()) as scratch,
        staged(store, plan.session_s) as where,
    ):
        result = Result(store, where.version(), revision, plan.seed, plan.seconds)
        say(f"{store} {result.version}: {plan.seconds:.0f} s, seed {plan.seed}")
        run = Soak(where, plan, Path(scratch))
        found = run.go()
        if not run.gone(EXPIRED_S):
            run.leaked()
        result.clients, result.growths, result.faults = run.size, run.growths, found.faults
        result.grants = found.judged.get("grants", 0)
        result.operations = found.judged.get("operations", 0)
        for one in found.violations:
            (result.undecided if UNDECIDED in one else result.violations).append(one)
        if keep is not None and not result.good:
            shutil.copytree(run.folder, keep / f"{store}-{plan.seed}", dirs_exist_ok=True)
    return result


def plain(result: Result) -> dict[str, Any]:
    """Return a result as JSON can say it: of each figure the clients' median, and the largest."""
    whats = sorted({what for _, what in result.growths})
    figures = {}
    for what in whats:
        those = [one for (_, name), one in result.growths.items() if name == what]
        rates = sorted(one.per_hour for one in those)
        figures[what] = {
            "of": len(those),
            "level": sorted(one.level for one in those)[len(those) // 2],
            "per_hour": rates[len(rates) // 2],
            "most_per_hour": rates[-1],
            "most_errors": max(one.rise / one.error if one.error else 0.0 for one in those),
            "seconds": max(one.seconds for one in those),
        }
    return {
        "store": result.store,
        "version": result.version,
        "commit": result.commit,
        "seed": result.seed,
        "seconds": result.seconds,
        "clients": result.clients,
        "grants": result.grants,
        "operations": result.operations,
        "faults": dict(sorted(result.faults.items())),
        "violations": result.violations,
        "undecided": len(result.undecided),
        "leaks": result.leaks,
        "figures": figures,
    }
