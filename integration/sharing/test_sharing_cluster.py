"""One key of a cluster, shared with other programs: ours looks every 0.1 s whether theirs still holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.sharing.meeting import Ground, end_of_theirs
from integration.sharing.others import Other, RedisPy, Redisson, SetNxPx
from integration.sharing.table import TABLE, observed

pytestmark = pytest.mark.timeout(600)  # the first of all waits until six nodes have found each other

kinds = pytest.mark.parametrize("kind", [RedisPy, SetNxPx, Redisson], ids=lambda kind: kind.__name__)


@kinds
@pytest.mark.parametrize("column", TABLE.columns)
def test_who_waits_for_whom_on_a_cluster(on_cluster: Ground, kind: type[Other], column: str) -> None:
    assert observed(on_cluster, kind, column) == TABLE.documented()[kind.label, column]


@kinds
def test_ours_is_granted_when_the_key_of_a_dead_one_expires(
    on_cluster: Ground, kind: type[Other], figure: Callable[[str], None]
) -> None:
    took_s = end_of_theirs(on_cluster, kind, "Lock")
    figure(f"granted {took_s:.3f} s after theirs took it for 1 s")
    assert took_s > 0.9
