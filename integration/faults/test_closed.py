"""Other code of the process closes descriptors of the package, as what makes a daemon does."""

from __future__ import annotations

import pytest

from integration import servers
from integration.faults.closer import POLLS, WAITS, closed_behind
from integration.faults.labs import Lab


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_43_all_descriptors_are_closed_behind_its_back(lab: Lab) -> None:
    other = lab.actor()
    theirs = other.acquire(f"{lab.name}, of another")
    closer = lab.worker("closer", lab.name)
    excluded = lambda: other.try_acquire(lab.name) is None  # noqa: E731
    share = POLLS if isinstance(lab.server, servers.MariaDb) else WAITS
    lab.figure(closed_behind(closer, theirs.token, excluded, theirs.release, share=share))
    assert lab.contenders_become(0)
