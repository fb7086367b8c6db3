"""What is noted of the server that grants: which one it is, and since when."""

from __future__ import annotations

import pytest

import recipes
from integration import servers
from integration.sql.conftest import Connect

Database = servers.Postgres | servers.MariaDb
GRACE_S = 15.0


def test_a_mariadb_that_takes_over_again_grants_nothing_for_a_while(
    database: Database, tables: str, connect: Connect
) -> None:
    """Another was the primary meanwhile, and no connection has ended: here only the note says so."""
    if database.scheme == "postgresql":
        pytest.skip("a PostgreSQL is started again before it takes over again")
    connection = connect()
    cursor = connection.cursor()
    noted = f"SELECT life FROM {tables}server"
    with recipes.connect(database.url(), tables=tables, restart_grace=GRACE_S) as client:
        client.lock("x").acquire(timeout=20).release()
        cursor.execute(noted)
        before = cursor.fetchall()
        cursor.execute(f"UPDATE {tables}server SET life = 'another'")
        connection.commit()
        with pytest.raises(recipes.StoreUnavailable, match="restart_grace"):
            client.lock("x").try_acquire()
        cursor.execute(noted)
        assert cursor.fetchall() == before
