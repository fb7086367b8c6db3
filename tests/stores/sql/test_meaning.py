"""What an error of a driver means: by the codes of PostgreSQL and MySQL, and by what libpq says."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from recipes.errors import StoreDenied, StoreFull, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.sql.meaning import Again, is_ours, meaning

LABEL = "postgresql://h/d"


class PgError(Exception):
    """An error with an SQLSTATE, as psycopg and asyncpg raise."""

    def __init__(self, sqlstate: str | None, said: str = "said") -> None:
        super().__init__(said)
        self.sqlstate = sqlstate


def wrapped(original: Exception) -> OperationalError:
    return OperationalError("SELECT secret FROM t", {"p": "hidden"}, original)


def mysql(number: int) -> Exception:
    return pymysql.err.OperationalError(number, "said")


def pg8000(sqlstate: str) -> Exception:
    """An error as pg8000 raises it: with what the server sent, by the letters of the protocol."""
    return Exception({"S": "ERROR", "C": sqlstate, "M": "said"})


class MariaDbError(Exception):
    """An error as MariaDB's own driver raises it: words, with the number beside them."""

    def __init__(self, number: int) -> None:
        super().__init__("said")
        self.errno, self.sqlstate = number, "HY000"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PgError("40001"), Again),
        (PgError("40P01"), Again),
        (mysql(1213), Again),
        (mysql(1020), Again),
        (PgError("28P01"), StoreDenied),
        (PgError("42501"), StoreDenied),
        (mysql(1045), StoreDenied),
        (mysql(1142), StoreDenied),
        (mysql(1862), StoreDenied),
        (mysql(3118), StoreDenied),
        (mysql(3955), StoreDenied),
        (mysql(4151), StoreDenied),
        (mysql(1130), StoreDenied),
        (PgError("42P01"), StoreRefused),
        (pg8000("40P01"), Again),
        (pg8000("28P01"), StoreDenied),
        (pg8000("42P01"), StoreRefused),
        (MariaDbError(1213), Again),
        (MariaDbError(1045), StoreDenied),
        (MariaDbError(1146), StoreRefused),
        (PgError("42703"), StoreRefused),
        (PgError("22001"), StoreRefused),
        (PgError("3D000"), StoreRefused),
        (mysql(1146), StoreRefused),
        (mysql(1054), StoreRefused),
        (mysql(1049), StoreRefused),
        (mysql(1406), StoreRefused),
        (mysql(1067), StoreRefused),
        (mysql(1071), StoreRefused),
        (mysql(1665), StoreRefused),
        (mysql(1251), StoreRefused),
        (mysql(3159), StoreRefused),
        (mysql(1292), StoreRefused),
        (PgError("53100"), StoreFull),
        (mysql(1021), StoreFull),
        (mysql(1114), StoreFull),
    ],
)
@pytest.mark.parametrize("as_sqlalchemy", [True, False])
def test_an_answer_of_the_database(error: Exception, kind: type[Any], as_sqlalchemy: bool) -> None:
    found = meaning(wrapped(error) if as_sqlalchemy else error, LABEL, sent=False)
    assert type(found) is kind
    assert "secret" not in str(found)
    assert "hidden" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        PgError("55P03"),
        PgError("53300"),
        PgError("25006"),
        mysql(1205),
        mysql(1040),
        mysql(1290),
        mysql(1836),
    ],
)
def test_what_was_not_done_is_asked_again(error: Exception) -> None:
    found = meaning(wrapped(error), LABEL, sent=True)
    assert type(found) is StoreUnavailable
    assert found.unsent


@pytest.mark.parametrize(
    "error",
    [
        PgError("57P01"),
        PgError("08006"),
        PgError(None, "server closed the connection"),
        mysql(2006),
        mysql(2013),
    ],
)
@pytest.mark.parametrize("sent", [True, False])
def test_a_connection_that_is_lost_leaves_it_open_what_was_done(error: Exception, sent: bool) -> None:
    found = meaning(wrapped(error), LABEL, sent=sent)
    assert type(found) is StoreUnavailable
    assert found.unsent is not sent


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('FATAL:  password authentication failed for user "app"', StoreDenied),
        ('FATAL:  role "app" does not exist', StoreDenied),
        ('FATAL:  no pg_hba.conf entry for host "h"', StoreDenied),
        ('FATAL:  database "d" does not exist', StoreRefused),
        ("FATAL:  sorry, too many clients already", StoreUnavailable),
        ("connection to server failed: Connection refused", StoreUnavailable),
        ("SSL error: certificate verify failed", StoreUntrusted),
        ("SSL error: unexpected eof while reading", StoreUnavailable),
        ("SSL SYSCALL error: EOF detected", StoreUnavailable),
    ],
)
def test_what_libpq_says_as_it_connects_has_no_code(said: str, kind: type[Any]) -> None:
    assert type(meaning(wrapped(PgError(None, said)), LABEL, sent=False)) is kind


def test_a_pool_that_has_no_connection_left_says_what_to_do() -> None:
    found = meaning(PoolTimeoutError(), LABEL, sent=False)
    assert "pool_size" in str(found)


def test_tables_that_are_missing_are_made_by_whom() -> None:
    assert "recipes store schema" in str(meaning(PgError("42P01"), LABEL, sent=False))


@pytest.mark.parametrize(
    ("error", "ours"),
    [(wrapped(PgError("1")), True), (mysql(1), True), (OSError(), True), (AssertionError(), False)],
)
def test_mistakes_of_a_program_are_not_the_databases(error: Exception, ours: bool) -> None:
    assert is_ours(error) is ours
