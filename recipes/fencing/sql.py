"""A gate for what a SQL database holds: one more statement in the transaction that writes."""

from __future__ import annotations

from typing import Any

from recipes._rules.fence import Proof, ask
from recipes.fencing import statements
from recipes.fencing.connections import Target, rows_of, text_of

__all__ = ["AsyncSqlGate", "SqlGate"]


class _BaseSqlGate:
    """What both APIs share."""

    def __init__(self, table: str = "fences", *, paramstyle: str | None = None) -> None:
        """Name the table; no I/O.

        Args:
            table: The table that `ddl` makes, with its schema if need be: ``app.fences``.
            paramstyle: How the driver marks parameters, one of the five of DB-API; needed only
                where it cannot be seen from the cursor, behind a wrapper.

        Raises:
            ValueError: The table's name is no plain identifier, or nobody knows the style.
        """
        self.table = statements.checked_table(table)
        self._paramstyle = statements.checked_style(paramstyle)

    def ddl(self) -> str:
        """Return the ``CREATE TABLE`` of the gate's table, for a migration of yours."""
        return statements.ddl(self.table)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in table {self.table}>"


class SqlGate(_BaseSqlGate):
    """A gate in a table of a database, for what the same database holds.

    Through any DB-API driver whose ``rowcount`` counts the rows that matched (on MySQL that
    takes the client flag ``FOUND_ROWS``), and through SQLAlchemy. One table serves many
    resources, and one gate many connections and threads.
    """

    def admit(self, connection: Any, resource: str, grant: Proof, *, shared: bool = False) -> None:
        """Let the transaction that is open, or begins with this, go on; else raise.

        Call it first in the transaction, and end that in any way: what it remembers is
        committed, or rolled back, with your writes. Until then other holders' transactions
        wait at this line.

        Args:
            connection: A DB-API connection or cursor, a SQLAlchemy ``Connection`` or ``Session``
                (of an async one: `AsyncSqlGate`).
            resource: The name of what is written or read, up to 255 characters.
            grant: A grant, or a token.
            shared: As a reader: the transaction writes nothing else.

        Raises:
            StaleToken: A later holder was there before: roll back.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad name or token; the connection
                commits each statement by itself (autocommit), which would protect nothing.
            Exception: What the database has to say: no such table, a conflict of isolated
                transactions (as always: try the transaction again), a lock that timed out.
        """
        program = statements.admission(self.table, ask(resource, grant, shared=shared))
        target = Target.of(connection, self._paramstyle, awaited=False)
        answer: Any = None
        while (statement := statements.step(program, answer)) is not None:
            returned = target.run(*text_of(statement, target.style))
            result = returned if target.alchemy else target.inner
            target.check_transaction()
            answer = rows_of(result.fetchone()) if statement.reads else result.rowcount


class AsyncSqlGate(_BaseSqlGate):
    """Same as `SqlGate`, but awaits: for ``psycopg.AsyncConnection``, ``AsyncSession`` and their like."""

    async def admit(self, connection: Any, resource: str, grant: Proof, *, shared: bool = False) -> None:
        """Same as `SqlGate.admit`, but awaits.

        Args:
            connection: An asynchronous connection or cursor in the manner of DB-API, or an
                ``AsyncConnection`` or ``AsyncSession`` of SQLAlchemy.
            resource: The name of what is written or read, up to 255 characters.
            grant: A grant, or a token.
            shared: As a reader: the transaction writes nothing else.
        """
        program = statements.admission(self.table, ask(resource, grant, shared=shared))
        target = Target.of(connection, self._paramstyle, awaited=True)
        if target.alchemy:  # which has a bridge of its own
            await target.inner.run_sync(SqlGate(self.table).admit, resource, grant, shared=shared)
            return
        answer: Any = None
        while (statement := statements.step(program, answer)) is not None:
            await target.run(*text_of(statement, target.style))
            target.check_transaction()
            cursor = target.inner
            answer = rows_of(await cursor.fetchone()) if statement.reads else cursor.rowcount
