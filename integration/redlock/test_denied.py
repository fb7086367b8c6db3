"""A lock that a user of the servers may not have, beside one that it holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import recipes
from integration import servers
from integration.faults.actors import APIS, actor
from integration.opening import open_patiently
from integration.redlock.store import url_to
from recipes._run.clock import boot_time

SESSION_S = 4.0
USER, PASSWORD = "app", "pw"


@pytest.fixture
def let_in(five: list[servers.Redis], prefix: str) -> Iterator[dict[str, str]]:
    """Have a user that may have the lock ``reports`` and no other; yield how to log in."""
    patterns = (f"~{prefix}:~*", f"~{prefix}:reports", f"~{{{prefix}:reports}}:*")
    for one in five:
        one.ask("ACL", "SETUSER", USER, "on", f">{PASSWORD}", *patterns, "&*", "+@all")
    yield {"username": USER, "password": PASSWORD}
    for one in five:
        one.ask("ACL", "DELUSER", USER)


@pytest.mark.parametrize("api", APIS)
def test_a_lock_that_is_denied_again_and_again_costs_no_other(
    five: list[servers.Redis], prefix: str, let_in: dict[str, str], api: str
) -> None:
    """Renewals come before it is denied, while it is, and after it."""
    one = actor(api, url_to(five, prefix), session_timeout=SESSION_S, restart_grace=0, **let_in)
    try:
        open_patiently(one)
        held, until = one.acquire("reports"), boot_time() + 2 * SESSION_S
        while boot_time() < until:
            with pytest.raises(recipes.StoreDenied):
                one.try_acquire("billing")
            with pytest.raises(recipes.StoreDenied):
                one.acquire("billing", timeout=20)
        assert held.held
        assert not held.wait_lost(2 * SESSION_S), "nothing names the other any more"
        assert held.verify()
        assert not one.client.pending_cleanups
        assert held.release()
    finally:
        one.close()
