"""Locks on Redis, beside all others that are used there: alone, handed over, in a crowd, after a crash."""

# ruff: noqa: PLC0415

from __future__ import annotations

import itertools
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import recipes
from bench.figures import Summary, fairness, summary
from bench.scenarios.alone import WORDS
from bench.scenarios.alone import measured as alone
from bench.scenarios.handover import measured as handover
from bench.scenarios.turns import in_turn
from bench.scenarios.waiters import measured as waiters
from bench.stage import PATIENCE_S, Crew, Stage
from bench.tables import Plan, Table
from integration.fleet.peers import Process
from integration.harness.process import eventually
from recipes.events import Transition, subscribe

if TYPE_CHECKING:
    import redis as redis_py

__all__ = ["redis"]

ALONE = ["recipes-redis", "redis-py", "python-redis-lock", "tooz-redis", "pottery", "floor-redis"]
ASYNCIO = ["recipes-redis-asyncio", "redis-py-asyncio"]
PEERS = [name for name in ALONE if name != "floor-redis"]
QUEUES = ["recipes-redis", "recipes-redis-asyncio", "python-redis-lock"]  # the others poll
SENT = {"recipes-redis": ("evalsha",), "redis-py": ("set", "evalsha")}
"""Which commands of a cycle a client sends; what a script runs is a part of the script's time."""
CYCLES = 200
SHORT_CYCLES, SHORT_TURNS = 50, 10
"""The server's own clock goes on while others have its core: one of many short turns is hardly disturbed."""
CONTENDERS, HOLD_S, FOR_S = 8, 0.001, 6.0
CRASHES, CRASH_SESSION_S = 10, 2.0
STRANGERS, STRANGER_HOLDS_S = 40, 0.2


def redis(stage: Stage, plan: Plan) -> Iterator[Table]:
    """Measure what the store promises; the crews of each table have their turns one after another."""
    crews = stage.crews(*ALONE, *ASYNCIO)
    for crew in crews:
        crew.muster(1)
    yield alone(plan, crews, Table("redis-alone", f"Redis: {WORDS}"), CYCLES)
    yield _server_time(stage, plan)
    yield handover(stage, plan, "redis-handover-2", 2, 0.02, 1.5, QUEUES)
    yield handover(stage, plan, "redis-handover-8", 8, 0.01, 1.5, QUEUES)
    yield _fairness(stage, plan)
    stage.dismiss()
    yield _ends(stage, plan)
    sizes = [1000] if plan.scale >= 1 else [plan.count(1000)]
    yield waiters(stage, plan, "redis-waiters", ["redis"], sizes)


def _server_time(stage: Stage, plan: Plan) -> Table:
    """Measure what the server's own clock says of the commands of a cycle; the best turn counts."""
    table = Table("redis-server", "Redis: the server's time of acquire and release, by its commandstats")
    client, count = _client(stage), plan.count(SHORT_CYCLES)

    def turn(crew: Crew) -> float:
        crew.use(1)
        before = _usec(client, crew)
        crew.cycles(count)
        return (_usec(client, crew) - before) / count

    crews = stage.crews(*SENT)
    for name, found in in_turn(crews, plan.rounds * SHORT_TURNS, turn).items():
        figures: dict[str, Any] = {
            "us": round(min(found), 1),
            "median us": round(statistics.median(found), 1),
        }
        table.add(name, **figures)
    client.close()
    return table


def _usec(client: redis_py.Redis, crew: Crew) -> int:
    stats: Any = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{one}", {"usec": 0})["usec"] for one in SENT[crew.kind.name])


def _fairness(stage: Stage, plan: Plan) -> Table:
    """Measure how long the unluckiest waits, and how often the poorest gets it."""
    count = plan.processes(CONTENDERS)
    crews = stage.crews(*PEERS)
    for crew in crews:
        crew.muster(count)
    found = in_turn(
        crews, max(1, plan.rounds // 2), lambda crew: crew.contend(count, plan.seconds(FOR_S), HOLD_S)
    )
    title = f"Redis: {CONTENDERS} contenders, each holds {HOLD_S * 1000:g} ms for {FOR_S:g} s"
    table = Table("redis-fairness", title)
    for crew in crews:
        table.add(crew.kind.name, **fairness(found[crew.kind.name]))
    table.notes.append(
        "“Fair”: how long a wait is if all take turns, from the number of grants. “Poorest/richest”: the "
        "contender with the fewest grants against the one with the most."
    )
    return table


def _ends(stage: Stage, plan: Plan) -> Table:
    """Measure how late a lock is granted whose holder crashed, or is another program's."""
    table = Table("redis-ends", "Redis: until ours is granted what was another's")
    client, names = _client(stage), itertools.count()
    url = stage.server("redis").url("bench")
    crashes = [_crash(client, url, f"crash-{next(names)}") for _ in range(plan.count(CRASHES))]
    strangers = [_stranger(client, url, f"stranger-{next(names)}") for _ in range(plan.count(STRANGERS))]
    client.close()
    _add(table, "crash", "after the deadline of a holder that was killed", crashes)
    _add(table, "stranger", "after another program deleted its SET NX key", strangers)
    return table


def _add(table: Table, who: str, label: str, late_ns: list[int]) -> None:
    sample: Summary | None = summary(late_ns)
    table.add(who, sample, label=label, **{"worst us": round(max(late_ns) / 1000)})


def _crash(client: redis_py.Redis, url: str, name: str) -> int:
    holder = Process([sys.executable, "-m", "bench.holder", url, name, str(CRASH_SESSION_S)])
    assert holder.next_line(PATIENCE_S) == "held"
    with _Waiter(url, name) as waiter:
        holder.kill()
        deadline_ms: Any = client.pexpiretime(f"bench:{name}")
        return waiter.got() - int(deadline_ms) * 1_000_000


def _stranger(client: redis_py.Redis, url: str, name: str) -> int:
    key = f"bench:{name}"
    assert client.set(key, "another", nx=True, px=60_000)
    with _Waiter(url, name) as waiter:
        assert eventually(lambda: client.exists(f"{{{key}}}:queue"), PATIENCE_S)
        time.sleep(STRANGER_HOLDS_S)  # as long as it takes to follow the key, and quiet as in a hand-over
        released = time.time_ns()
        client.delete(key)
        return waiter.got() - released


class _Waiter:
    """A client of ours in a thread, which stands in the queue when the block begins."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self._queued = threading.Event()
        self._got: list[int] = []
        self._thread = threading.Thread(target=self._wait)

    def __enter__(self) -> Self:
        deaf = subscribe(self._told)
        self._thread.start()
        assert self._queued.wait(PATIENCE_S)
        deaf()
        return self

    def _told(self, transition: Transition) -> None:
        if transition.event == "lock.queued":
            self._queued.set()

    def _wait(self) -> None:
        with recipes.connect(self._url, session_timeout=10) as client, client.lock(self._name):
            self._got.append(time.time_ns())

    def got(self) -> int:
        """Return when it was granted, by the wall clock, which is the server's too."""
        self._thread.join(PATIENCE_S)
        (instant,) = self._got
        return instant

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)


def _client(stage: Stage) -> redis_py.Redis:
    import redis as redis_py

    server = stage.server("redis")
    return redis_py.Redis(server.host, server.port)
