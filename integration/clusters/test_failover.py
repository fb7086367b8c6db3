"""The next holder has the lock in time, whoever dies (L1)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from integration.clusters.failover import measured
from integration.clusters.labs import MADE

KILLS = int(os.environ.get("RECIPES_TEST_KILLS", "50"))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("store", MADE)
def test_promise_l1_failover_over_many_kills(store: str, figure: Callable[[str], None]) -> None:
    for figures in measured(store, KILLS):
        figure(str(figures))
        assert figures.kept
