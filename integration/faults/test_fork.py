"""A process forks while it holds."""

from __future__ import annotations

import json

from integration import servers
from integration.faults.labs import Lab, at_once
from integration.faults.looking import hold_fault


@at_once()
def test_fault_28_fork_while_holding(lab: Lab) -> None:
    session_s = 8.0
    holder = lab.worker("forker", lab.name, session_s=session_s)
    child = json.loads(holder.next_line())

    assert child["held"] is False
    assert child["lost"] is True
    assert child["reason"] == "forked"
    assert child["verify"] is False
    assert child["release"] is False
    assert child["grants"] == 0
    assert child["parents"] is False  # the lock is the parent's, for the child as for all others
    assert child["own"] is True
    if isinstance(lab.server, servers.Database):  # of the others the child closes what a loop does not have
        assert child["connections"] > 0  # those of the parent, as the child inherited them
    assert child["moved"] is False  # none was written to, nor closed, by the child

    assert len(lab.contenders()) == 1
    hold_fault(session_s)  # whatever the child broke would have cost the session by now
    holder.tell("go on")
    parent = json.loads(holder.next_line())
    assert parent.pop("session") != child["session"]
    assert parent == {"held": True, "lost": False, "reason": None, "verify": True, "release": True}
    assert lab.contenders_become(0)
    assert lab.actor().acquire(lab.name, timeout=20).held
