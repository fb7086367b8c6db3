"""A lock that a client may not have, or whose keys are another program's, beside one that it holds."""

from __future__ import annotations

from typing import Any

import pytest

import recipes
from integration.harness.process import eventually
from integration.redis_faults.conftest import SESSION_S, Lab
from recipes._run.clock import boot_time

SOON_S = 20.0
USER, PASSWORD = "app", "pw"


def let_in(lab: Lab, *names: str) -> dict[str, Any]:
    """Have a user that may have these locks and no others; return how to log in."""
    stems = (lab.keys.base(name) for name in names)
    patterns = [f"~{lab.prefix}:~*", *(one for stem in stems for one in (f"~{stem}", f"~{{{stem}}}:*"))]
    lab.server.ask("ACL", "SETUSER", USER, "on", f">{PASSWORD}", *patterns, "&*", "+@all")
    return {"username": USER, "password": PASSWORD}


@pytest.mark.parametrize("refuses", ["the user's rights", "a key of another program"])
def test_a_lock_that_is_refused_again_and_again_costs_no_other(lab: Lab, refuses: str) -> None:
    """Renewals come before it is refused, while it is, and after it."""
    error: type[recipes.StoreError] = recipes.StoreDenied
    if refuses == "the user's rights":
        one = lab.client(**let_in(lab, "reports"))
    else:
        one, error = lab.client(), recipes.StoreRefused
        lab.server.ask("SET", lab.keys.of("billing")[1], "theirs")
    held, until = one.acquire("reports"), boot_time() + 2 * SESSION_S
    while boot_time() < until:
        with pytest.raises(error):
            one.try_acquire("billing")
        with pytest.raises(error):
            one.acquire("billing", timeout=SOON_S)
    assert held.held
    assert not held.wait_lost(2 * SESSION_S), "nothing names the other any more"
    assert held.verify()
    assert not one.client.pending_cleanups
    assert held.release()
    lab.server.ask("DEL", lab.keys.of("billing")[1])
    other = lab.client()
    assert eventually(lambda: other.try_acquire("billing"), SOON_S), "nothing of it is left"
