"""PostgreSQL's queue of notifications is full: a session that listens does not end its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from integration.needing import needed

SINCE, SMALL = 17, {"max_notify_queue_pages": "64"}
"""Since which version its size can be set; else it is 8 GB."""
SESSION_S, SOON_S = 3.0, 60.0


@pytest.fixture
def full(postgres: servers.Postgres) -> Iterator[tuple[servers.Postgres, psycopg.Connection[Any]]]:
    """Yield a server that can soon notify nobody, and the connection that keeps it from that."""
    version = postgres.version()
    if int(version.partition(".")[0]) < SINCE:
        pytest.skip(f"NOT TESTED, for want of a PostgreSQL {SINCE}: that of {version} cannot be made small")
    small = needed("postgres", lambda: servers.postgres(settings=SMALL))
    with small as server, server.connect() as listening:
        listening.execute("LISTEN large")
        listening.execute("BEGIN")
        listening.execute("SELECT 1")
        yield server, listening


def fill(server: servers.Postgres) -> None:
    """Notify until nothing can be notified any more."""
    large = "SELECT pg_notify('large', number || repeat('x', 7000)) FROM generate_series(1, 20) AS number"
    with server.connect() as connection:
        for _ in range(100):
            try:
                connection.execute(large)
            except psycopg.errors.ProgramLimitExceeded:
                return
    raise AssertionError("the queue should be full")


def test_sessions_live_and_locks_are_handed_on(
    full: tuple[servers.Postgres, psycopg.Connection[Any]],
) -> None:
    server, listening = full
    options: dict[str, Any] = {"session_timeout": SESSION_S, "create_tables": True}
    with recipes.connect(server.url(), **options) as holder, ThreadPoolExecutor() as pool:
        lock = holder.lock("x")
        held = lock.acquire(timeout=SOON_S)
        fill(server)
        with recipes.connect(server.url(), **options) as waiter:
            waiting = pool.submit(waiter.lock("x").acquire, timeout=SOON_S)
            assert eventually(lambda: len(lock.waiters()) == 1, SOON_S)
            later_us = server.one("SELECT max(expires_at) FROM recipes_session") + 2 * SESSION_S * 1e6
            renewed = "SELECT min(expires_at) FROM recipes_session"
            assert eventually(lambda: server.one(renewed) > later_us, SOON_S)
            assert held.verify()
            assert held.release()
            granted = waiting.result(SOON_S)
            listening.execute("ROLLBACK")  # and what is notified arrives again
            assert granted.token > held.token
            assert granted.release()
            assert lock.acquire(timeout=SOON_S).release()
