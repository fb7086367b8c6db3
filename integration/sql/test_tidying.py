"""What is deleted of sessions that were over long ago: all that is theirs."""

from __future__ import annotations

import asyncio

import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from integration.sql.conftest import Connect
from recipes.stores.sql import protocol
from recipes.stores.sql.acts import NAMES_AT_ONCE

Database = servers.Postgres | servers.MariaDb


def test_a_client_that_opens_deletes_all_of_a_session_that_was_over_long_ago(
    database: Database, tables: str, connect: Connect
) -> None:
    rows = {
        "session": ("id", "('long-dead', 1, 1), ('alive', 1, 9000000000000000)"),
        "receipt": ("session", "('long-dead', 'v', 1, ''), ('alive', 'v', 1, '')"),
        "contender": ("session", "('q', 1, 'one', 'W', 'long-dead', '', '', '', 0)"),
    }
    if database.scheme == "postgresql":
        rows["watch"] = ("session", "('never-changes', 0, 'long-dead'), ('never-changes', 0, 'alive')")
    connection = connect()
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO {tables}queue VALUES ('q', 1)")
    for table, (_, given) in rows.items():
        cursor.execute(f"INSERT INTO {tables}{table} VALUES {given}")
    connection.commit()
    with recipes.connect(database.url(), tables=tables) as client:
        client.open()
        client.lock("x").acquire(timeout=20).release()
    left: dict[str, set[str]] = {}
    for table, (session, _) in rows.items():
        cursor.execute(f"SELECT {session} FROM {tables}{table}")
        left[table] = {one for (one,) in cursor.fetchall()}
    assert left == {table: set() if table == "contender" else {"alive"} for table in rows}


def test_idle_queues_are_deleted_while_contenders_are_locked(
    database: Database, tables: str, connect: Connect
) -> None:
    """As by one that leaves. MySQL locks what a DELETE reads of other tables, and may read them whole."""
    leaving = connect()
    cursor = leaving.cursor()
    queues = [(f"old-{number}", 1) for number in range(NAMES_AT_ONCE)]
    cursor.executemany(f"INSERT INTO {tables}queue VALUES (%s, %s)", queues)
    cursor.execute(f"INSERT INTO {tables}contender VALUES ('q', 1, 'one', 'W', 'other', '', '', '', 0)")
    leaving.commit()
    cursor.execute(f"DELETE FROM {tables}contender")
    looking = connect(autocommit=True).cursor()

    def left() -> int:
        looking.execute(f"SELECT count(*) FROM {tables}queue WHERE name >= 'old-' AND name < 'old.'")
        ((count,),) = looking.fetchall()
        return int(count)

    with recipes.connect(database.url(), tables=tables) as client:
        client.open()
        assert eventually(lambda: left() == 0, 60.0)
    leaving.rollback()


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_a_client_that_stays_open_deletes_what_is_over_since(
    database: Database, tables: str, connect: Connect, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on at its next renewal while there is much of it: these are more than one pass deletes."""
    monkeypatch.setattr(protocol, "TIDY_EVERY_S", 4.0)  # at each third renewal of such a session
    connection = connect()
    cursor = connection.cursor()

    def left() -> int:
        cursor.execute(f"SELECT count(*) FROM {tables}buried")
        ((count,),) = cursor.fetchall()
        connection.commit()
        return int(count)

    def over() -> None:
        cursor.executemany(
            f"INSERT INTO {tables}buried VALUES (%s, 1)",
            [(f"x{number}",) for number in range(2 * NAMES_AT_ONCE)],
        )
        connection.commit()
        assert eventually(lambda: left() == 0, 60.0)

    async def main() -> None:
        async with recipes.connect_async(database.url(), tables=tables, session_timeout=4.0) as client:
            await client.open()
            await asyncio.to_thread(over)

    if api == "asyncio":
        asyncio.run(main())
        return
    with recipes.connect(database.url(), tables=tables, session_timeout=4.0) as client:
        client.open()
        over()


def test_a_session_deletes_its_own_receipts_after_an_hour(
    database: Database, tables: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "TIDY_EVERY_S", 4.0)
    connection = connect()
    cursor = connection.cursor()

    def there() -> set[str]:
        cursor.execute(f"SELECT name FROM {tables}receipt")
        found = {name.rpartition("/")[2] for (name,) in cursor.fetchall()}
        connection.commit()
        return found

    with recipes.connect(database.url(), tables=tables, session_timeout=4.0) as client:
        values = {name: client.value(name) for name in ("old", "fresh")}
        for value in values.values():
            value.set(b"1")
        assert there() == {"old", "fresh"}
        cursor.execute(f"UPDATE {tables}receipt SET version = version - 3601000000 WHERE name LIKE '%%/old'")
        connection.commit()
        assert eventually(lambda: there() == {"fresh"}, 60.0)
        for value in values.values():
            value.set(b"2")
            assert value.get().data == b"2"
        assert there() == {"old", "fresh"}
