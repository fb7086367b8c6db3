"""Where a hand-over of this package spends its time."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

from bench.stage import BEFORE_START_S, PATIENCE_S, Stage
from bench.tables import Plan, Table
from integration.fleet.peers import Process

__all__ = ["handed_in_parts", "parts"]

SIZES = ((2, 0.02), (8, 0.01))
FOR_S = 4.0
STARTING_S = 3.0
PARTS = (
    "release, until the store is asked",
    "store and wire, until the next is notified",
    "notified, until it runs",
    "its proof by the store",
    "after that, until acquire returns",
)
Marks = list[tuple[int, str]]


def parts(stage: Stage, plan: Plan) -> list[Table]:
    """Measure the blocking API on both stores."""
    table = Table("parts", "Where a hand-over between processes spends its time (p50 us of each part)")
    for store in ("zookeeper", "etcd"):
        for usual, hold_s in SIZES:
            count = plan.processes(usual)
            found = defaultdict(list)
            for one in handed_in_parts(_marks(stage.server(store).url("bench"), count, plan, hold_s)):
                for part, took in zip((*PARTS, "all"), (*one, sum(one)), strict=True):
                    found[part].append(took / 1000)
            figures: dict[str, Any] = {part: round(statistics.median(took)) for part, took in found.items()}
            label = f"{store}: {count} contenders, each holds {hold_s * 1000:g} ms"
            table.add(f"{store}-{usual}", label=label, **figures, n=len(found["all"]))
    return [table]


def _marks(url: str, count: int, plan: Plan, hold_s: float) -> list[Marks]:
    start = time.monotonic_ns() + int((STARTING_S + BEFORE_START_S) * 1e9)
    times = [start, start + int(plan.seconds(FOR_S) * 1e9), int(hold_s * 1e9)]
    command = [sys.executable, "-m", "bench.marked", url, *map(str, times)]
    members = [Process(command) for _ in range(count)]
    try:
        assert all(one.next_line(PATIENCE_S) for one in members)
        return [json.loads(one.next_line(PATIENCE_S) or "null") for one in members]
    finally:
        for one in members:
            one.finish(PATIENCE_S)


def handed_in_parts(marks: list[Marks]) -> list[list[int]]:
    """Return the parts of each hand-over in which the next was told by an event, in nanoseconds."""
    every = sorted((at, who, word) for who, one in enumerate(marks) for at, word in one)
    found = []
    for index, (released, giver, word) in enumerate(every):
        if word != "release":
            continue
        got = next(((at, who) for at, who, word in every[index:] if word == "got"), None)
        if got is None or got[1] == giver:
            continue
        asked = next(at for at, who, word in every[index:] if who == giver and word == "asked")
        taker = [(at, word) for at, who, word in every[index:] if who == got[1] and asked < at <= got[0]]
        told = [at for at, word in taker if word == "told"]
        if not told:
            continue
        behind = [(at, word) for at, word in taker if at > told[-1]]
        runs = next((at for at, word in behind if word == "asked"), got[0])
        proved = max((at for at, word in behind if word == "answered"), default=runs)
        steps = [released, asked, told[-1], runs, proved, got[0]]
        found.append([later - earlier for earlier, later in pairwise(steps)])
    return found
