"""PostgreSQL, MySQL and MariaDB through SQLAlchemy: the database that a program has already."""

from __future__ import annotations

import importlib.util
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult

from recipes._contract.backend import Backend
from recipes._contract.deadline import duration
from recipes.guarantees import STORES, one_holder
from recipes.stores import credentials, tls
from recipes.stores.addresses import Endpoint
from recipes.stores.urls import hosts_of, layout_of, root_of

if TYPE_CHECKING:
    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes._contract.protocol import StoreProtocol
    from recipes.stores.sql.engines import Driver, Target
    from recipes.stores.sql.settings import Settings
    from recipes.stores.sql.statements import Statements

__all__ = ["SqlBackend", "backend", "backend_of_engine"]

GRACE_S = 20.0
LONGEST_ROOT = 60
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_OPTIONS = {"tables", "create_tables", "restart_grace", "layout"}
_WITHOUT_GRACE = (
    "the death of any client, a restart and a kill of the server; a failover may let a second holder in,"
    " with a larger token"
)
_BESIDE_SHEDLOCK = (
    "the death of any client, a restart and a kill of the server; a failover that loses commits, or a program"
    " that locks in the table by a clock of its own, may let a second holder in, with a larger token"
)


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[SqlBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
        ImportError: SQLAlchemy is not installed.
    """
    store = parts.scheme.partition("+")[0]
    dialect = "postgresql" if store == "postgresql" else "mysql"
    if importlib.util.find_spec("sqlalchemy") is None:
        raise ImportError(
            f"{parts.scheme}:// needs SQLAlchemy: pip install 'coordination-recipes[{dialect}]'",
            name="sqlalchemy",
        )
    from recipes.stores.sql.engines import Target

    example = f"{parts.scheme}://host:{_PORTS[store]}/database/app"
    hosts = hosts_of(parts, _PORTS[store], example)
    if dialect == "mysql" and len(hosts) > 1:
        raise ValueError(f"{parts.scheme}:// names one server; write for example {example}")
    database, _, root = root_of(parts).partition("/")
    if not database:
        raise ValueError(f"{parts.scheme}:// misses the name of the database; write for example {example}")
    given = Given.of(options, root=root)
    context, files = tls.given(options)
    known = credentials.Credentials.given(parts.scheme, options, passwordless=True)
    places = ",".join(Endpoint(*one).store for one in hosts)
    label = f"{parts.scheme}://{places}/{database}{root and '/'}{root}"
    target = Target(label, tuple(hosts), database, known, context, files)
    made = SqlBackend(label, dialect, given, _Own(parts.scheme, target))
    made.servers = len(hosts)
    return made, {*_OPTIONS, *tls.NAMES, *credentials.NAMES}


def backend_of_engine(
    engine: Any, options: dict[str, Any], asynchronous: bool
) -> tuple[SqlBackend, set[str]]:
    """Return the backend on the user's own engine, and which options there are.

    Raises:
        ValueError: An option does not fit, or the engine is for another kind of database.
        TypeError: It is no engine, or not one for this API.
    """
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    wanted, other = (AsyncEngine, Engine) if asynchronous else (Engine, AsyncEngine)
    if not isinstance(engine, wanted):
        if isinstance(engine, other):
            where, made_by = (
                ("connect()", "create_async_engine()")
                if asynchronous
                else ("connect_async()", "create_engine()")
            )
            raise TypeError(f"this is an {other.__name__}: give it to {where}, or give one of {made_by} here")
        what = f"{type(engine).__module__}.{type(engine).__qualname__}"
        raise TypeError(
            f"{what} is no engine: give what {wanted.__name__} says, not a session or a connection"
        )
    dialect = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}.get(engine.dialect.name)
    if dialect is None:
        raise ValueError(
            f"this engine is for {engine.dialect.name}: use one for PostgreSQL, MySQL or MariaDB"
            + ("; for a file use sqlite:///path" if engine.dialect.name == "sqlite" else "")
        )
    given = Given.of(options, root=_root(options.get("root")))
    url = engine.url
    place = Endpoint(url.host or "localhost", url.port or _PORTS[dialect]).store
    label = f"{dialect}://{place}/{url.database or ''}{given.root and '/'}{given.root}"
    return SqlBackend(label, dialect, given, _Theirs(engine)), {*_OPTIONS, "root"}


def _root(root: Any) -> str:
    if root is None:
        return ""
    if not isinstance(root, str):
        raise TypeError(f"root= is text, not {type(root).__name__}")
    return root_of(SplitResult("", "", root, "", ""))


@dataclass(frozen=True, slots=True)
class Given:
    """What is the same for every client of one deployment.

    Attributes:
        root: What the names of its queues and values begin with.
        tables: What the names of the tables begin with.
        create_tables: Tables that are missing are made.
        grace_s: For how long nothing is granted after a standby took over; 0: off.
        layout: "shedlock": each lock is a row of ShedLock's table; None: the layout of this package.
    """

    root: str
    tables: str
    create_tables: bool
    grace_s: float
    layout: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], *, root: str) -> Self:
        """Return what the options and the URL say.

        Raises:
            ValueError: An option does not fit.
            TypeError: An option is of the wrong type.
        """
        from recipes.stores.sql.tables import PREFIX

        if len(root) > LONGEST_ROOT:
            raise ValueError(
                f"the path behind the database is {len(root)} characters long: at most {LONGEST_ROOT}"
            )
        tables, create = options.get("tables"), options.get("create_tables")
        if tables is not None and not isinstance(tables, str):
            raise TypeError(f"tables= is text, not {type(tables).__name__}")
        if create is not None and not isinstance(create, bool):
            raise TypeError(f"create_tables= is True or False, not {type(create).__name__}")
        grace_s = duration("restart_grace", options.get("restart_grace"))
        return cls(
            root,
            PREFIX if tables is None else tables,
            bool(create),
            GRACE_S if grace_s is None else grace_s,
            layout_of(options, "shedlock"),
        )


class _Own:
    """Engines that are made for each session, of a URL."""

    own, deaf, theirs = True, "", None

    def __init__(self, scheme: str, target: Target) -> None:
        self._scheme, self._target = scheme, target

    def driver(self, *, asynchronous: bool) -> Driver:
        """Return what speaks to the database, checked."""
        from recipes.stores.sql.engines import driver_of

        driver = driver_of(self._scheme, asynchronous=asynchronous)
        if driver.name == "psycopg" and self._target.context is not None and not self._target.files:
            raise ValueError(
                "ssl_context= is nothing to psycopg, which has libpq encrypt: give tls_ca=, tls_cert= and"
                " tls_key=, or use postgresql+asyncpg:// with connect_async()"
            )
        return driver

    def engine(self, *, asynchronous: bool) -> Any:
        return self._target.engine(self.driver(asynchronous=asynchronous))

    def listens(self, *, asynchronous: bool) -> bool:
        return self.driver(asynchronous=asynchronous).listens


class _Theirs:
    """The user's engine."""

    own = False

    def __init__(self, engine: Any) -> None:
        from recipes.stores.sql.engines import Bound

        self.theirs = engine
        self._bound = Bound(engine)
        name = engine.dialect.driver
        self._hears = name in ("psycopg", "psycopg_async", "asyncpg")
        said = f"the driver {name} has no notifications: waiters look again by time; use psycopg or asyncpg"
        self.deaf = "" if self._hears else said

    def driver(self, *, asynchronous: bool) -> None:
        """Refuse an engine that is for the other API."""
        if asynchronous != self._bound.asynchronous:
            raise ValueError("this engine is for the other API")

    def engine(self, *, asynchronous: bool) -> Any:
        del asynchronous
        return self._bound.here()

    def listens(self, *, asynchronous: bool) -> bool:
        del asynchronous
        return self._hears


class SqlBackend(Backend):
    """A database at a place, or behind an engine.

    Attributes:
        dialect: "postgresql" or "mysql".
        given: What all clients of one deployment agree about.
    """

    def __init__(self, label: str, dialect: str, given: Given, engines: _Own | _Theirs) -> None:
        from recipes.stores.sql.protocol_shedlock import ShedlockStatements
        from recipes.stores.sql.statements import Statements

        self.label, self.dialect, self.given, self._engines = label, dialect, given, engines
        self._statements: Statements
        if given.layout:
            held = one_holder(STORES[dialect])
            self.guarantees = replace(held, proven=False, survives=_BESIDE_SHEDLOCK)
            self._statements = ShedlockStatements.of(given.tables, dialect)
        else:
            survives = STORES[dialect].survives if given.grace_s else _WITHOUT_GRACE
            self.guarantees = replace(STORES[dialect], survives=survives)
            self._statements = Statements.of(given.tables, dialect)

    def check_api(self, *, asynchronous: bool) -> None:
        """Refuse a driver that is for the other API, or missing."""
        self._engines.driver(asynchronous=asynchronous)

    def check_session(self, session_timeout_s: float) -> None:
        """Refuse a session that could outlive the time in which nothing is granted."""
        grace_s = self.given.grace_s
        if 0 < grace_s < session_timeout_s:
            raise ValueError(
                f"session_timeout={session_timeout_s:g} is longer than restart_grace={grace_s:g}: after a"
                " failover a second holder would be granted before the first one's session is over. Give"
                " every client a restart_grace= of at least the longest session_timeout"
            )

    def check_name(self, queue: str) -> None:
        """Refuse a name that has no room in ShedLock's table."""
        if not self.given.layout:
            return
        from recipes.stores.sql.protocol_shedlock import LONGEST_NAME, row_of

        row = row_of(self.given.root, queue)
        if len(row) > LONGEST_NAME:
            raise ValueError(
                f"the name has {len(row)} characters in ShedLock's table, and {LONGEST_NAME} at most are"
                f" allowed: {row[:40]!r}..."
            )

    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session, with an id of its own."""
        from recipes.stores.sql.acts import Acts
        from recipes.stores.sql.protocol import SqlProtocol
        from recipes.stores.sql.protocol_shedlock import ShedlockProtocol, ShedlockStatements
        from recipes.stores.sql.settings import BELL

        session = secrets.token_hex(8)
        if isinstance(self._statements, ShedlockStatements):
            return ShedlockProtocol(self._statements, self.given.root, session, random.random)
        acts = Acts(self._statements, self.given.root, BELL, session)
        return SqlProtocol(acts, session, self._engines.deaf if self._statements.notifies else "")

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores.sql.blocking import SqlConnection

        return SqlConnection(self._settings(asynchronous=False), on_end)

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores.sql.tasks import AsyncSqlConnection

        return AsyncSqlConnection(self._settings(asynchronous=True), on_end)

    def _settings(self, *, asynchronous: bool) -> Settings:
        from functools import partial

        from recipes.stores.sql.settings import Settings

        given, engines = self.given, self._engines
        return Settings(
            self.label,
            self._statements,
            partial(engines.engine, asynchronous=asynchronous),
            own=engines.own,
            grace_us=round(given.grace_s * 1e6),
            create_tables=given.create_tables,
            theirs=engines.theirs,
            listens=engines.listens(asynchronous=asynchronous),
        )
