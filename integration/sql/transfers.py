"""Transfers between accounts by many processes, while these are killed and stopped and connections end."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from integration import servers
from integration.sql.places import make_tables, plain
from integration.sql.worker import Job, amounts

__all__ = ["Plan", "Result", "run"]

PATIENCE_S = 600.0
FIRST = 1000
"""What each account begins with."""


@dataclass(frozen=True)
class Plan:
    """What is done, and what befalls it.

    Attributes:
        way, isolation, protection: As a `Job` has them.
        processes: How many there are.
        transfers: How many transfers they share.
        accounts: Between how many accounts.
        kills: How often a process is killed, and another goes on.
        stops: How often one is stopped, for ``stop_s``.
        ends: How often the server ends all connections.
        halts: How often one is stopped between reading and writing, for longer than a session lasts.
        session_s: The session timeout of clients.
        seed: What is drawn from.
    """

    way: str = "sqlalchemy"
    isolation: str = "READ COMMITTED"
    protection: str = "locked"
    processes: int = 8
    transfers: int = 2000
    accounts: int = 6
    kills: int = 10
    stops: int = 20
    ends: int = 5
    stop_s: float = 0.3
    halts: int = 0
    session_s: float = 3.0
    seed: str = "1"

    def faults(self) -> Iterator[tuple[int, str]]:
        """Yield what happens, and after how many transfers."""
        chance = Random(self.seed)
        kinds = ["kill"] * self.kills + ["stop"] * self.stops + ["end"] * self.ends
        chance.shuffle(kinds)
        for number, kind in enumerate(kinds, 1):
            yield number * self.transfers // (len(kinds) + 1), kind


@dataclass
class Result:
    """What came of it.

    Attributes:
        found: The sum of all accounts in the end.
        expected: What it should be.
        off: How many accounts are not what the transfers make of them.
        done: How many transfers were committed.
        repeated: How many tokens of committed transfers were there before.
        faults: What happened, and how often.
        again: How often a transfer was tried in vain.
    """

    plan: Plan
    found: int = 0
    expected: int = 0
    off: int = 0
    done: int = 0
    repeated: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    again: int = 0

    @property
    def wrong(self) -> str:
        """What is wrong, in words; "" if it is right."""
        if self.done != self.plan.transfers:
            return "loses transfers"
        if self.found != self.expected or self.off:
            return "loses money"
        return "repeats tokens" if self.repeated else ""

    def __str__(self) -> str:
        plan = self.plan
        return (
            f"{plan.way}, {plan.isolation}, {plan.protection}, seed {plan.seed}: {self.wrong or 'right'};"
            f" {self.done} transfers by {plan.processes} in {self.seconds} s, sum {self.found} of"
            f" {self.expected}, {self.off} accounts off, {self.repeated} tokens repeated;"
            f" {dict(self.faults)}, {self.again} tried again"
        )


class Member:
    """A process with its part of the transfers."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the member
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "integration.sql.worker", json.dumps(asdict(self._job))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def ready(self) -> None:
        """Wait until it could begin."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.said()

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.close()

    def kill(self) -> None:
        """Kill it; another does the rest."""
        self._end()
        self._start()
        self.ready()
        self.begin()

    def stop(self, seconds: float) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def finish(self) -> int:
        """Return how often it tried in vain, once it has ended."""
        assert self.process.stdout is not None
        word, _, refused = self.process.stdout.read().strip().partition(" ")
        assert self.process.wait(PATIENCE_S) == 0 and word == "done", self.said()  # noqa: PT018
        return int(refused)

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-4000:]

    def close(self) -> None:
        self._end()
        self.errors.close()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def run(server: servers.Postgres | servers.MariaDb, plan: Plan) -> Result:
    """Have processes carry out transfers, and return what came of it."""
    tables = f"t{secrets.token_hex(5)}_"
    url = server.url()
    make_tables(url, tables)
    _prepare(url, tables, plan)
    result = Result(plan)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(contextlib.closing(Member(job))) for job in _jobs(url, tables, plan)]
        for member in members:
            member.ready()
        for member in members:
            member.begin()
        chance = Random(plan.seed)
        for after, kind in plan.faults():
            running = _wait(server, tables, after, members)
            if not running:
                break
            result.faults[kind] += 1
            _strike(server, kind, chance.choice(running), plan)
        result.again = sum(member.finish() for member in members)
    result.seconds = round(time.monotonic() - begun, 1)
    return _judge(url, tables, result)


def _jobs(url: str, tables: str, plan: Plan) -> Iterator[Job]:
    for one in range(plan.processes):
        numbers = (one, plan.transfers, plan.processes)
        how = (plan.way, plan.isolation, plan.protection)
        halts = [plan.processes * (3 + turn) + one for turn in range(plan.halts)] if one == 0 else []
        yield Job(url, tables, *how, numbers, plan.accounts, plan.session_s, halts, plan.session_s + 2)


def _prepare(url: str, tables: str, plan: Plan) -> None:
    with contextlib.closing(plain(url)) as connection:
        cursor = connection.cursor()
        more = "" if url.startswith("postgresql") else " ENGINE=InnoDB"
        cursor.execute(f"CREATE TABLE {tables}account (id INT PRIMARY KEY, balance BIGINT NOT NULL){more}")
        cursor.execute(f"CREATE TABLE {tables}transfer (id INT PRIMARY KEY, token BIGINT NOT NULL){more}")
        for one in range(1, plan.accounts + 1):
            cursor.execute(f"INSERT INTO {tables}account VALUES (%s, %s)", [one, FIRST])
        connection.commit()


def _wait(server: Any, tables: str, after: int, members: list[Member]) -> list[Member]:
    """Wait until so many transfers are done, and return which processes are still at it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        running = [member for member in members if not member.over]
        if not running or server.one(f"SELECT count(*) FROM {tables}transfer") >= after:
            return running
        time.sleep(0.02)
    raise AssertionError(f"there should be {after} transfers: {[member.said() for member in members]}")


def _strike(server: servers.Postgres | servers.MariaDb, kind: str, member: Member, plan: Plan) -> None:
    if kind == "kill":
        member.kill()
    elif kind == "stop":
        member.stop(plan.stop_s)
    else:
        server.terminate()


def _judge(url: str, tables: str, result: Result) -> Result:
    """Fill in what is found in the database."""
    with contextlib.closing(plain(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT id, balance FROM {tables}account")
        balances = dict(cursor.fetchall())
        cursor.execute(f"SELECT id, token FROM {tables}transfer")
        done = list(cursor.fetchall())
    meant = dict.fromkeys(balances, FIRST)
    for number, _ in done:
        source, target, amount = amounts(number, len(balances))
        meant[source] -= amount
        meant[target] += amount
    result.found, result.expected = sum(balances.values()), FIRST * len(balances)
    result.off = sum(balances[one] != meant[one] for one in balances)
    result.done, result.repeated = len(done), len(done) - len({token for _, token in done})
    return result
