"""What is deleted of sessions that were over long ago: all that is theirs."""

from __future__ import annotations

import recipes
from integration import servers
from integration.sql.conftest import Connect

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
