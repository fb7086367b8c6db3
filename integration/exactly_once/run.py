"""One run: processes that add, what befalls them and their server, and what the sum is in the end."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from integration import servers
from integration.faults.looking import hold_fault
from integration.fleet.building import curator_program
from integration.fleet.peers import Process
from integration.proxy import Proxy, Toll, matching
from integration.redis_faults.nodes import Kept
from integration.stores import make_tables

__all__ = ["PEERS", "STORES", "Plan", "Result", "fitting", "run"]

NAME = "orders"
PATIENCE_S = 600.0
STORES: dict[str, Callable[[], servers.Server]] = {
    **{name: promised.make for name, promised in servers.ALL.items()},
    "redis-7": Kept,  # which has written what it acknowledged
    "postgres-15": partial(servers.postgres, keeps=True),
    "mariadb-10.11": partial(servers.mariadb, keeps=True),
    "sqlite": servers.Files,
}
ADDS = matching("commit", f"counter/{NAME}")
"""What is lost of databases: of other statements it is clear that they were not done."""
PEERS = ("kazoo", "curator")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Plan:
    """How much is added, and what happens meanwhile.

    Attributes:
        adds: How many additions in all.
        processes: How many processes share them.
        lanes: Threads or tasks of each.
        reply_every: Which reply is lost: every fifth of all.
        cut_every: Which request has its connection cut before it arrives.
        stops: How often a process is stopped; every fourth time for longer than its session lasts.
        kills: How often the server is killed and started again, with its data; without a server, a process.
        session_s: How long sessions last.
        seed: What is drawn from.
    """

    adds: int = 1000
    processes: int = 5
    lanes: int = 2
    reply_every: int = 5
    cut_every: int = 50
    stops: int = 20
    kills: int = 2
    session_s: float = 3.0
    seed: str = "1"

    def portions(self) -> list[int]:
        """Return how many additions there are before each stop, of all processes."""
        return [self.adds // self.stops + (one < self.adds % self.stops) for one in range(self.stops)]


@dataclass
class Tally:
    """What the processes said."""

    sums: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass
class Result:
    """What came of a run.

    Attributes:
        client: "blocking", "asyncio", or which other client.
        store: On which store, as it says of itself.
        done: How many additions said that they were done.
        unknown: Of how many it is not known.
        refused: What the others raised, and how often; they were asked again.
        found: What the sum was in the end.
        twice: How many sums were returned more than once.
        faults: What happened, and how often.
    """

    client: str
    store: str
    done: int
    unknown: int
    refused: dict[str, int]
    found: int
    twice: int
    faults: dict[str, int]
    seconds: float

    @property
    def wrong(self) -> str:
        """What is wrong with it, in words; "" if it is right."""
        if self.found > self.done + self.unknown:
            return "counts twice"
        if self.found < self.done:
            return "loses additions"
        return "returns one sum twice" if self.twice else ""


class Member:
    """A process that adds, and what it has to add."""

    def __init__(self, command: Sequence[str], tally: Tally, changed: threading.Condition) -> None:
        self._process = Process(command)
        self._tally, self._changed = tally, changed
        self._asked: set[str] = set()
        self._found: list[int] = []
        self._idle = False
        self.left = 0
        self.ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._idle

    def add(self, count: int, lanes: int) -> None:
        """Have it add so often."""
        self._idle, self.left = False, count
        self._process.tell(f"add {count} {lanes}")

    def get(self) -> int:
        """Have it read the sum."""
        self._process.tell("get")
        with self._changed:
            assert self._changed.wait_for(lambda: self._found or self.ended, PATIENCE_S), "it should read"
        return self._found.pop()

    def _listen(self) -> None:
        while line := self._process.next_line(10 * PATIENCE_S):
            with self._changed:
                self._heard(line.split(maxsplit=2))
                self._changed.notify_all()
        with self._changed:
            self._tally.unknown += [f"{one} killed" for one in self._asked]
            self.left -= len(self._asked)
            self.ended = self._idle = True
            self._changed.notify_all()

    def _heard(self, words: list[str]) -> None:
        match words:
            case ["asked", one]:
                self._asked.add(one)
            case ["done", one, value]:
                self._answered(one)
                self._tally.sums.append(int(value))
            case ["unknown", one, *why]:
                self._answered(one)
                self._tally.unknown.append(f"{one} {why}")
            case ["not", one, *why]:
                self._asked.remove(one)
                self._tally.refused[" ".join(why).partition(" ")[0]] += 1
            case ["found", value]:
                self._found.append(int(value))
            case ["hello" | "over"]:
                self._idle = True
            case _:
                raise AssertionError(f"{words} should be one of its answers")

    def _answered(self, one: str) -> None:
        self._asked.remove(one)
        self.left -= 1

    def stop(self, seconds: float) -> None:
        """Stop it (SIGSTOP) for so long."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            hold_fault(seconds)
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended, PATIENCE_S), "it should have ended"


class Run:
    """Processes of one client on one server."""

    def __init__(self, server: servers.Server, client: str, plan: Plan) -> None:
        self._server, self._client, self._plan = server, client, plan
        self._prefix = f"once-{client}-{os.getpid()}-{time.monotonic_ns()}"
        self._chance = random.Random(plan.seed)
        self._changed = threading.Condition()
        self._tally = Tally()
        self._faults: Counter[str] = Counter()
        self._open = contextlib.ExitStack()
        self._members: list[Member] = []
        self._door: Any = None

    def go(self) -> Result:
        """Add, while all that happens; return what came of it."""
        began = time.monotonic()
        with self._open:
            self._door = self._opened()
            self._members = [self._made() for _ in range(self._plan.processes)]
            self._wait(lambda: all(one.idle for one in self._members))
            tolls = self._tolls()
            for number, portion in enumerate(self._plan.portions()):
                self._round(number, portion)
            for fault, toll in tolls.items():
                self._faults[fault] = toll.taken
                self._door.lift(toll)
            found = self._members[0].get()
        sums = self._tally.sums
        return Result(
            self._client,
            f"{self._server.label} ({self._server.version()})",
            len(sums),
            len(self._tally.unknown),
            dict(self._tally.refused),
            found,
            len(sums) - len(set(sums)),
            dict(self._faults),
            round(time.monotonic() - began, 1),
        )

    def _opened(self) -> Any:
        """Return the one way of all clients: so it differs from time to time what of a client is lost."""
        if isinstance(self._server, servers.Files):
            return self._server
        if isinstance(self._server, servers.Database):
            make_tables(self._server)
        return self._open.enter_context(Proxy.of(self._server))

    def _made(self) -> Member:
        door, session_s = self._door, str(self._plan.session_s)
        words = [door.url(self._prefix), NAME] if self._client not in PEERS else [door.address, self._prefix]
        if self._client == "curator":
            command = curator_program("Adder", HERE / "java")
        else:
            command = [sys.executable, "-m", "integration.exactly_once.worker", self._client]
        member = Member([*command, *words, session_s], self._tally, self._changed)
        self._open.callback(member.kill)
        return member

    def _tolls(self) -> dict[str, Toll]:
        if not isinstance(self._door, Proxy):
            return {}
        lost = ADDS if isinstance(self._server, servers.Database) else None
        return {
            "replies lost": self._door.drop_replies(self._plan.reply_every, lost),
            "connections cut": self._door.cut_requests(self._plan.cut_every, lost),
        }

    def _round(self, number: int, portion: int) -> None:
        """Have all add their shares, and stop one of them meanwhile."""
        plan, before = self._plan, self._answered()
        for place, member in enumerate(self._members):
            member.add(portion // plan.processes + (place < portion % plan.processes), plan.lanes)
        enough = before + self._chance.randrange(max(1, portion // 2))
        self._wait(lambda: self._answered() >= enough)
        if (number + 1) % (plan.stops // (plan.kills + 1)) == 0 and self._faults["kills"] < plan.kills:
            self._kill()
            self._faults["kills"] += 1
        busy = [one for one in self._members if not one.idle] or self._members
        past = number % 4 == 3
        least, most = (1.1, 1.5) if past else (0.01, 0.2)
        self._chance.choice(busy).stop(self._chance.uniform(least, most) * plan.session_s)
        self._faults["stops past the session" if past else "stops"] += 1
        self._wait(lambda: all(one.idle for one in self._members))
        assert not any(one.ended for one in self._members), "a process ended by itself"

    def _kill(self) -> None:
        """Kill the server and start it again; without one, kill a process, and have another go on."""
        if not isinstance(self._server, servers.Files):
            self._server.kill()
            self._server.start()
            return
        place = self._chance.randrange(len(self._members))
        killed = self._members[place]
        killed.kill()
        made = self._members[place] = self._made()
        self._wait(lambda: made.idle)
        made.add(killed.left, self._plan.lanes)

    def _answered(self) -> int:
        return len(self._tally.sums) + len(self._tally.unknown)

    def _wait(self, until: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(until, PATIENCE_S), f"stuck after {self._answered()} additions"


def fitting(plan: Plan, server: servers.Server) -> Plan:
    """Return the plan for a server; one that forgets what it has answered when it is killed is not killed."""
    forgets = isinstance(server, servers.Etcd) and server.forgets_when_killed()
    return replace(plan, kills=0) if forgets else plan


def run(server: servers.Server, client: str, plan: Plan) -> Result:
    """Return what came of one run."""
    return Run(server, client, plan).go()
