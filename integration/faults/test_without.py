"""Each protection is taken out, and a test must fail: a check that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from integration.faults.without import PROTECTIONS, fails_without


@pytest.mark.long
@pytest.mark.parametrize("name", list(PROTECTIONS))
def test_without(name: str) -> None:
    assert fails_without(name)


@pytest.mark.long
def test_that_is_at_least_ten_rows() -> None:
    assert len({protection.row for protection in PROTECTIONS.values()}) >= 10
