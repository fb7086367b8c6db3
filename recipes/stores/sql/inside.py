"""What is said in a transaction of the user's: to lock a name, and to guard a grant. Pure generators.

They yield one statement at a time and are sent its rows. If it fails, that is thrown in as `Failed`, and
raised as the driver raised it if they let it out.

A lock has two hazards. The transaction must not end with the statement, or the lock does: a savepoint shows
that it does not. And it must not read what was there before it had the lock. PostgreSQL refuses by itself to
lock a row that has changed since a REPEATABLE READ began. MySQL does not, so there the lock has to come
first. Before a transaction begins its isolation can be set, even if to what it is; after that it cannot.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

from recipes._contract.contenders import DOWNGRADED
from recipes._contract.names import encode
from recipes._record import record
from recipes.errors import LockLost, LockTimeout, StoreRefused
from recipes.stores.sql.protocol_shedlock import shedlock_tables_of
from recipes.stores.sql.requests import Ask
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import PREFIX, tables_of
from recipes.stores.sql.texts import Said, Texts

__all__ = ["Failed", "Standing", "Words", "guarding", "locking", "row_of", "schema"]

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

MARIADB = "MariaDB"
"""What the version of such a server has in it."""
DIALECTS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
PLAIN = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""What is in the row of a name as it is, beside letters, digits and ``_.-~``."""
LONGEST_S = 31_536_000
LONGEST_MS = 2**31 - 1

NO_TRANSACTION = {"25P01", 1305}
UNDER_WAY = {1568}
MISSING = {"42P01", 1146}
LOCK_WAIT_TIMEOUT = 1205
WAITED = {"55P03", LOCK_WAIT_TIMEOUT, 3572}
STOPPED = {"57014", 1969}
GAPLESS = {"READ-COMMITTED", "READ-UNCOMMITTED"}
"""Where what reads to lock, and finds no row, locks nothing; else the gap: two of those are a deadlock."""
SERIALIZABLE = "SERIALIZABLE"

ALONE = (
    "this connection commits each statement by itself (autocommit), so nothing would be locked after this"
    " call: begin a transaction first"
)
NO_ATOMIC = "no transaction is open: call it in a block of django.db.transaction.atomic()"
TOO_LATE = (
    "the transaction has begun, and under REPEATABLE READ it reads what was there before the lock: make this"
    " its first statement, with no BEGIN before it, or use READ COMMITTED"
)
NO_TABLES = (
    "the tables are missing: make them as recipes.sql.schema() has them, or give tables= as they are called"
)
ELSEWHERE = "the grant is of another database than this connection, or of other tables= there"

GONE = "the database says that its contender is gone, or its session over"
SHARED = "it was downgraded"

SAVE, RELEASE, RETURN = (
    f"{what} recipes_here" for what in ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
)


class Failed(Exception):
    """A statement failed.

    Attributes:
        code: The SQLSTATE, or MySQL's number; None: the connection may be lost.
        error: What the driver raised.
    """

    def __init__(self, code: str | int | None, error: Exception) -> None:
        self.code, self.error = code, error


Steps = Generator[Said, Rows, T]


class Words:
    """The statements, as text for one driver.

    Args:
        prefix: What the names of the tables begin with.
        dialect: SQLAlchemy's, of the driver.
    """

    def __init__(self, prefix: str, dialect: Any) -> None:
        self.store = DIALECTS[dialect.name]
        self.asks = Statements.of(prefix, self.store)
        self._texts = Texts.of(dialect)

    @staticmethod
    @lru_cache(maxsize=32)
    def of(prefix: str, dialect: Any) -> Words:
        """Return the statements for one driver and prefix, compiled once."""
        if dialect.name not in DIALECTS:
            raise ValueError(f"this is for PostgreSQL, MySQL and MariaDB, and not for {dialect.name}")
        return Words(prefix, dialect)

    def __call__(self, ask: Ask) -> Said:
        """Return a statement with its values."""
        return self._texts(ask)

    def refused(self, why: str) -> StoreRefused:
        """Return the error for what cannot work on this connection."""
        return StoreRefused(self.store, why)


def schema(dialect: str, tables: str = PREFIX, layout: str | None = None) -> list[str]:
    """Return the statements that make the tables."""
    if dialect not in DIALECTS:
        raise ValueError(f"{dialect!r} is no dialect: use {', '.join(map(repr, DIALECTS))}")
    if layout not in (None, "shedlock"):
        raise ValueError(f"layout={layout!r}: use 'shedlock', or leave it out")
    made = shedlock_tables_of(tables) if layout else tables_of(tables)
    return list(made.ddl(DIALECTS[dialect]))


def row_of(name: str) -> str:
    """Return what the row of a name is called: the name, ``%XX`` for ``%``, a space and what is not ASCII.

    Raises:
        TypeError, ValueError: As every name that is none.
    """
    encode(name)
    return quote(name, safe=PLAIN)


def locking(words: Words, name: str, timeout_s: float | None) -> Steps[int]:
    """Lock a name, and count its token."""
    ways = {"postgresql": _lock_on_postgresql, "mysql": _lock_on_mysql}
    try:
        return (yield from ways[words.store](words, name, timeout_s))
    except Failed as failure:
        if failure.code in MISSING:
            raise words.refused(NO_TABLES) from failure.error
        raise


def _drawn(words: Words, name: str) -> Steps[int]:
    """Count the token of a name that is locked, by a clock that is read now, and return it."""
    yield words(words.asks.draw_named(row_of(name)))
    ((token,),) = yield words(words.asks.token_named(row_of(name)))
    return int(token)


# PostgreSQL: any error ends the transaction, but for a savepoint.


def _lock_on_postgresql(words: Words, name: str, timeout_s: float | None) -> Steps[int]:
    yield from _saved(words)
    before: tuple[Any, ...] = ()
    try:
        if timeout_s is not None:
            (before,) = yield Said(_limit_on_postgresql(timeout_s))
        yield words(words.asks.draw_named(row_of(name)))
        if before:
            yield Said(f"SELECT {_setting(LOCKS, before[0])}, {_setting(ALL, before[1])}")
        token = yield from _drawn(words, name)
    except Failed as failure:
        yield from _returned(failure)
        if failure.code in WAITED or (failure.code in STOPPED and (yield from _over(before, timeout_s))):
            raise _late(name, timeout_s) from failure.error
        raise
    yield Said(RELEASE)
    return token


def _saved(words: Words) -> Steps[None]:
    try:
        yield Said(SAVE)
    except Failed as failure:
        if failure.code in NO_TRANSACTION:
            raise words.refused(ALONE) from failure.error
        raise


def _returned(failure: Failed) -> Steps[None]:
    """Undo what was done since the savepoint, so that the transaction can go on."""
    try:
        yield Said(RETURN)
        yield Said(RELEASE)
    except Failed:
        raise failure from None


CLOCK = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
LOCKS, ALL = "lock_timeout", "statement_timeout"


def _setting(name: str, value: str) -> str:
    """Return what sets something for the rest of the transaction, or up to the savepoint."""
    return f"set_config('{name}', '{value}', true) AS {name}"


def _limit_on_postgresql(timeout_s: float) -> str:
    """Return what bounds the wait, and reads what bounded it before, and the time.

    Each wait of a statement has ``lock_timeout`` anew, and a statement waits again if another transaction was
    quicker. So it is the statement that has the time, unless it has less already.
    """
    ms = str(max(1, min(round(timeout_s * 1000), LONGEST_MS)))
    now = f"current_setting('{ALL}')"
    less = f"{now}::interval BETWEEN '1us' AND '{ms}ms'" if timeout_s else "true"
    limits = f"{_setting(LOCKS, ms)}, set_config('{ALL}', CASE WHEN {less} THEN {now} ELSE '{ms}' END, true)"
    return f"SELECT current_setting('{LOCKS}') AS a, {now} AS b, {CLOCK} AS c, {limits} AS d"


def _over(before: tuple[Any, ...], timeout_s: float | None) -> Steps[bool]:
    """Whether the time is over; else it was somebody else who had the statement stopped."""
    if not before or not timeout_s:
        return False
    ((now,),) = yield Said(f"SELECT {CLOCK} AS a")
    return bool(now - before[2] >= timeout_s)


def _late(name: str, timeout_s: float | None) -> LockTimeout:
    return LockTimeout(name, timeout_s or 0.0, 1)


# MySQL and MariaDB: a statement that fails is undone, and nothing else. But with innodb_rollback_on_timeout
# the whole transaction is, with the locks that it had, if a wait takes too long.

SETTINGS = (
    "SELECT VERSION() AS a, @@innodb_lock_wait_timeout AS b,"
    " /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ AS c,"
    " /*!80000 0 */ /*M! @@max_statement_time */ AS d, @@innodb_rollback_on_timeout AS e"
)
"""What differs between the two is in comments, of which each reads its own."""


def _lock_on_mysql(words: Words, name: str, timeout_s: float | None) -> Steps[int]:
    version, lock_wait_s, isolation, most_s, undoes_all = yield from _checked_on_mysql(words)
    draw = words(words.asks.draw_named(row_of(name)))
    try:
        if timeout_s is None:
            yield draw
        elif MARIADB in version:
            yield Said(_limit_on_mariadb(timeout_s, float(most_s)) + draw.text, draw.values)
        else:
            looks = not timeout_s and isolation in GAPLESS
            yield from _limited_on_mysql(words, name, timeout_s, int(lock_wait_s), looks=looks)
    except Failed as failure:
        undone = undoes_all and failure.code == LOCK_WAIT_TIMEOUT
        stopped = failure.code in STOPPED and timeout_s and not 0 < most_s < timeout_s
        if not undone and (failure.code in WAITED or stopped):
            raise _late(name, timeout_s) from failure.error
        raise
    return (yield from _drawn(words, name))


def _checked_on_mysql(words: Words) -> Steps[tuple[str, Any, str, Any, Any]]:
    """Refuse what would not work.

    Returns:
        The server's version, how long a statement may wait, the isolation, how long a statement may run, and
        whether a wait that takes too long undoes the whole transaction.
    """
    ((version, lock_wait_s, isolation, most_s, undoes_all),) = yield Said(SETTINGS)
    try:
        if isolation == "REPEATABLE-READ":
            yield Said("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield Said(SAVE)
        yield Said(RELEASE)
    except Failed as failure:
        if failure.code in UNDER_WAY | NO_TRANSACTION:
            raise words.refused(TOO_LATE if failure.code in UNDER_WAY else ALONE) from failure.error
        raise
    return str(version), lock_wait_s, str(isolation), most_s, undoes_all


def _limit_on_mariadb(timeout_s: float, most_s: float) -> str:
    """Return what bounds the statement behind it, and it alone."""
    if not timeout_s:
        return "SET STATEMENT innodb_lock_wait_timeout = 0 FOR "
    most_s = min(timeout_s, most_s or LONGEST_S, LONGEST_S)
    return (
        f"SET STATEMENT innodb_lock_wait_timeout = {int(most_s) + 2}, max_statement_time = {most_s:.6f} FOR "
    )


def _limited_on_mysql(
    words: Words, name: str, timeout_s: float, lock_wait_s: int, *, looks: bool
) -> Steps[None]:
    """Lock a name within whole seconds, which is as MySQL counts them; what looks first need not wait."""
    limited_s = max(1, min(-int(-timeout_s // 1), LONGEST_S))
    yield Said(f"SET SESSION innodb_lock_wait_timeout = {limited_s}")
    try:
        if looks:
            look = words(words.asks.token_named(row_of(name)))
            yield Said(f"{look.text} FOR UPDATE NOWAIT", look.values)
        yield words(words.asks.draw_named(row_of(name)))
    except Failed as failure:
        try:
            yield Said(f"SET SESSION innodb_lock_wait_timeout = {lock_wait_s}")
        except Failed as second:  # the connection is lost, say, and with it what was locked before
            raise (second if failure.code in WAITED | STOPPED else failure) from None
        raise
    yield Said(f"SET SESSION innodb_lock_wait_timeout = {lock_wait_s}")


# A grant.


@record
class Standing:
    """What a guard asks for.

    Attributes:
        store: Of which kind its database is.
        tables: What the names of the tables begin with.
        queue: The key of the queue.
        token: Of the contender.
        session: Its session.
        name: Of the lock, for errors.
        recipe: What it is.
        shared: It may be downgraded.
    """

    store: str
    tables: str
    queue: str
    token: int
    session: str
    name: str
    recipe: str
    shared: bool


def guarding(words: Words, grant: Standing) -> Steps[None]:
    """Have a grant stand until the transaction ends, or raise."""
    if words.store != grant.store:
        raise ValueError(ELSEWHERE)
    saves, alone = words.store == "postgresql", False
    if saves:
        yield from _saved(words)
    else:
        _, _, isolation, _, _ = yield from _checked_on_mysql(words)
        alone = isolation == SERIALIZABLE
    try:
        found = yield words(words.asks.guard(grant.queue, grant.token, grant.session, alone=alone))
        known = found or (yield words(words.asks.begun(grant.session)))
    except Failed as failure:
        if saves:
            yield from _returned(failure)
        if failure.code in MISSING:
            raise ValueError(ELSEWHERE) from failure.error
        raise
    if saves:
        yield Said(RELEASE)
    if not known:
        raise ValueError(ELSEWHERE)
    if not found:
        raise LockLost(grant.name, grant.token, GONE, recipe=grant.recipe)
    if found[0][1] == DOWNGRADED and not grant.shared:
        raise LockLost(grant.name, grant.token, SHARED, recipe=grant.recipe)
