"""What is special to SQL databases: a lock that is a part of your own transaction, and a guard for it.

::

    with engine.begin() as connection:
        recipes.sql.locked(connection, "reports/nightly")
        connection.execute(...)     # until the transaction ends, nobody else has that lock
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from recipes._contract.deadline import duration
from recipes._programs.hold import SHARED
from recipes.stores._kit.queue import target_of
from recipes.stores.sql import SqlBackend
from recipes.stores.sql.handed import run_awaited, run_blocking
from recipes.stores.sql.inside import Standing, guarding, locking, row_of
from recipes.stores.sql.inside import schema as _schema
from recipes.stores.sql.tables import PREFIX, tables_of

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from recipes.grant import AsyncGrant, Grant

__all__ = ["guard", "guard_async", "locked", "locked_async", "schema"]


def locked(
    connection: Any, name: str, *, timeout: float | None = None, nowait: bool = False, tables: str = PREFIX
) -> int:
    """Lock a name in the transaction that is open, or begins with this; held until that ends.

    On PostgreSQL a rollback to a savepoint that is older frees it: take it outside of nested blocks.

    Nothing but the database holds it: there is no session, no lease and no clock. It is the row of that name
    in the table ``<tables>named``, so a commit, a rollback and the end of the connection free it, and a
    program in another language locks it by ``SELECT ... FOR UPDATE``. Waiters are in no order.
    It is another lock than ``client.lock(name)``.

    Read what you decide by *after* this call: what an ORM has loaded before is out of date.

    On Galera, and in a MySQL group of which every server takes writes, a row is locked on one server only:
    of two transactions on two servers the later one fails as it commits. Have all of them use one server.

    Args:
        connection: A ``Connection`` or ``Session`` of SQLAlchemy, ``django.db.connection`` in ``atomic``, or
            a connection of psycopg, psycopg2, PyMySQL or mysqlclient. For asyncio there is `locked_async`.
        name: As the name of any lock.
        timeout: Seconds to wait; MySQL counts whole ones, and MariaDB by its wall clock: where that is set
            ahead, the wait ends early. None: as long as the connection's own settings allow
            (``lock_timeout``, ``innodb_lock_wait_timeout``).
        nowait: Do not wait; the same as ``timeout=0``. MySQL waits for up to a second, unless the transaction
            is READ COMMITTED: elsewhere two that look for names that are new are a deadlock.
        tables: What the names of the tables begin with.

    Returns:
        The fencing token: larger than that of every transaction that locked the name before and was
        committed. It is counted in this transaction, and is gone with it if that is rolled back.

    Raises:
        LockTimeout: It was not to be had in time. The transaction can go on.
        StoreRefused: The connection commits each statement by itself (autocommit), no block of ``atomic`` is
            open, or the tables are missing. On MySQL and MariaDB also: the transaction is REPEATABLE READ and
            has begun.
        ValueError: A bad name or timeout, or another database.
        TypeError: It is no such connection, or one for asyncio.
        Exception: What the database has to say. Under REPEATABLE READ and SERIALIZABLE PostgreSQL refuses
            what has changed since the transaction began (SQLSTATE 40001): try the transaction again. Where
            ``innodb_rollback_on_timeout`` is on, MySQL and MariaDB undo the whole transaction as a wait takes
            too long (error 1205), with all locks it had: try it again from its beginning.
    """
    token: int = run_blocking(connection, tables, _locking(name, timeout, nowait, tables))
    return token


async def locked_async(
    connection: Any, name: str, *, timeout: float | None = None, nowait: bool = False, tables: str = PREFIX
) -> int:
    """Same as `locked`, but awaits.

    Args:
        connection: An ``AsyncConnection`` or ``AsyncSession`` of SQLAlchemy, or a connection of psycopg
            (``AsyncConnection``), asyncpg, aiomysql or asyncmy.
        name: As the name of any lock.
        timeout: Seconds to wait.
        nowait: Do not wait.
        tables: What the names of the tables begin with.
    """
    token: int = await run_awaited(connection, tables, _locking(name, timeout, nowait, tables))
    return token


def guard(connection: Any, grant: Grant | AsyncGrant) -> None:
    """Have the open transaction commit only if a grant stands until then; else raise.

    For a client on the same database (``postgresql://``, ``mysql://``). The database looks, by its own clock,
    whether the grant's contender stands and its session lives, and keeps the contender where it is until
    the transaction ends: no later holder is granted before. So the resource needs no column for a token.
    On PostgreSQL a transaction that is REPEATABLE READ or SERIALIZABLE has to begin after the grant was
    acquired: it does not see a later one. There, and where it is SERIALIZABLE on MySQL, only the contender
    counts; the session is not looked at.

    On PostgreSQL a rollback to a savepoint that is older ends the guard as well.

    Commit before you release the grant: a release waits for the transaction.

    Args:
        connection: As `locked` takes it.
        grant: A grant of that database: of a lock, or of any other recipe.

    Raises:
        LockLost: It does not stand, or was exclusive when this guard was made, and is shared now; nothing was
            written by this call, so roll back.
        StoreRefused: As `locked` raises it: on MySQL with REPEATABLE READ it has to be the first statement.
        ValueError: The connection is to another database.
        TypeError: The grant is of another store, or of a multi-lock; it is no such connection.
    """
    standing = _standing(grant)
    run_blocking(connection, standing.tables, partial(guarding, grant=standing))


async def guard_async(connection: Any, grant: Grant | AsyncGrant) -> None:
    """Same as `guard`, but awaits.

    Args:
        connection: As `locked_async` takes it.
        grant: A grant of that database: of a lock, or of any other recipe.
    """
    standing = _standing(grant)
    await run_awaited(connection, standing.tables, partial(guarding, grant=standing))


def schema(dialect: str, tables: str = PREFIX, layout: str | None = None) -> list[str]:
    """Return the statements that make the tables, for a migration of yours.

    Args:
        dialect: "postgresql", "mysql" or "mariadb".
        tables: What the names of the tables begin with.
        layout: As `connect` takes it: "shedlock", for the tables that it needs, ShedLock's too.

    Raises:
        ValueError: There is no such dialect or layout, or no tables can be called that.
    """
    return _schema(dialect, tables, layout)


def _locking(name: str, timeout: float | None, nowait: bool, tables: str) -> Any:
    """Return what is to be done, checked; no I/O."""
    row_of(name)
    if nowait and timeout:
        raise ValueError(f"timeout={timeout!r} and nowait=True say two things: give one of them")
    tables_of(tables)
    return partial(locking, name=name, timeout_s=0.0 if nowait else duration("timeout", timeout))


def _standing(grant: Grant | AsyncGrant) -> Standing:
    """Return what the database is to look for; no I/O."""
    hold: HeldState = grant._hold  # noqa: SLF001 - the two are one package
    if hold not in hold.parts:
        raise TypeError("a multi-lock's grant is of several contenders: guard each grant[lock]")
    backend = grant._runtime.backend  # noqa: SLF001
    if not isinstance(backend, SqlBackend):
        raise TypeError(f"this grant is of {hold.labels['store']}; this guard takes one of a SQL database")
    if backend.given.layout:
        raise TypeError("a grant of layout='shedlock' has no row that could be guarded: pass its token on")
    hold.guard()
    grant.check()
    queue, token = target_of(hold.entry.ref)
    return Standing(
        store=backend.dialect,
        tables=backend.given.tables,
        queue=f"{backend.given.root}:{queue}",
        token=token,
        session=hold.session.id,
        name=hold.labels["name"],
        recipe=hold.labels["recipe"],
        shared=hold.mode == SHARED,
    )
