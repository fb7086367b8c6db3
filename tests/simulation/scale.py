"""What a queue, a group and a client cost as they become large: ``python -m tests.simulation.scale --out``.

Simulated clients do what many processes would, on the models of the stores. There requests, wake-ups, and the
keys that each reply carries can be counted, and time stands still. Of each count the exponent is fitted (a
line through the logarithms): 1 for what is done once for each, 2 for what each does with every other.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import recipes
from recipes._api.membership import shown
from recipes._api.observing import _Observing
from recipes._programs.queueing import Attempt, acquire
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run.effects import Receive
from recipes.stores.etcd.protocol import EtcdProtocol
from tests.simulation.bulk import commit
from tests.simulation.clients import Client
from tests.simulation.etcd_store import EtcdStore
from tests.simulation.group import SimGroup
from tests.simulation.moving import Task
from tests.simulation.users import LABELS, given_back
from tests.simulation.world import World
from tests.simulation.zookeeper_model import ZooKeeperStore

__all__ = ["CASES", "exponent", "measured", "refused", "table"]

STORES = ("etcd", "zookeeper")
SIZES = (100, 316, 1000, 3162, 10_000)
REAL_SIZES = (1000, 3162, 10_000, 31_623, 100_000)
MOST = {"group": 1000, "watched group": 1000}
"""How many there are at most; else as many as are asked for."""
TRACED = 1500
"""With more clients memory is not looked at, which takes several times as long."""
LONG_S, SESSION_S = 3600.0, 15.0
"""How long sessions are: so that no renewal is counted, or that some are."""
STEP_S, STAY_S = 0.01, 60.0
"""How long it is from one member to the next, and how long each stays."""
IN_ALL, IN_STEPS = 1.15, 1.05
"""The largest exponents: n log n has 1.15 between 100 and 10 000; what is the same at each step has 1."""
SERVER, CARRIED, MEMORY, SECONDS = "keys read by the server", "keys in replies", "bytes", "seconds"
LISTS = "ZooKeeper shows who is ahead only by listing all"
SORTS = "etcd finds the nearest ahead by reading all"
WHOLE = "each change is followed by a look at all members"
KNOWN = {
    ("queue", "etcd", SERVER): SORTS,
    ("group", "etcd", SERVER): SORTS,
    ("queue", "zookeeper", CARRIED): LISTS,
    ("group", "zookeeper", CARRIED): LISTS,
    ("watched group", "etcd", SERVER): WHOLE,
    ("watched group", "etcd", CARRIED): WHOLE,
    ("watched group", "zookeeper", CARRIED): WHOLE,
    ("watched group", "zookeeper", "requests"): f"{WHOLE}, one request each",
}
"""What grows faster, and why."""
Count = dict[str, float]


class Counted:
    """In the place of an oracle: counts what clients are granted and notified of."""

    def __init__(self) -> None:
        self.left = self.events = self.grants = 0

    def admitted(self, client: Any, hold: Any) -> None:
        """A grant came to be."""
        self.grants += 1

    def heard(self, event: Any, mailbox: Any) -> None:
        """A client was sent an event."""
        self.events += 1

    def releasing(self, client: Any, hold: Any, was_held: bool) -> bool:
        """A client releases."""
        return was_held

    def settles(self, client: Any, job: Any) -> None:
        """A client cleaned up."""


class CountingWorld(World):
    """Counts the keys and names that replies carry."""

    carried = 0

    def resume(self, task: Task, value: Any, error: BaseException | None) -> None:
        self.carried += _entries(value)
        super().resume(task, value, error)


def _entries(reply: Any) -> int:
    """Return how many keys or names a reply carries."""
    if isinstance(reply, dict):
        parts = reply.get("responses", ())
        return len(reply.get("kvs", ())) + sum(_entries(one) for part in parts for one in part.values())
    if isinstance(reply, tuple):
        return sum(1 if isinstance(one, str) else _entries(one) for one in reply)
    return 0


class Scene:
    """Many clients of one model, and what was counted so far."""

    def __init__(self, store: str, clients: int, session_s: float = LONG_S) -> None:
        self.world = CountingWorld(1)
        self.store: Any = {"etcd": EtcdStore, "zookeeper": ZooKeeperStore}[store](self.world)
        self.store.sorted_soon = 0  # so that etcd is asked about every queue as about a long one
        self.store.most_tombstones = EtcdProtocol.most_tombstones
        self.oracle = Counted()
        self.clients = [
            Client(self.world, number, self.store, offset=0.0, rate=1.0, ttl_s=session_s)
            for number in range(clients)
        ]
        for client in self.clients:
            client.oracle = self.oracle

    def start(self, client: Client, work: Callable[[Task], Generator[Any, Any, None]]) -> Task:
        """Have a client do something."""
        task = Task(client, client.name, iter(()))  # type: ignore[arg-type]
        task.steps = work(task)
        self.world.start(task)
        return task

    def settle(self) -> None:
        """Let happen all that happens without time."""
        while self.world.step():
            pass

    def pass_by(self, seconds: float) -> None:
        """Let so much time pass, and all that comes of it happen."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.settle()
            if not self.world.advance(until):
                self.world.move_to(until)
        self.settle()

    def counted(self) -> Count:
        """Return the counts so far."""
        found = {
            "requests": float(self.world.requests),
            "events": float(self.oracle.events),
            CARRIED: float(self.world.carried),
        }
        if isinstance(self.store, EtcdStore):
            found[SERVER] = float(self.store.server.read)
        return found

    def with_memory(self, act: Callable[[], None]) -> Count:
        """Return what is counted while something is done, and how much memory the package has of it."""
        if len(self.clients) > TRACED:
            return self.during(act)
        counts: Count = {}
        memory = traced(lambda: counts.update(self.during(act)))
        return counts | memory

    def during(self, act: Callable[[], None]) -> Count:
        """Return what was counted while something was done."""
        before = self.counted()
        act()
        return {what: value - before[what] for what, value in self.counted().items()}


Phases = Iterator[tuple[str, Count]]


def queue(store: str, size: int) -> Phases:
    """Have so many clients stand in one queue, and hand the lock over until all had it."""
    scene = Scene(store, size)
    first, *others = scene.clients
    scene.start(first, partial(_use, first, "q", 1.0))
    scene.settle()

    def join() -> None:
        for client in others:
            scene.start(client, partial(_use, client, "q", 0.0))
        scene.settle()

    yield "join", scene.with_memory(join)
    yield "hand over", scene.during(lambda: scene.pass_by(1.0))
    assert scene.oracle.grants == size, "all should have had it"


def _use(client: Client, name: str, hold_s: float, task: Task) -> Generator[Any, Any, None]:
    """Acquire, hold and release."""
    hold = yield from _acquired(client, name, task)
    if hold_s:
        client.runtime.begin(task, None)
        yield Receive(hold_s)
    yield from given_back(client, task, hold)


def _acquired(client: Client, name: str, task: Task) -> Generator[Any, Any, Any]:
    call = client.runtime.begin(task, None)
    attempt = Attempt(name, EXCLUSIVE, client.new_id, LABELS["exclusive"])
    return (yield from client.run(task, call, acquire(attempt)))


def group(store: str, size: int, *, watched: bool = False) -> Phases:
    """Have so many clients join a group, one after the other, and leave it, with one that watches or none."""
    scene = Scene(store, size + 1)
    watcher, *members = scene.clients
    seen: list[int] = []
    if watched:
        scene.start(watcher, partial(_watch, watcher, seen))
    scene.settle()

    def join() -> None:
        for client in members:
            scene.start(client, partial(_member, client, STAY_S))
            scene.pass_by(STEP_S)
        scene.pass_by(1.0)

    yield "join", scene.with_memory(join)
    assert not watched or seen[-1] == size, "the watcher should have seen all"
    scene.pass_by(STAY_S - size * STEP_S - 1.0)
    yield "leave", scene.during(lambda: scene.pass_by(size * STEP_S + 3.0))
    assert not watched or seen[-1] == 0, "the watcher should have seen all go"


def _member(client: Client, stays_s: float, task: Task) -> Generator[Any, Any, None]:
    joining = SimGroup(client.runtime, "q").joining(client.new_id(), new=True)
    attempt = joining._attempt(task, joining._saying(b"", None))
    call = client.runtime.begin(task, None)
    hold = yield from client.run(task, call, acquire(attempt))
    client.runtime.begin(task, None)
    yield Receive(stays_s)
    yield from given_back(client, task, hold)


def _watch(client: Client, seen: list[int], task: Task) -> Generator[Any, Any, None]:
    observing: Any = _Observing(client.runtime, SimGroup(client.runtime, "q")._observed(), shown)
    while True:
        program, call = observing._next(None)
        call.mailbox.task = task
        seen.append(len(observing._took((yield from client.run(task, call, program)))))


def locks(store: str, size: int) -> Phases:
    """Have one client take so many locks, hold them over a session's length, and release them."""
    scene = Scene(store, 1, SESSION_S)
    (client,) = scene.clients
    holds: list[Any] = []

    def take(task: Task) -> Generator[Any, Any, None]:
        while len(holds) < size:
            holds.append((yield from _acquired(client, f"lock-{len(holds)}", task)))

    def give_back(task: Task) -> Generator[Any, Any, None]:
        for hold in holds:
            yield from given_back(client, task, hold)

    def run(work: Callable[[Task], Generator[Any, Any, None]]) -> None:
        scene.start(client, work)
        scene.settle()

    yield "acquire", scene.with_memory(lambda: run(take))
    yield "hold for a session", scene.during(lambda: scene.pass_by(SESSION_S))
    yield "release", scene.during(lambda: run(give_back))


def in_memory(store: str, size: int) -> Phases:
    """Have one client take so many locks of a store in memory, as users do, and release them."""
    with recipes.connect(f"{store}://") as client:
        grants: list[Any] = []
        yield "acquire", _timed(lambda: grants.extend(client.lock(f"l{n}").acquire() for n in range(size)))
        yield "release", _timed(lambda: [grant.release() for grant in grants])
    with recipes.connect(f"{store}://") as client:
        held: list[Any] = []
        yield "hold", traced(lambda: held.extend(client.lock(f"l{n}").acquire() for n in range(size)))


def _timed(act: Callable[[], object]) -> Count:
    gc.collect()
    began = time.process_time()
    act()
    return {SECONDS: time.process_time() - began}


def traced(act: Callable[[], object]) -> Count:
    """Return how much more memory the package has after something was done."""
    tracemalloc.start()
    try:
        act()
        gc.collect()
        mine = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/recipes/*")])
    finally:
        tracemalloc.stop()
    return {MEMORY: float(sum(one.size for one in mine.traces))}


CASES: dict[str, tuple[Callable[[str, int], Phases], Sequence[str]]] = {
    "queue": (queue, STORES),
    "group": (group, STORES),
    "watched group": (partial(group, watched=True), STORES),
    "locks of one client": (locks, STORES),
    "locks in memory": (in_memory, ("memory",)),
}


def measured(case: str, store: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return each figure of a case as a function of the size."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for size in sizes:
        for phase, counts in CASES[case][0](store, size):
            for what, value in counts.items():
                found.setdefault((phase, what), []).append((size, round(value, 3)))
    return [
        {"case": case, "store": store, "phase": phase, "what": what, "points": points}
        | {"exponent": round(exponent(points), 3)}
        for (phase, what), points in found.items()
    ]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return with which power of n a figure grows; 0 if there is nothing."""
    logs = [(math.log(size), math.log(value)) for size, value in points if value > 0]
    if len(logs) < len(points):
        return 0.0
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def refused(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return what grows faster than it may: n log n in all, and n in steps that are to cost the same."""
    return [
        f"{row['case']} on {row['store']}: {row['phase']}: {row['what']} grow by n^{row['exponent']}"
        for row in rows
        if row["exponent"] > (IN_STEPS if row["what"] in ("requests", "events") else IN_ALL)
        and (row["case"], row["store"], row["what"]) not in KNOWN
    ]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown: for one of the largest n, and the exponent."""
    head = "| case | store | phase | n | what | for each | grows by |"
    lines = [head, "|---" * 7 + "|"]
    for row in rows:
        size, value = row["points"][-1]
        if value:
            known = KNOWN.get((row["case"], row["store"], row["what"]), "")
            grows = f"n^{row['exponent']:.2f}" + (f" ({known})" if known and row["exponent"] > IN_ALL else "")
            each = f"{value / size * 1e6:,.0f} us" if row["what"] == SECONDS else f"{value / size:,.2f}"
            what = "CPU time" if row["what"] == SECONDS else row["what"]
            cells = (row["case"], row["store"], row["phase"], f"{size:,}", what, each, grows)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def keep(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Put rows in the place of those that are kept of the same cases and stores."""
    of = {(row["case"], row["store"]) for row in rows}
    kept = json.loads(path.read_text()) if path.exists() else []
    mine = [{**row, "commit": commit()} for row in rows]
    others = [row for row in kept if (row["case"], row["store"]) not in of]
    order = list(CASES)
    both = sorted((*others, *mine), key=lambda row: (order.index(row["case"]), row["store"]))
    path.write_text(json.dumps(both, indent=1) + "\n")


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the requests of each case over n, as a picture (SVG).

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "scale"  # the same figures make the same file
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True)
    for axis, store in zip(axes, STORES, strict=True):
        for row in rows:
            if row["store"] == store and row["what"] == "requests":
                label = f"{row['case']}: {row['phase']}"
                axis.plot(*zip(*row["points"], strict=True), marker="o", markersize=3, label=label)
        axis.set(xscale="log", yscale="log", xlabel="n", title=store)
        axis.legend(fontsize=6)
    axes[0].set_ylabel("requests in all")
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and return 1 if anything grows faster than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.scale", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest queue")
    parser.add_argument("--case", action="append", choices=CASES, help="may be repeated; all")
    parser.add_argument("--store", action="append", choices=[*STORES, "memory"], help="may be repeated; all")
    parser.add_argument(
        "--out", type=Path, help="keep the figures here, as JSON, beside those of other cases"
    )
    parser.add_argument("--picture", type=Path, help="draw what is kept in --out (needs matplotlib)")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for case in options.case or CASES:
        for store in CASES[case][1]:
            if store not in (options.store or CASES[case][1]):
                continue
            most = min(options.most, MOST.get(case, options.most))
            sizes = REAL_SIZES if store == "memory" else [size for size in SIZES if size <= most]
            rows += measured(case, store, sizes)
            print(case, store, file=sys.stderr, flush=True)
    print(table(rows))
    if options.out is not None:
        keep(options.out, rows)
        if options.picture is not None:
            draw(json.loads(options.out.read_text()), options.picture)
    wrong = refused(rows)
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
