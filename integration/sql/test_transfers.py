"""Money is kept, and tokens are never repeated, while processes die and connections end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from integration import servers
from integration.sql.transfers import Plan, Result, run

Database = servers.Postgres | servers.MariaDb
SHORT: dict[str, Any] = {
    "processes": 3,
    "transfers": 45,
    "accounts": 3,
    "kills": 1,
    "stops": 1,
    "ends": 1,
    "seed": "gate",
}
QUIET: dict[str, Any] = {**SHORT, "kills": 0, "stops": 0, "ends": 0}


def judge(result: Result, figure: Callable[[str], None]) -> None:
    figure(str(result))
    assert result.wrong == ""


@pytest.mark.parametrize(
    ("way", "isolation"), [("sqlalchemy", "READ COMMITTED"), ("django", "REPEATABLE READ")]
)
def test_a_few_transfers_under_a_lock(
    database: Database, way: str, isolation: str, figure: Callable[[str], None]
) -> None:
    judge(run(database, Plan(way, isolation, "locked", **SHORT)), figure)


def test_a_few_transfers_under_a_guard(database: Database, figure: Callable[[str], None]) -> None:
    judge(run(database, Plan("session", "READ COMMITTED", "guard", **SHORT, halts=1)), figure)


def test_without_either_the_same_loses_money(database: Database, figure: Callable[[str], None]) -> None:
    result = run(database, Plan("driver", "READ COMMITTED", "nothing", **QUIET))
    figure(str(result))
    assert result.wrong == "loses money"
    assert result.repeated


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("way", ["driver", "sqlalchemy", "session", "django"])
def test_two_thousand_transfers_under_a_lock(
    database: Database, way: str, isolation: str, figure: Callable[[str], None]
) -> None:
    judge(run(database, Plan(way, isolation, seed="thousands")), figure)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_thousand_transfers_under_a_guard(database: Database, figure: Callable[[str], None]) -> None:
    """Where one is stopped for longer than its session lasts, between reading and writing."""
    judge(run(database, Plan(protection="guard", halts=5, seed="thousands")), figure)


@pytest.mark.long
def test_a_lock_that_is_not_guarded_loses_money(database: Database, figure: Callable[[str], None]) -> None:
    result = run(database, Plan(protection="lock", **{**QUIET, "transfers": 150}, halts=3))
    figure(str(result))
    assert result.wrong == "loses money"
