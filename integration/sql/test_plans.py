"""No statement of a hand-over, or of a renewal, reads a whole table or a whole index, however many wait."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import insert, text

from integration import servers
from integration.stores import engine_of
from recipes._contract.operations import Ticket
from recipes._contract.rule import Rule
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.permits import permits
from recipes._rules.readwrite import SHARED
from recipes.stores.sql import carrying
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.carrying import carry_out, said
from recipes.stores.sql.requests import Act, Ask, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables
from recipes.stores.sql.texts import Said

ROOT, QUEUE = "plans", "nightly"
WAITERS, OTHERS, PROCESSES = 200, 1800, 4
FAR_US = 2**60
ME, DEAD = "me", "dead"


class Planned:
    """Acts of one session in tables with many rows, and how the server carries out their statements.

    Attributes:
        seen: The statements so far.
        scans: Those that read all of a table or an index.
    """

    def __init__(self, database: servers.Postgres | servers.MariaDb, prefix: str) -> None:
        self.tables = Tables(prefix)
        self.engine = engine_of(database)
        self.acts = Acts(Statements(self.tables, self.engine.dialect.name), ROOT, "bell_", ME)
        self.seen: list[str] = []
        self.scans: list[tuple[str, object]] = []
        self._scanned = _of_postgresql if self.engine.dialect.name == "postgresql" else _of_mariadb
        self._fill()

    def _fill(self) -> None:
        tables, key = self.tables, f"{ROOT}:{QUEUE}"
        queues = [key, *(f"{ROOT}:{number}" for number in range(OTHERS))]
        sessions = [ME, DEAD, *(f"s{number}" for number in range(WAITERS + OTHERS))]
        rows: dict[Any, list[dict[str, Any]]] = {
            tables.session: [
                {"id": one, "ttl_us": 1, "expires_at": 1 if one == DEAD else FAR_US} for one in sessions
            ],
            tables.contender: [
                *(_contender(key, 10 + number, f"s{number % PROCESSES}") for number in range(WAITERS)),
                *(_contender(f"{ROOT}:{number}", 1, f"s{number}") for number in range(OTHERS)),
            ],
            tables.queue: [{"name": name, "token": 10 + WAITERS} for name in queues],
            tables.buried: [{"id": f"b{number}", "until_us": FAR_US} for number in range(OTHERS)],
        }
        if tables.watch in tables.of(self.engine.dialect.name):
            rows[tables.watch] = [
                {name: row[name] for name in ("queue", "token", "session")} for row in rows[tables.contender]
            ]
        with self.engine.begin() as connection:
            for table, given in rows.items():
                connection.execute(insert(table), given)
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in rows:
                word = "ANALYZE" if self._scanned is _of_postgresql else "ANALYZE TABLE"
                connection.execute(text(f"{word} {table.name}"))

    def ahead_of_all(self, token: int, session: str) -> str:
        """Have a contender of a session stand ahead of those that wait; return its id."""
        row = _contender(f"{ROOT}:{QUEUE}", token, session)
        with self.engine.begin() as connection:
            connection.execute(insert(self.tables.contender), [row])
        return str(row["id"])

    def run(self, act: Act[Any]) -> Any:
        """Carry out an act, with the plan of each of its statements."""
        with self.engine.connect() as connection, pytest.MonkeyPatch.context() as patched:
            patched.setattr(carrying, "said", self._explained)
            return carry_out(connection, act, Work())

    def _explained(self, connection: sqlalchemy.Connection, one: Said) -> Any:
        self.explain(connection.connection.cursor(), one)
        return said(connection, one)

    def explain(self, cursor: Any, one: Said) -> None:
        """Note a statement, and what it reads whole."""
        self.seen.append(one.text)
        self.scans += [(one.text, step) for step in self._scanned(cursor, one.text, one.values)]


def _contender(key: str, token: int, session: str) -> dict[str, Any]:
    row = {"queue": key, "token": token, "id": f"{key}-{token}", "kind": "lock", "session": session}
    return {**row, "mark": "", "owner": "", "data": b"", "version": 0}


def _of_postgresql(cursor: Any, statement: str, values: Any) -> Iterator[object]:
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
    ((found,),) = cursor.fetchall()
    steps = [one["Plan"] for one in (json.loads(found) if isinstance(found, str) else found)]
    while steps:
        step = steps.pop()
        steps += step.get("Plans", [])
        kind = step["Node Type"]
        by_index = "Index" in kind or kind == "CTE Scan"
        if kind == "Seq Scan" or (by_index and "Index Cond" not in step and kind != "CTE Scan"):
            yield step


def _of_mariadb(cursor: Any, statement: str, values: Any) -> Iterator[object]:
    cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {statement}", values)
    names = [one[0] for one in cursor.description]
    for row in cursor.fetchall():
        step = dict(zip(names, row, strict=True))
        if step["type"] in ("ALL", "index") and step["select_type"] != "INSERT":  # which reads nothing
            yield step


@pytest.fixture
def planned(database: servers.Postgres | servers.MariaDb, tables: str) -> Iterator[Planned]:
    one = Planned(database, tables)
    yield one
    one.engine.dispose()


def ticket(kind: str, one: str = "mine") -> Ticket:
    return Ticket(QUEUE, kind, one)


def test_a_table_that_is_read_whole_is_noticed(planned: Planned) -> None:
    whole = sqlalchemy.select(planned.tables.contender.c.id).where(planned.tables.contender.c.kind == "none")

    def act(_: Work) -> Generator[tuple[Ask, ...], Any, None]:
        yield (Ask(whole, {}),)

    planned.run(act)
    assert planned.scans


@pytest.mark.parametrize("rule", [EXCLUSIVE, SHARED, permits(2, 5)], ids=["lock", "reader", "permits"])
def test_who_comes_last_reads_no_table(planned: Planned, rule: Rule) -> None:
    mine = ticket(rule.kind)
    snapshot = planned.run(partial(planned.acts.join, ticket=mine, rule=rule, arm=1))
    assert snapshot.position >= WAITERS
    assert planned.run(partial(planned.acts.join, ticket=ticket(rule.kind, "b"), rule=rule, only_free=True))
    planned.run(partial(planned.acts.glance, mine=snapshot.mine, rule=rule))
    looked = planned.run(
        partial(planned.acts.look, mine=snapshot.mine, rule=rule, targets=snapshot.ahead[:1])
    )
    assert looked.position == snapshot.position
    present = partial(planned.acts.present, mine=snapshot.mine, targets=snapshot.ahead[:1], watch=True)
    assert planned.run(present)[0]
    assert planned.run(planned.acts.renew)
    gone = partial(planned.acts.remove, queue=QUEUE, one="mine", token=snapshot.mine.token, bury=True)
    assert planned.run(gone)
    assert planned.seen
    assert not planned.scans


def test_who_is_first_reads_no_table(planned: Planned) -> None:
    one = planned.ahead_of_all(1, ME)
    snapshot = planned.run(partial(planned.acts.join, ticket=ticket("lock", one), rule=EXCLUSIVE))
    assert snapshot.position == 0
    assert planned.run(partial(planned.acts.glance, mine=snapshot.mine, rule=EXCLUSIVE)).mine
    assert planned.run(partial(planned.acts.rewrite, entry=snapshot.mine, mark="", data=b"new", version=0))
    assert planned.run(partial(planned.acts.remove, queue=QUEUE, one=one, token=1, bury=False))
    assert planned.seen
    assert not planned.scans


def test_who_deletes_the_dead_reads_no_table(planned: Planned) -> None:
    one = planned.ahead_of_all(2, ME)
    planned.ahead_of_all(1, DEAD)
    snapshot = planned.run(partial(planned.acts.join, ticket=ticket("lock", one), rule=EXCLUSIVE))
    assert snapshot.position == 0
    assert any(statement.startswith("DELETE") for statement in planned.seen)
    assert not planned.scans
