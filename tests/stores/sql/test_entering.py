"""What a MySQL or MariaDB says of itself before it is used."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.errors import StoreRefused
from recipes.stores.sql import entering

OWN = {"server_uuid": "a-b-c", "hostname": "h", "port": "3306", "server_id": "1", "read_only": "OFF"}
SINGLE = "group_replication_single_primary_mode"


class Facts:
    """A connection to a server with these variables."""

    def __init__(self, **facts: str) -> None:
        self.facts = facts

    def execute(self, statement: Any) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.facts.items() if f"'{name}'" in str(statement)]


@pytest.mark.parametrize("more", [{}, {"wsrep_on": "OFF"}, {SINGLE: "ON"}])
def test_one_that_takes_the_writes_alone_is_used(more: dict[str, str]) -> None:
    given: Any = Facts(**OWN, **more)
    assert entering._mysql(given, "mysql://h/d") == "a-b-c"


@pytest.mark.parametrize(("name", "value"), [("wsrep_on", "ON"), (SINGLE, "OFF")])
def test_one_of_several_that_take_writes_is_refused(name: str, value: str) -> None:
    given: Any = Facts(**OWN, **{name: value})
    with pytest.raises(StoreRefused, match="does not hold on its other servers"):
        entering._mysql(given, "mysql://h/d")
