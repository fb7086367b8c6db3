"""PostgreSQL notes whom to notify of a contender only while that stands, and of the token that it has."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy

from integration import servers
from integration.sql.places import make_tables
from integration.stores import engine_of
from recipes._contract.operations import Snapshot, Ticket
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.carrying import carry_out
from recipes.stores.sql.requests import Act, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables

QUEUE = "nightly"


class Sessions:
    """Two sessions on one database: of one that is first, and of one that waits."""

    def __init__(self, database: servers.Postgres, prefix: str) -> None:
        self.tables, self.engine = Tables(prefix), engine_of(database)
        say = Statements(self.tables, "postgresql")
        self.first, self.next = (Acts(say, "app", "bell_", one) for one in ("first", "next"))
        for one in (self.first, self.next):
            self.run(partial(one.open, ttl_us=60_000_000))

    def run(self, act: Act[Any]) -> Any:
        """Carry out an act, in a transaction of its own."""
        with self.engine.connect() as connection:
            return carry_out(connection, act, Work())

    def join(self, acts: Acts, one: str, arm: int = 0) -> Snapshot:
        """Have a contender join the queue."""
        ticket = Ticket(QUEUE, "lock", one)
        found: Snapshot = self.run(partial(acts.join, ticket=ticket, rule=EXCLUSIVE, arm=arm))
        return found

    def watched(self) -> list[int]:
        """Return the tokens that anybody is notified of."""
        with self.engine.connect() as connection:
            found = connection.execute(sqlalchemy.select(self.tables.watch.c.token))
            return [token for (token,) in found]

    def rung(self, act: Act[Any]) -> list[str]:
        """Carry out an act, and return what the session that waits is notified of."""
        with contextlib.closing(self.engine.raw_connection()) as lent:
            ears: Any = lent.driver_connection
            ears.autocommit = True
            ears.execute(f'LISTEN "{self.next.channel}"')
            self.run(act)
            return [one.payload for one in ears.notifies(timeout=30, stop_after=1)]


@pytest.fixture
def sessions(postgres: servers.Postgres) -> Iterator[Sessions]:
    postgres.resume()
    postgres.start()
    prefix = f"t{secrets.token_hex(5)}_"
    make_tables(postgres.url(), prefix)
    one = Sessions(postgres, prefix)
    yield one
    one.engine.dispose()


@pytest.mark.parametrize("gone", [False, True])
def test_what_has_gone_is_watched_by_nobody(sessions: Sessions, gone: bool) -> None:
    """It went between what showed it and the look; such a row would stay as long as the session."""
    first = sessions.join(sessions.first, "a").mine
    waits = sessions.join(sessions.next, "b")
    assert first is not None
    assert waits.mine is not None
    if gone:
        sessions.run(partial(sessions.first.remove, queue=QUEUE, one="a", token=first.token, bury=False))
    sessions.run(partial(sessions.next.look, mine=waits.mine, rule=EXCLUSIVE, targets=waits.ahead))
    present = partial(sessions.next.present, mine=waits.mine, targets=waits.ahead, watch=True)
    stands, found = sessions.run(present)
    assert stands
    assert found == ([] if gone else [one.ref for one in waits.ahead])
    assert sessions.watched() == ([] if gone else [first.token])


@pytest.mark.parametrize("known", [True, False])
def test_a_withdrawal_rings_for_the_token_that_stands(sessions: Sessions, known: bool) -> None:
    """After a failover a late copy of the join may have made it, which drew another token."""
    first = sessions.join(sessions.first, "a").mine
    assert first is not None
    sessions.join(sessions.next, "b", arm=1)
    token = first.token if known else first.token - 1
    withdraw = partial(sessions.first.remove, queue=QUEUE, one="a", token=token, bury=True)
    assert sessions.rung(withdraw) == [f"gapp:{first.ref}"]
    assert sessions.watched() == []
