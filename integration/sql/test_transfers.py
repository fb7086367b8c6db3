"""Money is kept, and tokens are never repeated, while processes die and connections end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration import servers
from integration.sql.transfers import Plan, Result, run

Database = servers.Postgres | servers.MariaDb
SHORT = {"processes": 3, "transfers": 45, "accounts": 3, "kills": 1, "stops": 1, "ends": 1, "seed": "gate"}
QUIET = {**SHORT, "kills": 0, "stops": 0, "ends": 0}


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
    judge(run(database, Plan("session", "READ COMMITTED", "guard", **SHORT)), figure)


def test_without_either_the_same_loses_money(database: Database, figure: Callable[[str], None]) -> None:
    result = run(database, Plan("driver", "READ COMMITTED", "nothing", **QUIET))
    figure(str(result))
    assert result.wrong == "loses money"
    assert result.repeated


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("way", ["driver", "sqlalchemy", "session", "django"])
def test_two_thousand_transfers_under_a_lock(
    database: Database, way: str, isolation: str, figure: Callable[[str], None]
) -> None:
    judge(run(database, Plan(way, isolation, seed="thousands")), figure)


@pytest.mark.long
def test_two_thousand_transfers_under_a_guard(database: Database, figure: Callable[[str], None]) -> None:
    """Where some are stopped for longer than their sessions last."""
    judge(run(database, Plan(protection="guard", stop_s=5.0, stops=10, seed="thousands")), figure)


@pytest.mark.long
def test_a_lock_that_is_not_guarded_loses_money(database: Database, figure: Callable[[str], None]) -> None:
    plan = Plan(protection="lock", stop_s=5.0, stops=30, kills=0, ends=0, transfers=600, seed="thousands")
    result = run(database, plan)
    figure(str(result))
    assert result.wrong == "loses money"
