"""A process that carries out transfers, each in one transaction; it goes on where a killed one was stopped.

``python -m integration.sql.worker`` with the fields of `Job` as JSON. It says ``ready`` and waits for a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import recipes
from integration.sql.places import WAYS, Run, Way
from recipes import sql

__all__ = ["PROTECTIONS", "Job", "amounts", "main"]

PROTECTIONS = ("locked", "nothing", "guard", "lock")
NAME = "accounts"
TRIES = 1000
OURS: tuple[type[Exception], ...] = (recipes.LockError, recipes.SessionLost, recipes.StoreUnavailable)
PAUSE_S = 0.004
"""For so long a transfer thinks between reading and writing."""


@dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes:
        url: The database.
        tables: What names of tables begin with.
        way: By which of `WAYS`.
        isolation: Of its transactions.
        protection: By which of `PROTECTIONS`: `recipes.sql.locked`, or nothing; a client's lock and
            `recipes.sql.guard`, or the lock alone.
        numbers: Of its transfers: the first, the end, and the step.
        accounts: How many there are.
        session_s: The client's session timeout.
        halts: At which transfers it is stopped at the worst moment, between reading and writing.
        halt_s: For how long.
    """

    url: str
    tables: str
    way: str
    isolation: str
    protection: str
    numbers: tuple[int, int, int]
    accounts: int
    session_s: float
    halts: list[int]
    halt_s: float


def amounts(number: int, accounts: int) -> tuple[int, int, int]:
    """Return from where to where a transfer moves how much."""
    chance = Random(number)
    source, target = chance.sample(range(1, accounts + 1), 2)
    return source, target, chance.randint(1, 9)


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    way = WAYS[job.way](job.url, job.isolation)
    with contextlib.ExitStack() as stack:
        client = None
        if job.protection in ("guard", "lock"):
            options: dict[str, Any] = {"tables": job.tables, "session_timeout": job.session_s}
            client = stack.enter_context(contextlib.closing(recipes.connect(job.url, **options)))
        print("ready", flush=True)
        sys.stdin.readline()
        refused = 0
        for number in range(*job.numbers):
            refused += carry_out(job, way, client, number)
    print(f"done {refused}", flush=True)


def carry_out(job: Job, way: Way, client: recipes.Client | None, number: int) -> int:
    """Do one transfer, unless it is done; return how often it was tried in vain."""
    for tried in range(TRIES):
        try:
            with held(job, client) as grant, way.transaction() as (connection, run):
                transfer(job, connection, run, grant, number)
        except (*OURS, *way.errors) as error:
            print(f"again {number} {error!r}", file=sys.stderr)
            way.close()
            time.sleep(0.01)
        else:
            return tried
    raise AssertionError(f"transfer {number} should have been done in {TRIES} tries")


@contextlib.contextmanager
def held(job: Job, client: recipes.Client | None) -> Iterator[recipes.Grant | None]:
    if client is None:
        yield None
        return
    grant = client.lock(NAME).acquire(timeout=60)
    try:
        yield grant
    finally:
        grant.release()


def transfer(job: Job, connection: Any, run: Run, grant: recipes.Grant | None, number: int) -> None:
    token = token_of(job, connection, run, grant)
    table = job.tables
    if run(f"SELECT id FROM {table}transfer WHERE id = %s", number):
        return  # before the connection was lost
    source, target, amount = amounts(number, job.accounts)
    balances: dict[int, int] = dict(
        run(f"SELECT id, balance FROM {table}account WHERE id IN (%s, %s)", source, target)
    )
    time.sleep(PAUSE_S)
    if number in job.halts:
        job.halts.remove(number)
        halt(job.halt_s)
    balances[source] -= amount
    balances[target] += amount
    for one in sorted(balances):  # in this order, so that transfers without a lock do not deadlock
        run(f"UPDATE {table}account SET balance = %s WHERE id = %s", balances[one], one)
    run(f"INSERT INTO {table}transfer (id, token) VALUES (%s, %s)", number, token)
    if job.protection == "guard":
        assert grant is not None, "a guard is of a grant"
        sql.guard(connection, grant)


def halt(seconds: float) -> None:
    """Be stopped (SIGSTOP) for so long."""
    goes_on = f"sleep {seconds}; kill -CONT {os.getpid()}"
    with subprocess.Popen(["sh", "-c", goes_on]):
        os.kill(os.getpid(), signal.SIGSTOP)


def token_of(job: Job, connection: Any, run: Run, grant: recipes.Grant | None) -> int:
    if job.protection == "locked":
        return sql.locked(connection, NAME, timeout=60, tables=job.tables)
    if grant is not None:
        assert grant.token is not None, "grants on databases have tokens"
        return grant.token
    ((last,),) = run(f"SELECT coalesce(max(token), 0) FROM {job.tables}transfer")
    return int(last) + 1


if __name__ == "__main__":
    main()
