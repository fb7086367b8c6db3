"""Whether the store has gone back in time: wiped, or restored from a backup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipes.errors import SessionLost
from recipes.stores.etcd import codec

__all__ = ["Revision"]

WENT_BACK = "the store has gone back to an earlier state: it was wiped, or restored from a backup"


class Revision:
    """The latest revision that an answer of the majority bore.

    Attributes:
        known: The revision. Threads may share it: at worst it is a little older than it could be.
    """

    def __init__(self) -> None:
        self.known = 0

    def take(self, reply: Mapping[str, Any], known: int) -> None:
        """Note the revision of an answer to what was asked when ``known`` was known.

        Raises:
            SessionLost: It is an earlier one. What was held may have been forgotten, and what was
                released may stand again.
        """
        at = codec.revision(reply)
        if 0 < at < known:
            raise SessionLost(WENT_BACK)
        self.known = max(self.known, at)
