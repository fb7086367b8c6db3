"""``layout="shedlock"``: the table of ShedLock, in which a Java service locks, as a store of cells.

Its table is used as ShedLock documents it, by its statements with the database's time: a row names the holder
(``locked_by``), and until when (``lock_until``). So both exclude each other. The fencing tokens are in the
table of queues, in rows of their own; one is drawn while the row of the lock is locked, so they rise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote

from sqlalchemy import BigInteger, Column, DateTime, String, Table, bindparam, func, or_, select, text, update
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from recipes._contract.operations import Op, Open, Opened
from recipes._contract.protocol import RequestContext
from recipes._contract.protocol import Steps as Requests
from recipes.stores._kit.cell import Cell, CellProtocol, Claim, Drop, Keep, Peek, Take
from recipes.stores.sql.acts import Starting, Steps, expect_same, starting_us
from recipes.stores.sql.requests import Ask, Transact, Work
from recipes.stores.sql.statements import Statements, _given
from recipes.stores.sql.tables import Tables

__all__ = ["LONGEST_NAME", "ShedlockProtocol", "ShedlockStatements", "row_of", "shedlock_tables_of"]

LONGEST_NAME = 64
TICK_US = 1000
"""The table keeps milliseconds: what is written is up to so much earlier."""
FREE, STRANGER = Cell(), "?"


def row_of(root: str, cell: str) -> str:
    """Return the name in the table: that of the lock, where each database keeps it as it is."""
    name = unquote(cell)
    plain = name.isprintable() and "%" not in name and name[-1] != " "
    return f"{root}{root and ':'}{name if plain else cell}"


class _Now(FunctionElement[Any]):
    """The database's time as ShedLock writes it: UTC, without a zone, cut to milliseconds."""

    type = DateTime()
    inherit_cache = True


class _After(FunctionElement[Any]):
    """The time so many microseconds later."""

    type = DateTime()
    inherit_cache = True


class _Left(FunctionElement[int]):
    """How many microseconds there are until a time."""

    type = BigInteger()
    inherit_cache = True


_TIMES: dict[type[Any], tuple[str, str]] = {
    _Now: ("date_trunc('milliseconds', timezone('utc', clock_timestamp()))", "UTC_TIMESTAMP(3)"),
    _After: ("({now} + {it} * INTERVAL '1 microsecond')", "TIMESTAMPADD(MICROSECOND, {it}, {now})"),
    _Left: (
        "CAST(EXTRACT(EPOCH FROM {it} - {now}) * 1000000 AS BIGINT)",
        "TIMESTAMPDIFF(MICROSECOND, {now}, {it})",
    ),
}
"""On PostgreSQL, and on MySQL and MariaDB."""


def _said(element: Any, compiler: Any, **more: Any) -> str:
    which = int(compiler.dialect.name != "postgresql")
    inner = compiler.process(element.clauses, **more) if len(element.clauses) else ""
    return _TIMES[type(element)][which].format(now=_TIMES[_Now][which], it=inner)


for _time in _TIMES:
    compiles(_time)(_said)


class ShedlockTables(Tables):
    """The tables of one prefix that are needed, and ShedLock's.

    Attributes:
        shedlock: One row for each name that was ever locked.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        name = String(LONGEST_NAME).with_variant(
            mysql.VARCHAR(LONGEST_NAME, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
        )
        moment = postgresql.TIMESTAMP(precision=3).with_variant(mysql.TIMESTAMP(fsp=3), "mysql", "mariadb")
        self.shedlock = Table(
            "shedlock",
            self.metadata,
            Column("name", name, primary_key=True),
            Column("lock_until", moment, nullable=False),
            # As ShedLock documents it for MySQL, which may have a default for the first time only.
            Column("locked_at", moment, nullable=False, server_default=text("CURRENT_TIMESTAMP(3)")),
            Column("locked_by", String(255), nullable=False),
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
        )

    def of(self, dialect: str) -> list[Table]:
        """Return the tables that are needed, the same on all dialects."""
        del dialect
        return [self.queue, self.shedlock, self.server]


@lru_cache(maxsize=32)
def shedlock_tables_of(prefix: str) -> ShedlockTables:
    """Return the tables of a prefix, the same to all; ValueError if none can have it."""
    return ShedlockTables(prefix)


class ShedlockStatements(Statements):
    """The statements on ShedLock's table, and those of all layouts.

    Args:
        tables: The tables.
        dialect: As `Statements` takes it.
    """

    tables: ShedlockTables

    def __init__(self, tables: ShedlockTables, dialect: str) -> None:
        super().__init__(tables, dialect)
        shed, queue, server = tables.shedlock, tables.queue, tables.server
        named, owned = shed.c.name == _given("row"), shed.c.locked_by == _given("value")
        over, now = shed.c.lock_until <= _Now(), _Now()
        until = _After(bindparam("ttl_us_", type_=BigInteger))
        mine = update(shed).where(named, owned, shed.c.lock_until > _Now())
        self._take = (
            update(shed)
            .where(named, or_(over, owned))
            .values(lock_until=until, locked_at=now, locked_by=_given("value"))
        )
        free = {"name": _given("row"), "lock_until": now, "locked_at": now, "locked_by": _given("value")}
        self._add = self._upsert(shed, free, {"name": shed.c.name})
        self._keep, self._drop = mine.values(lock_until=until), mine.values(lock_until=now)
        self._seen = (
            select(shed.c.locked_by, _Left(shed.c.lock_until), func.coalesce(queue.c.token, 0))
            .select_from(shed.outerjoin(queue, queue.c.name == _given("queue")))
            .where(named)
        )
        self._drawn = self._token.add_columns(self._here().label("server"))
        # It is read as a connection begins to be used, and so shows too whether ShedLock's table is there.
        self._life = self._life.select_from(server.outerjoin(shed, shed.c.name == ""))

    @staticmethod
    @lru_cache(maxsize=32)
    def of(prefix: str, dialect: str) -> ShedlockStatements:
        """Return those for the tables of a prefix, made once; ValueError if none can have it."""
        return ShedlockStatements(shedlock_tables_of(prefix), dialect)

    def take(self, row: str, value: str, ttl_us: int) -> Ask:
        """Lock a row that is free, or has this value."""
        return Ask(self._take, {"row_": row, "value_": value, "ttl_us_": ttl_us})

    def add(self, row: str, value: str) -> Ask:
        """Have a row be there; it is free."""
        return Ask(self._add, {"row_": row, "value_": value})

    def keep(self, row: str, value: str, ttl_us: int) -> Ask:
        """Extend a lock that has this value."""
        return Ask(self._keep, {"row_": row, "value_": value, "ttl_us_": ttl_us})

    def drop(self, row: str, value: str) -> Ask:
        """Unlock what has this value."""
        return Ask(self._drop, {"row_": row, "value_": value})

    def drawn(self, queue: str) -> Ask:
        """Read the token that was drawn last, and which server this is."""
        return Ask(self._drawn, {"queue_": queue})

    def seen(self, row: str, queue: str) -> Ask:
        """Read the holder of a row, for how many microseconds more, and the token drawn last."""
        return Ask(self._seen, {"row_": row, "queue_": queue})


class ShedlockProtocol(CellProtocol):
    """One session; nobody notifies those that wait.

    Args:
        statements: For the tables and the dialect.
        root: What names in the table begin with.
        session_id: Chosen by the client; the database knows of no sessions.
        jitter: As `CellProtocol` takes it.
    """

    def __init__(
        self, statements: ShedlockStatements, root: str, session_id: str, jitter: Callable[[], float]
    ) -> None:
        super().__init__(session_id, jitter)
        self._say, self._root = statements, root

    def act(self, op: Op[Any], context: RequestContext) -> Requests[Any]:
        """Carry out `Open`, or an act on cells: in one transaction."""
        del context
        match op:
            case Open():
                yield Transact(partial(self._each, claims=(), ask=self._say.drop), session=True)
                return Opened(self.session_id, op.ttl_s)
            case Take():
                return (yield Transact(partial(self._taking, op=op), joins=True))
            case Peek():
                return (yield Transact(partial(self._peek, cell=op.cell), reads=True))
            case Keep():
                ask = partial(self._say.keep, ttl_us=_us(op.ttl_s))
                return (yield Transact(partial(self._each, claims=op.claims, ask=ask), session=True))
            case Drop():
                return (yield Transact(partial(self._each, claims=op.claims, ask=self._say.drop)))
            case _:
                raise AssertionError(f"{op!r} should be an act")

    def _taking(self, work: Work, op: Take) -> Steps[Cell]:
        """Lock the row, and draw a token while it is locked: so the next that locks it draws a larger one."""
        if work.starting_until_us:
            ((*_, now, _),) = (yield (self._say.life(),))[0]
            left_us = starting_us(work, now)
            if left_us > 0:
                raise Starting(left_us)
            work.started = True
        row, key = row_of(self._root, op.cell), self._key(op.cell)
        while True:
            (taken,) = yield (self._say.take(row, op.value, _us(op.ttl_s)),)
            if taken:
                _, ((token, server),) = yield (self._say.draw(key), self._say.drawn(key))
                expect_same(work, server)
                return Cell(op.value, int(token), op.ttl_s)
            (found,) = yield (self._say.seen(row, key),)
            if not found:
                yield (self._say.add(row, op.value),)
            elif (cell := _cell(found)).value:
                return cell

    def _peek(self, work: Work, cell: str) -> Steps[Cell]:
        del work
        (found,) = yield (self._say.seen(row_of(self._root, cell), self._key(cell)),)
        return _cell(found)

    def _each(
        self, work: Work, claims: Sequence[Claim], ask: Callable[[str, str], Ask]
    ) -> Steps[tuple[bool, ...]]:
        """Do the same to each claim, in the order of their rows; without any, ask for a sign of life."""
        del work
        order = sorted(claims)
        asks = tuple(ask(row_of(self._root, cell), value) for cell, value in order)
        changed = yield asks or (self._say.life(),)
        done = dict(zip(order, changed, strict=False))
        return tuple(bool(done[claim]) for claim in claims)

    def _key(self, cell: str) -> str:
        return f"{self._root}:~shedlock/{cell}"


def _us(ttl_s: float) -> int:
    return round(ttl_s * 1e6) + TICK_US


def _cell(found: Sequence[Sequence[Any]]) -> Cell:
    """Return what a row says; the token is that of the holder if that is one of ours."""
    value, left_us, token = found[0] if found else ("", 0, 0)
    if left_us <= 0:
        return FREE
    return Cell(value or STRANGER, int(token) if "/" in value else 0, left_us / 1e6)
