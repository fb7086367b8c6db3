"""kazoo's parties beside our groups: whether either sees the other's members."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType

from integration import servers
from integration.fleet.meeting import Ground
from integration.fleet.peers import PATIENCE_S

__all__ = ["PARTIES", "party_row"]

PARTIES: Mapping[str, str] = MappingProxyType(
    {"kazoo `Party`": "Party", "kazoo `ShallowParty`": "ShallowParty"}
)
"""The parties there are: what the documentation calls each, and its class."""


def party_row(ground: Ground, party: str) -> dict[str, str]:
    """Have a member of each join at one path, and return what the others show of it, as documented."""
    name = uuid.uuid4().hex
    group = ground.actors[0].client.group(name)
    with servers.kazoo_client(ground.server) as kazoo:
        theirs = getattr(kazoo, PARTIES[party])(f"/{ground.store.prefix}/~group/{name}", "theirs")
        theirs.join()
        with group.join(id="ours", timeout=PATIENCE_S):
            strangers = [one for one in theirs if one != "theirs"]
            ours = [member.id for member in group.members()]
        theirs.leave()
    assert len(strangers) < 2
    shown = "under its id" if strangers == ["ours"] else "**by another name**"
    return {
        "ours": shown if strangers else "no",
        "theirs": "under its id" if "theirs" in ours else "no",
    }
