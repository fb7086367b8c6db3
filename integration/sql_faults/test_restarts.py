"""Databases that end, stand still, or are followed by another one while locks are held."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy

import recipes
from integration import servers
from integration.faults.actors import APIS, Actor, Held
from integration.faults.labs import LASTING_S
from integration.faults.looking import hold_fault
from integration.faults.seen import Seen
from integration.faults.workers import Worker
from integration.harness.mysql import OWN_UUID
from integration.needing import needed
from integration.proxy import Proxy
from integration.sql_faults.conftest import GRACE_S, PATIENT, REQUEST_S, SESSION_S, SOON_S, Lab
from recipes._run.clock import boot_time
from tests.pace import Pace, taking

pytestmark = pytest.mark.long

LONG_S = PATIENT["session_timeout"]
POOLED = 12
DEFAULTS = {"restart_grace": None, "tables": None}
"""What a worker has, in a process of its own."""
Lose = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_fault_10_the_server_ends_while_one_holds_and_others_wait(lab: Lab, how: str) -> None:
    """What was granted is still granted, the queue is what it was, and goes on."""
    held = lab.client(**PATIENT).acquire(lab.name)
    waiting = []
    for number in (1, 2):
        waiting.append(lab.client(**PATIENT).start_acquire(lab.name))
        assert lab.contenders_become(1 + number, LONG_S)
    before = lab.contenders(LONG_S)
    getattr(lab.server, how)()
    hold_fault(0.3)
    lab.server.start()
    assert lab.contenders(LONG_S) == before
    assert held.verify()
    assert held.held
    assert not any(one.done() for one in waiting)
    tokens = [held.token]
    for one in waiting:
        assert held.release()
        held = one.result(SOON_S)
        tokens.append(held.token)
    assert tokens == sorted(set(tokens))
    assert tokens == [int(one.rpartition("/")[2]) for one in before]


def test_fault_10_all_connections_of_the_engine_of_a_user_have_ended(lab: Lab, prefix: str) -> None:
    """The first that is found to have ended says so of all: they are not tried one after the other."""
    engine = lab.engine(pool_size=POOLED, max_overflow=0)
    one = lab.client(engine, **PATIENT)
    held = one.acquire(lab.name)
    connect_all(one, engine)
    lab.server.restart()
    with Seen(of=prefix) as seen:
        assert held.verify()
        assert len(seen.of("store.retry")) < POOLED / 2
    assert held.held


def connect_all(one: Actor, engine: Any) -> None:
    """Have all connections of its pool made, and returned."""

    async def connect() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(POOLED - engine.pool.checkedout()):
                await stack.enter_async_context(engine.connect())

    if isinstance(engine, sqlalchemy.Engine):
        with contextlib.ExitStack() as stack:
            for _ in range(POOLED - engine.pool.checkedout()):  # type: ignore[attr-defined]
                stack.enter_context(engine.connect())
    else:
        one.call(connect)


@pytest.fixture(params=["postgres", "pgbouncer", "mariadb"])
def falling(request: pytest.FixtureRequest, prefix: str) -> Iterator[Callable[[str], tuple[Lab, Lose]]]:
    """Yield what starts a database for an API, and the fall: what is done last is lost with the server.

    PostgreSQL has an asynchronous standby; behind a PgBouncer the connections of clients outlive the fall.
    What follows on a MariaDB is a copy that is older, at its address: as with a replica that is behind.
    """
    with contextlib.ExitStack() as stack:

        def postgres(api: str) -> tuple[Lab, Lose]:
            pair = stack.enter_context(servers.postgres_pair(keeps=True))
            lab = Lab(pair, api, prefix)
            stack.callback(lab.close)

            def lose(last: Callable[[], object]) -> None:
                pair.fail_over(meanwhile=last)

            return lab, lose

        def pgbouncer(api: str) -> tuple[Lab, Lose]:
            pair = stack.enter_context(servers.postgres_pair(keeps=True))
            pooled = stack.enter_context(servers.pgbouncer(pair.current))
            lab = Lab(pair, api, prefix)
            lab.url = pooled.url(prefix)
            stack.callback(lab.close)

            def lose(last: Callable[[], object]) -> None:
                def meanwhile() -> None:
                    last()
                    pooled.hold()

                pair.fail_over(meanwhile=meanwhile)
                pooled.lead_to(pair.current)

            return lab, lose

        def mariadb(api: str) -> tuple[Lab, Lose]:
            first, second = (servers.mariadb(keeps=True) for _ in range(2))
            for one in (first, second):
                stack.callback(one.close)
            proxy = stack.enter_context(Proxy.of(first.start()))
            lab = Lab(first, api, prefix)
            lab.url = proxy.url(prefix)
            stack.callback(lab.close)

            def lose(last: Callable[[], object]) -> None:
                first.pause()
                subprocess.run(["cp", "-a", first.data, second.data], check=True, timeout=60)
                (second.data / OWN_UUID).unlink(missing_ok=True)
                first.resume()
                last()
                first.kill()
                second.start()
                proxy.lead_to(second)

            return lab, lose

        start = {"postgres": postgres, "pgbouncer": pgbouncer, "mariadb": mariadb}[request.param]
        yield lambda api: needed(request.param, lambda: start(api))


@pytest.mark.parametrize("api", APIS)
def test_fault_47_a_server_takes_over_that_lacks_the_last_commits(
    falling: Callable[[str], tuple[Lab, Lose]], api: str, prefix: str
) -> None:
    """Nothing is granted for ``restart_grace``; by then who held knows that it does no more."""
    lab, lose = falling(api)
    holder, known = lab.client(), lab.client()
    before = known.acquire("before")
    before.release()
    held: list[Held] = []
    written_at: list[float] = []

    def last() -> None:
        held.append(holder.acquire(lab.name))
        written_at.append(boot_time())

    lose(last)
    (lost,) = held
    lost_at: list[float] = []
    lost.grant.lost.add_callback(lambda _: lost_at.append(boot_time()))
    with Seen(of=prefix) as seen:
        granted = known.acquire(lab.name, timeout=GRACE_S + SOON_S)
        granted_at = boot_time()
        assert any("restart_grace" in str(retry.reason) for retry in seen.of("store.retry"))
    assert not lost.held
    assert lost_at
    assert lost_at[0] < granted_at
    assert granted_at - written_at[0] > GRACE_S
    assert granted.token > lost.token > before.token
    assert granted.verify()
    again = known.acquire("before")
    assert again.token > before.token


@pytest.mark.parametrize("api", APIS)
def test_fault_47_without_a_grace_the_next_one_is_granted_at_once(
    falling: Callable[[str], tuple[Lab, Lose]], api: str
) -> None:
    """So that the label says it, and it is seen that the grace is what prevents it."""
    lab, lose = falling(api)
    options = {**PATIENT, "restart_grace": 0}
    holder, known = lab.client(**options), lab.client(**options)
    assert "second holder" in holder.client.guarantees.survives
    held: list[Held] = []
    lose(lambda: held.append(holder.acquire(lab.name)))
    (lost,) = held
    granted = known.acquire(lab.name, timeout=SOON_S)
    assert granted.token > lost.token
    assert lost.wait_lost(LONG_S)


def test_fault_04_the_server_stands_still_for_longer_than_a_request(lab: Lab) -> None:
    """Calls end in time, and what was held meanwhile is held."""
    one = lab.client(session_timeout=LONG_S)
    held = one.acquire(lab.name)
    lab.server.pause()
    with taking(REQUEST_S + 0.5), pytest.raises(recipes.StoreUnavailable):
        one.try_acquire("another")
    with taking(REQUEST_S + 0.5), pytest.raises(recipes.StoreUnavailable):
        held.verify()
    with taking(1.5 * REQUEST_S + 0.5), pytest.raises(recipes.LockTimeout):
        one.acquire("a third", timeout=1.5 * REQUEST_S)
    assert held.held
    lab.server.resume()
    assert held.verify()
    assert one.acquire("another", timeout=SOON_S).release()
    assert held.release()


def test_fault_04_the_server_stands_still_for_longer_than_a_session(lab: Lab) -> None:
    held = lab.client().acquire(lab.name)
    with Pace() as pace:
        lab.server.pause()
        began = boot_time()
        assert held.wait_lost(SOON_S)
        assert boot_time() - began < SESSION_S + 0.5 + pace.late_s(began)
    lab.server.resume()
    other = lab.client().acquire(lab.name, timeout=SOON_S)
    assert other.token > held.token
    assert not held.held


def test_fault_02_a_client_stands_still_for_longer_than_its_session(lab: Lab) -> None:
    """It knows as it goes on, before it asks anything; the next one holds meanwhile."""
    with Worker("faults.worker", lab.api, lab.url, SESSION_S) as worker:
        token = worker.ask("acquire", lab.name, 20)
        worker.stop()
        lasting = lab.client(session_timeout=LASTING_S, **DEFAULTS)  # it holds until the worker has answered
        other = lasting.acquire(lab.name, timeout=SOON_S)
        assert other.token > token
        worker.go_on()
        assert worker.ask("continued")["held"] is False
        assert worker.ask("release") is False
    assert other.verify()
    assert other.release()
