"""Candidates of different kinds: what each shows as the leader."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from integration.fleet.kinds import ELECTION, Kind
from integration.fleet.meeting import Ground, place
from integration.fleet.peers import PATIENCE_S, Candidate
from tests.contract.stores import ELECTIONS

__all__ = ["Known", "candidate", "election", "known"]


@dataclass(frozen=True)
class Known:
    """The value that each shows as the leader's, or None.

    Attributes:
        ours: What theirs show while ours leads, and one of theirs campaigns.
        proclaimed: What they show when ours has proclaimed something else.
        theirs: What ours shows while theirs leads, and ours campaigns.
    """

    ours: str | None
    proclaimed: str | None
    theirs: str | None


@contextlib.contextmanager
def candidate(ground: Ground, kind: Kind, name: str) -> Generator[Candidate, None, None]:
    """Yield a candidate of theirs."""
    with ground.peer(kind, name) as one:
        assert isinstance(one, Candidate)
        yield one


def election(ground: Ground, name: str, actor: int = 0) -> Any:
    """Return an election of ours."""
    return ground.actors[actor].client.election(name.removeprefix(ELECTIONS))


def known(ground: Ground, kind: Kind) -> Known:
    """Let either lead, and ask both who does."""
    name = place(ELECTION, kind, "known")
    ours = election(ground, name)
    with candidate(ground, kind, name) as theirs, candidate(ground, kind, name) as viewer:
        assert ours.leader() is None
        with ours.campaign("ours", timeout=PATIENCE_S) as leadership:
            theirs.start_acquire()
            ground.queued(name, 2)
            first = viewer.leader()
            leadership.proclaim("ours-2")
            assert ours.leader().value == "ours-2"
            then = viewer.leader()
        token = theirs.held()
        waiting = ground.actors[1].start(
            election(ground, name, 1).campaign, "ours, behind", timeout=PATIENCE_S
        )
        ground.queued(name, 2)
        leader = ours.leader()
        assert leader.token == token
        theirs.release()
        assert waiting.result(PATIENCE_S).release()
        ground.queued(name, 0)
    return Known(first, then, leader.value)
