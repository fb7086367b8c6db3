"""Other code of the process closes descriptors of the package."""

from __future__ import annotations

import json

import pytest

from integration.faults.closer import closed_behind
from integration.faults.workers import Worker
from integration.opening import opened
from integration.shedlock.store import ShedlockStore

SESSION_S = 3
OPTIONS = dict(ShedlockStore.options)


@pytest.mark.long
def test_fault_43_all_descriptors_are_closed_behind_its_back(store: ShedlockStore) -> None:
    url = store.url()
    with (
        opened(url, session_timeout=SESSION_S, **OPTIONS) as other,
        other.lock("x, of another").acquire(timeout=60) as theirs,
        Worker("faults.closer", "blocking", url, SESSION_S, "x", json.dumps(OPTIONS)) as closer,
    ):
        closed_behind(closer, theirs.token, lambda: other.lock("x").try_acquire() is None, theirs.release)
