"""What a transaction on PostgreSQL begins with, on a connection that notes what it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from recipes._run.clock import boot_time
from recipes.stores.sql.requests import Transact
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import PREFIX, Tables
from recipes.stores.sql.wire import Progress, Wire


class Noting:
    """A connection; `said` are the settings of each transaction."""

    def __init__(self) -> None:
        self.info: dict[Any, Any] = {("recipes", PREFIX, 0): 0}  # which server it is, is known
        self.said: list[list[bool]] = []

    @contextlib.contextmanager
    def begin(self) -> Iterator[Any]:
        self.said.append([])
        yield

    def execute(self, statement: Any) -> Any:
        local = {one.clauses.clauses[2].value for one in statement.selected_columns}
        self.said[-1] += local
        return SimpleNamespace(returns_rows=False, rowcount=1)


def nothing(work: object) -> Iterator[tuple[()]]:
    del work
    return
    yield ()


def transacting(*, own: bool, heard: bool) -> Noting:
    """Return the connection after two transactions of a session."""
    wire = Wire(Settings("db", Statements(Tables(), "postgresql"), object, own=own, grace_us=0))
    if heard:
        wire.hearing.connected()
        wire.hearing.hear("open")
    connection: Any = Noting()
    for _ in range(2):
        wire.transact(connection, Transact(nothing), Progress(), boot_time() + 9)  # type: ignore[arg-type]
    found: Noting = connection
    return found


def test_settings_are_said_once_to_a_connection_that_no_proxy_lends() -> None:
    assert transacting(own=True, heard=True).said == [[False], [], []]


@pytest.mark.parametrize(("own", "heard"), [(True, False), (False, True), (False, False)])
def test_settings_are_said_to_each_transaction_else(own: bool, heard: bool) -> None:
    assert transacting(own=own, heard=heard).said == [[True], [True]]
