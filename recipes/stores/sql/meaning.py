"""What an error of SQLAlchemy, a driver or a database means, in the words of this package."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from recipes.errors import StoreDenied, StoreError, StoreFull, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.sockets import describe
from recipes.stores.tls import refused_by_tls, tls_words

__all__ = [
    "Again",
    "code_of",
    "connecting",
    "is_already_there",
    "is_missing",
    "is_ours",
    "is_read_only",
    "meaning",
]


class Again(Exception):
    """The database has undone the transaction, to have it begun again: a deadlock, for example."""


_AGAIN = {"40001", "40P01", 1213, 1020}
_MISSING = {"42P01", 1146}
_DENIED = {
    *("28000", "28P01", "42501", 1044, 1045, 1142, 1143, 1227, 1370, 1698),
    *(1820, 1862),  # the password has expired
    *(3118, 3955, 4151),  # the account is locked; the last is MariaDB's
    1130,  # no account is allowed to come from this host
}
_OTHER_TABLES = {"42703", "42804", 1054, 1136, 1364}
_MISTAKEN = {
    *(1064, 1264, 1366, 1406),
    *(1067, 1071),  # tables that a server cannot make with its settings
    1665,  # MySQL's log is in the format STATEMENT, which does not fit READ COMMITTED
    *(1251, 3159),  # a login that the driver does not know, or without TLS
}
"""Values, statements or logins that no try will make right, as those of the classes 22 and 42 of SQLSTATE."""
_NO_TIME = {1292}
_NO_DATABASE = {"3D000", 1049}
_FULL = {"53100", 28, 1021, 1041, 1114}
_READ_ONLY = {"25006", 1290, 1792, 1836}
_WAITED = {"55P03", 1205}
_CROWDED = {"53300", 1040, 1203, 1226}
_PREPARED = {"26000", "42P05"}
_THERE = {"23505", "42P07", "42710", 1050, 1062}

_AT_LOGIN: tuple[tuple[str, str], ...] = (
    (r"too many clients|connection slots are reserved|too many connections", "53300"),
    (
        r"password authentication failed|no password supplied|authentication failed|no pg_hba\.conf entry",
        "28P01",
    ),
    (r'role ".*" does not exist|permission denied for database', "28000"),
    (r'database ".*" does not exist', "3D000"),
    (r"session is read-only|hot standby mode|server is not in hot standby|is in recovery", "25006"),
    (r"SSL error: (?!unexpected eof)|certificate|does not support SSL|sslmode", "TLS"),
)
"""By what libpq says, which has no SQLSTATE for what goes wrong as it connects."""


def is_ours(error: BaseException) -> bool:
    """Whether it comes of the database or the way to it, and not of a mistake in a program."""
    if isinstance(error, SQLAlchemyError | OSError | EOFError):
        return True
    packages = {one.__module__.partition(".")[0] for one in type(error).__mro__}
    return bool(packages & {"psycopg", "psycopg2", "asyncpg", "pymysql", "aiomysql", "asyncmy", "MySQLdb"})


def meaning(error: BaseException, label: str, *, sent: bool) -> StoreError | Again:
    """Return what an error means.

    Args:
        error: It is one of those that `is_ours` knows.
        label: Where the database is.
        sent: The end of the transaction was asked for: what it did may be there, or not.
    """
    if isinstance(error, StoreError | Again):
        return error
    if isinstance(error, PoolTimeoutError):
        return StoreUnavailable(
            label,
            "all connections of the engine's pool are in use; give it a larger pool_size or max_overflow",
            unsent=True,
        )
    original: Any = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said, code = _said(original), _code(original)
    if code in _AGAIN:
        return Again(said)
    if code == "TLS" or refused_by_tls(_cause(original)):
        cause = _cause(original)
        return StoreUntrusted(label, tls_words(cause) if isinstance(cause, ssl.SSLError) else said)
    return _answer(label, code, said) or StoreUnavailable(label, said, unsent=not sent)


def _answer(label: str, code: object, said: str) -> StoreError | None:  # noqa: PLR0911 - one for each kind
    """Return what the database says by a code that leaves no doubt; None: nothing of that kind."""
    if code in _DENIED:
        return StoreDenied(label, said)
    if code in _MISSING:
        return _missing_tables(label)
    if code in _OTHER_TABLES:
        what = "the tables are of another version of this package, or not its own"
        return StoreRefused(label, f"{what} ({said}); give a tables= of their own")
    if code in _PREPARED:
        what = "a proxy lends its connections for a transaction, and the driver prepares statements on them"
        mend = (
            "use psycopg, with prepare_threshold=None on an engine of your own, or have it lend for a session"
        )
        return StoreRefused(label, f"{what} ({said}); {mend}")
    if code in _NO_DATABASE:
        return StoreRefused(label, f"{said}; create the database, or mend the path of the URL")
    if code in _NO_TIME:
        what = "of the hour that daylight saving leaves out: have all sessions use one time_zone without it"
        return StoreRefused(label, f"{said}; it may be {what}, as '+00:00'")
    if code in _FULL:
        return StoreFull(label, said)
    if code in _MISTAKEN or (isinstance(code, str) and code[:2] in ("22", "42")):
        return StoreRefused(label, said)
    if code in _READ_ONLY:
        what = f"the server is a standby, or takes no writes now ({said})"
    elif code in _WAITED:
        what = f"a row or table was locked for too long ({said}): by a transaction under guard or left open"
    elif code in _CROWDED:
        what = f"the server takes no more connections ({said}); allow more there, or use fewer clients"
    else:
        return None
    return StoreUnavailable(label, what, unsent=True)


def _missing_tables(label: str) -> StoreRefused:
    """Return that there are no tables, and what to do."""
    return StoreRefused(
        label,
        "the tables are missing: make them as `recipes store schema` prints them, or connect once"
        " with create_tables=True",
    )


@contextmanager
def connecting(label: str) -> Generator[None]:
    """Have what a driver lacks to log in be an answer; it says so by a bare RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        raise StoreRefused(label, str(error)) from error


def is_missing(error: BaseException) -> bool:
    """Whether it says that a table is missing."""
    return _code(getattr(error, "orig", None) or error) in _MISSING


def is_already_there(error: DBAPIError) -> bool:
    """Whether it says that another session made a table at the same time."""
    return _code(error.orig) in _THERE


def is_read_only(error: BaseException) -> bool:
    """Whether it says that the server is a standby: another may be the primary now."""
    return _code(getattr(error, "orig", None) or error) in _READ_ONLY


def code_of(error: Any) -> str | int | None:
    """Return the SQLSTATE, or the number that MySQL gives an error of a driver; None: it has none."""
    first = error.args[0] if getattr(error, "args", ()) else None
    if isinstance(first, int) and not isinstance(error, OSError):
        return first
    if isinstance(first, dict) and isinstance(first.get("C"), str):  # pg8000
        return str(first["C"])
    number = getattr(error, "errno", None)
    if isinstance(number, int) and not isinstance(error, OSError):  # MariaDB's own driver
        return number
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str):
            return state
    return None


def _code(error: Any) -> str | int | None:
    """Return the same of what was met as it connected too."""
    code = code_of(error)
    if code is not None:
        return code
    text = str(error)
    return next((code for words, code in _AT_LOGIN if re.search(words, text)), None)


def _said(error: Any) -> str:
    """Return what was said, in one line, without the statement and its values."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    if isinstance(primary, str):
        return primary
    if isinstance(error, OSError):
        return describe(error)
    number, *more = getattr(error, "args", None) or [None]
    if isinstance(number, dict) and "M" in number:
        return str(number["M"])
    if more and isinstance(number, int):
        return " ".join(str(more[0]).split()) or type(error).__name__
    text = str(error)
    if "Multiple connection attempts failed" in text:  # psycopg says the last one twice
        text = text.partition("All failures were:")[2].replace("\n- ", "; ").removeprefix("; ")
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith("Is the server")) or (
        type(error).__name__
    )


def _cause(error: BaseException) -> BaseException:
    """Return the error of the system below one of a driver, else itself."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return error if cause is None else cause
