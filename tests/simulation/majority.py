"""Redlock's acts on simulated servers: votes that are late or lost, servers that forget, clocks that differ.

The servers are a model of ``cells.lua``; the acts are the package's own. What holds is judged by true time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from typing import Any

from recipes._contract.operations import Op
from recipes.errors import StoreError
from recipes.stores._kit.cell import Drop, Keep, Take
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.redis.keys import Keys
from recipes.stores.redlock.acts import Acts

__all__ = ["TTL_MS", "Majority", "Server"]

TTL_MS = 2000
SURE_MS = 1800
"""For how long a session believes to hold, from when it sent the take or the renewal."""
PATIENCE_MS = 150
Client = Generator[Any, Any, None]


class Server:
    """One server, which forgets everything when it is restarted.

    Args:
        ahead_ms: Its clock against true time.
        abstains_ms: For how long it has no vote then.
    """

    def __init__(self, ahead_ms: int, abstains_ms: int) -> None:
        self.ahead_ms, self.abstains_ms = ahead_ms, abstains_ms
        self.writes_back = True
        self.restart(-abstains_ms - ahead_ms)

    def restart(self, now: int) -> None:
        """Forget."""
        self.value, self.number, self.ends_at, self.last, self.since = "", 0, 0, 0, now

    def answer(self, now: int, words: tuple[Any, ...]) -> list[Any]:
        """Carry out one run of the script for one cell."""
        act, _, ttl, given, value = words
        seen = self.value if self.ends_at > now else ""
        if act == "take":
            left_ms = self.since + self.abstains_ms - now
            if left_ms > 0:
                return [[-1, left_ms]]
            if seen not in ("", value) or (seen and self.number > given):
                return [[0, seen.encode(), self.ends_at - now]]
            self.value, self.number, self.ends_at = value, given, now + ttl
            self.last = max(self.last + 1, (now + self.ahead_ms) * 1000)
            return [[1, b"%d" % self.last]]
        if seen != value or (act == "drop" and 0 < given < self.number):
            return [0]
        if act == "note" and self.writes_back:
            self.last = max(self.last, given)
        elif act == "keep":
            self.ends_at = now + ttl
        elif act == "drop":
            self.value = ""
        return [1]


class Majority:
    """Five servers, some clients of one lock, and a schedule that is drawn from a seed.

    Attributes:
        wrong: What must not have happened.
        grants: How many there were.
    """

    def __init__(self, seed: int, servers: list[Server], *, clients: int = 4) -> None:
        self.random = random.Random(seed)
        self.servers, self.now = servers, 10_000_000
        self.wrong: list[str] = []
        self.grants = self.largest = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._drawn = 0
        self._until: dict[int, int] = {}  # by client: until when it believes to hold
        for number in range(clients):
            self._step(self._client(number), None)
        self._later(self.random.randrange(5000), self._fault)

    def run(self, for_ms: int) -> None:
        """Let so much time pass."""
        end = self.now + for_ms
        while self._events[0][0] < end:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def _later(self, in_ms: int, event: Callable[[], None]) -> None:
        self._drawn += 1
        heapq.heappush(self._events, (self.now + in_ms, self._drawn, event))

    def _fault(self) -> None:
        for server in self.random.sample(self.servers, self.random.randrange(1, 4)):
            server.restart(self.now)
        self._later(self.random.randrange(500, 9000), self._fault)

    def _client(self, number: int) -> Client:
        acts, attempt = Acts("model", Keys("lock:"), 20.0, len(self.servers)), 0
        while True:
            attempt += 1
            value, before, sent = f"{number}/{attempt}", self.largest, self.now
            claims = (("x", value),)
            cell = yield acts, Take("x", value, TTL_MS / 1000)
            if getattr(cell, "value", "") == value and self.now < sent + SURE_MS:
                self._granted(number, cell.token, before, sent + SURE_MS)
                for _ in range(self.random.randrange(4)):
                    yield self.random.randrange(600)
                    sent = self.now
                    kept = yield acts, Keep(claims, TTL_MS / 1000)
                    if kept == (False,) or self.now >= self._until[number]:
                        break
                    if kept == (True,):
                        self._until[number] = sent + SURE_MS
                self._until.pop(number)
            if self.random.random() < 0.8:  # else it died, or nothing of it arrives any more
                yield acts, Drop(claims)
            yield self.random.randrange(1, 300)

    def _granted(self, number: int, token: int, before: int, until: int) -> None:
        self.grants += 1
        if token <= before:
            self.wrong.append(f"token {token} after {before}")
        self.largest = max(self.largest, token)
        others = [other for other, ends_at in self._until.items() if ends_at > self.now]
        if others:
            self.wrong.append(f"{number} was granted while {others} hold")
        self._until[number] = until

    def _step(self, client: Client, reply: Any) -> None:
        wanted = client.send(reply)
        if isinstance(wanted, int):
            self._later(wanted, lambda: self._step(client, None))
        else:
            acts, op = wanted
            self._act(client, acts, op)

    def _act(self, client: Client, acts: Acts, op: Op[Any]) -> None:
        asking = acts.of(Command(op, "s", NOBODY))

        def go_on(votes: Any) -> None:
            try:
                round_ = asking.send(votes)
            except StopIteration as done:
                self._step(client, done.value)
            except StoreError as error:
                self._step(client, error)
            else:
                self._ask(round_, go_on)

        go_on(None)

    def _ask(self, round_: Any, then: Callable[[Any], None]) -> None:
        """Send a round to every server; it ends when the votes are enough, or after a time."""
        votes: list[Any] = [None] * len(self.servers)
        over = False

        def end() -> None:
            nonlocal over
            if not over:
                over = True
                then(list(votes))

        def arrive(at: int, back_ms: int) -> None:
            answer = self.servers[at].answer(self.now, round_.words)
            self._later(back_ms, lambda: heard(at, answer))

        def heard(at: int, answer: Any) -> None:
            votes[at] = answer
            if round_.decided(votes):
                end()

        for at in range(len(votes)):
            slow = 400 if self.random.random() < 0.1 else 15
            there_ms, back_ms = self.random.randrange(slow), self.random.randrange(slow)
            if self.random.random() < 0.95:
                self._later(there_ms, lambda at=at, back_ms=back_ms: arrive(at, back_ms))  # type: ignore[misc]
        self._later(PATIENCE_MS, end)
