"""Interruptions at random moments, each timed: what the storm of faults 26 and 27 is made of.

`Weather` draws the moments from a seed. `Tally` counts who was interrupted, and by how much the
exception came later than the interruption.
"""

from __future__ import annotations

import json
import random
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import recipes
from integration import servers
from integration.faults.labs import Lab
from integration.faults.looking import creates
from integration.harness.wire import Match, Request
from recipes._run.clock import boot_time
from tests.pace import Pace

__all__ = ["LATE_S", "STEADY", "STORM_SESSION_S", "Tally", "Weather", "churn", "in_time", "losing_replies"]

SHORTEST_S, LONGEST_S = 0.0001, 0.05
LATE_S, LATEST_S = 0.25, 1.0
TRAP_S = 0.5
STORM_SESSION_S = 8.0  # so many calls at once may keep a renewal waiting on a slow machine
STEADY = "steady"  # begins the names of locks by which an actor sees that it is connected


class Weather:
    """Random moments: as often within the first request as long after it."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))

    def moment_s(self) -> float:
        """Return after how many seconds to strike."""
        return float(SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self._random.random())

    def name(self) -> str:
        """Return which lock to ask for; nobody else wants "own"."""
        return self._random.choice(("busy", "busier", "own"))

    def lock(self, client: Any, name: str = "") -> Any:
        """Return a lock of that name, or of any: a plain one, or a side of a read-write lock."""
        name, side = name or self.name(), self._random.choice(("", "reader", "writer"))
        return getattr(client.rwlock(name), side) if side else client.lock(name)

    def hold_s(self) -> float:
        """Return how long another holder holds."""
        return self._random.uniform(0.001, 0.02)


class Tally:
    """What came of the attempts; usable from any thread.

    Attributes:
        late_s: By how much each exception was late, but for what the machine was late by at that moment.
    """

    def __init__(self, wanted: int, pace: Pace) -> None:
        self._left = wanted
        self._pace = pace
        self._lock = threading.Lock()
        self.interrupted = 0
        self.granted = 0
        self.late_s: list[float] = []

    def more(self) -> bool:
        """Whether more interruptions are wanted."""
        with self._lock:
            return self._left > 0

    def note_granted(self) -> None:
        """Count an attempt that was over before it was interrupted."""
        with self._lock:
            self.granted += 1

    def note_interrupted(self, struck_at: float) -> None:
        """Count an attempt that has just ended in the exception of an interruption."""
        late_s = boot_time() - struck_at - self._pace.late_s(struck_at)
        with self._lock:
            self._left -= 1
            self.interrupted += 1
            self.late_s.append(late_s)

    @property
    def worst_s(self) -> float:
        """The latest exception."""
        return max(self.late_s, default=0.0)

    @property
    def most_s(self) -> float:
        """By how much all were late at most but for one in a hundred, or one if there are fewer."""
        count = len(self.late_s)
        return sorted(self.late_s)[-1 - max(1, count // 100)] if count > 1 else self.worst_s

    @property
    def lateness(self) -> dict[str, float]:
        """Both, as they are judged."""
        return {"most_s": self.most_s, "worst_s": self.worst_s}


def in_time(lateness: Mapping[str, float]) -> bool:
    """Whether exceptions came in time: one in a hundred may come later where the machine stands still."""
    return lateness["most_s"] <= LATE_S and lateness["worst_s"] <= LATEST_S


@contextmanager
def churn(lab: Lab, seed: object) -> Iterator[None]:
    """Have others hold and release the locks all the while: attempts wait, step up and are granted."""
    over = threading.Event()
    failed: list[BaseException] = []
    client = lab.actor(api="blocking")

    def hold(number: int, name: str) -> None:
        weather = Weather((seed, name, number))
        try:
            while not over.is_set():
                grant = weather.lock(client.client, name).acquire(timeout=20)
                over.wait(weather.hold_s())
                if isinstance(grant, recipes.WriteGrant):
                    grant.downgrade()
                    over.wait(weather.hold_s())
                assert grant.release()
                over.wait(0.001)
        except BaseException as error:
            failed.append(error)

    names = enumerate(("busy", "busier", "busier"))
    threads = [threading.Thread(target=hold, args=one) for one in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)
    assert not failed, failed


def in_danger(server: servers.Server) -> Match:
    """Match the creates of attempts that are struck, and not those that see to the connection."""
    made = creates(server)

    def matches(request: Request) -> bool:
        if not made(request):
            return False
        if not isinstance(server, servers.Etcd):
            return STEADY.encode() not in request.body
        put = json.loads(request.body)["success"][0]["request_put"]
        return STEADY.encode() not in b64decode(put["key"])

    return matches


@contextmanager
def losing_replies(lab: Lab, seed: object) -> Iterator[Callable[[], int]]:
    """Lose the reply to a create that may be interrupted, now and then; yields how many were lost so far."""
    over = threading.Event()
    lost: list[None] = []
    chance = random.Random(str(seed))

    def lose() -> None:
        while not over.is_set():
            trap = lab.proxy.drop_reply(n=chance.randint(5, 20), match=in_danger(lab.server))
            until = (
                time.monotonic() + TRAP_S
            )  # the reply may never come: etcd's clients reset what they give up
            while not (over.is_set() or trap.sprung.wait(0.1) or time.monotonic() > until):
                continue
            if trap.sprung.is_set():
                lost.append(None)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield lambda: len(lost)
    finally:
        over.set()
        thread.join()
