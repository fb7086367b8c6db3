"""Many processes at one lock, and processes that wait long: the tests show it small, ``bench`` at length.

Processes come from a fork server, which has loaded the package once, and start together.
"""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recipes
from recipes._run.clock import boot_time

__all__ = ["Crowd", "Waits", "count_together", "wait_long"]

PATIENCE_S = 120.0


def _processes() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.stores.sqlite.crowd"])
    return context


@dataclass(frozen=True)
class Crowd:
    """What came of processes that counted together.

    Attributes:
        counted: What the counter says in the end.
        took_s: From the start of all to the end of the last.
        stretch: How much longer it took than with a processor each: what they used and what they waited for,
            over what they used.
        tokens: The tokens, in the order in which they were granted; empty for filelock.
        longest_s: The longest wait of anybody.
        most_in_a_row: The most grants in a row that one process got while others waited.
    """

    counted: int
    took_s: float
    stretch: float
    tokens: list[int]
    longest_s: float
    most_in_a_row: int


def count_together(
    kind: str, folder: Path, processes: int, rounds: int, *, think_s: float = 0.0, hold_s: float = 0.0
) -> Crowd:
    """Have so many processes add one to a counter in a file, so many times each, under one lock.

    Args:
        kind: "sqlite" or "filelock".
        folder: Where the files are.
        processes: How many.
        rounds: How often each.
        think_s: Seconds of sleep of each between two rounds.
        hold_s: Seconds of sleep while it holds.
    """
    counter = folder / f"{kind}.counter"
    counter.write_text("0")
    context = _processes()
    start, told = context.Barrier(processes + 1), context.SimpleQueue()
    job = _Job(kind, folder, counter, rounds, think_s, hold_s)
    crowd = [
        context.Process(target=_count, args=(n, job, start, told), daemon=True) for n in range(processes)
    ]
    for one in crowd:
        one.start()
    start.wait(PATIENCE_S)
    began = time.monotonic()
    reports = [told.get() for _ in crowd]
    took_s = time.monotonic() - began
    grants = [grant for report, *_ in reports for grant in report]
    used, waited = (sum(times) for times in zip(*(report[1:] for report in reports), strict=True))
    for one in crowd:
        one.join(PATIENCE_S)
    grants.sort(key=lambda grant: grant[1])
    return Crowd(
        int(counter.read_text()),
        took_s,
        (used + waited) / used,
        [token for *_, token, _ in grants if token is not None],
        max(granted - joined for joined, granted, _, _ in grants),
        _most_in_a_row([number for *_, number in grants]),
    )


def _most_in_a_row(numbers: list[int]) -> int:
    most = run = 1
    for before, number in itertools.pairwise(numbers):
        run = run + 1 if number == before else 1
        most = max(most, run)
    return most


@dataclass(frozen=True)
class _Job:
    """What each process of a crowd does."""

    kind: str
    folder: Path
    counter: Path
    rounds: int
    think_s: float
    hold_s: float


def _count(number: int, job: _Job, start: Any, told: Any) -> None:
    grants = []
    with _lock(job.kind, job.folder) as acquire:
        start.wait(PATIENCE_S)
        used, waited = _scheduled()
        for _ in range(job.rounds):
            joined = boot_time()
            with acquire() as token:
                grants.append((joined, boot_time(), token, number))
                value = int(job.counter.read_text())
                if job.hold_s:
                    time.sleep(job.hold_s)
                job.counter.write_text(str(value + 1))
            if job.think_s:
                time.sleep(job.think_s)
        used, waited = (now - before for now, before in zip(_scheduled(), (used, waited), strict=True))
    told.put((grants, used, waited))


def _scheduled() -> tuple[int, int]:
    """Return for how long this thread has used a processor, and for how long it has waited for one."""
    used, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(used), int(waited)


@contextmanager
def _lock(kind: str, folder: Path) -> Iterator[Callable[[], Any]]:
    if kind == "filelock":
        import filelock

        file_lock = filelock.FileLock(folder / "filelock.lock")

        @contextmanager
        def once() -> Iterator[None]:
            with file_lock:
                yield None

        yield once
        return

    with recipes.connect(f"sqlite://{folder}/locks.db") as client:
        lock = client.lock("counter")

        @contextmanager
        def fenced() -> Iterator[int]:
            with lock as grant:
                yield grant.token

        yield fenced


@dataclass(frozen=True)
class Waits:
    """What waiters measured, each list sorted.

    Attributes:
        handovers_s: From the call of release to the grant.
        wakes_s: What it takes, in the same seconds, to wake a process that waits for a byte.
        cores: The share of a core that a waiter used.
        naps: How often a second it went to sleep, which no other work of the machine changes.
    """

    handovers_s: list[float]
    wakes_s: list[float]
    cores: list[float]
    naps: list[float]


def wait_long(folder: Path, waiters: int, wait_s: float) -> Waits:
    """Hold locks for so many seconds while a process waits for each, then release them one by one."""
    url = f"sqlite://{folder}/locks.db"
    context = _processes()
    told = context.SimpleQueue()
    with recipes.connect(url) as client:
        held = [client.lock(f"lock-{number}").acquire() for number in range(waiters)]
        crowd = [
            context.Process(target=_wait, args=(url, grant.name, number, told), daemon=True)
            for number, grant in enumerate(held)
        ]
        for one in crowd:
            one.start()
        for _ in crowd:
            assert told.get() == "waiting"
        time.sleep(wait_s)
        released, wakes_s = [], []
        with _sleeper(context) as wake:
            for grant in held:
                wakes_s.append(wake())
                time.sleep(0.05)
                released.append(boot_time())
                grant.release()
                time.sleep(0.05)
        found = [told.get() for _ in crowd]
    for one in crowd:
        one.join(PATIENCE_S)
    handovers_s = sorted(granted - released[number] for number, granted, *_ in found)
    cores, naps = (sorted(one[at] for one in found) for at in (2, 3))
    return Waits(handovers_s, sorted(wakes_s), cores, naps)


@contextmanager
def _sleeper(context: Any) -> Iterator[Callable[[], float]]:
    """Yield what wakes a process, and returns how long that took."""
    near, far = context.Pipe()
    process = context.Process(target=_sleep, args=(far,), daemon=True)
    process.start()
    near.recv()  # it sleeps

    def wake() -> float:
        sent_at = boot_time()
        near.send("wake up")
        woken_at: float = near.recv()
        return woken_at - sent_at

    yield wake
    near.send(None)
    process.join(PATIENCE_S)


def _sleep(pipe: Any) -> None:
    pipe.send("asleep soon")
    while pipe.recv():
        pipe.send(boot_time())


def _wait(url: str, name: str, number: int, told: Any) -> None:
    with recipes.connect(url) as client:
        told.put("waiting")
        began, before = boot_time(), resource.getrusage(resource.RUSAGE_SELF)
        with client.lock(name).acquire(timeout=PATIENCE_S):
            granted, now = boot_time(), resource.getrusage(resource.RUSAGE_SELF)
        used_s = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        naps, took_s = now.ru_nvcsw - before.ru_nvcsw, granted - began
        told.put((number, granted, used_s / took_s, naps / took_s))
