"""Paths: where contenders stand, whom a child of a lock's node stands for, and in which order.

``<root>/<name>/_c_<uuid>-lock-<seq>`` is a lock's contender, with ``-W-lock-`` or ``-R-lock-``
for the two sides of a read-write lock. Curator's mutex and kazoo's ``Lock`` (with
``extra_lock_patterns=("-lock-",)``) wait for all three. Of theirs, ``__READ__`` and
``__rlock__`` are shared, all others exclusive. A child without a sequence number is no
contender, nor is what ``~`` begins: where another's root is below a lock's node, its other recipes
have their nodes there: ``<root>/~<recipe>/<name>/_c_<uuid>-<kind>-lock-<seq>``. A kind may carry
numbers (``S2.10``); a node whose kind cannot be read excludes all others. What the data of a node
says is in `recipes._contract.contents`.

Kazoo without that pattern and Curator's read-write lock do not wait for ours. Their nodes
show it, or that it may be so, and all that can be done here is to tell.

The server's counter is 32 bits wide: at its end it sticks or turns negative. Then the
numbers say nothing, and the order is that of ``czxid``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from recipes._contract.contenders import Contender
from recipes._contract.operations import Ticket

__all__ = ["NO_CONTENDER", "NO_LOCK", "Child", "Dated", "Layout", "dubious"]

_OURS = re.compile(r"_c_(?P<id>[0-9a-f-]{36})-(?:(?P<kind>[A-Z][0-9]*(?:\.[0-9]+)?)-)?lock-")
_SEQUENCE = re.compile(r"-\d{9}$|(?<=[-_])-\d{10}$|\d{10}$")
_SHARED_ELSEWHERE = re.compile(r"(__READ__|__rlock__)-?\d+$")
NO_CONTENDER = "no contender of any known kind; it is left alone"
_CURATOR = "of Curator's read-write lock, which does not wait for ours; use InterProcessMutex there"
_KAZOO = 'of kazoo, which waits for ours only with extra_lock_patterns=("-lock-",)'
_DEAF = {"__READ__": _CURATOR, "__WRIT__": _CURATOR, "__lock__": _KAZOO, "__rlock__": _KAZOO}
NO_LOCK = "~"
LAST = 2**31 - 1
NEAR_THE_END = LAST - 100_000
LONGEST_SEQUENCE = 12  # with its sign, and a line end


class Child(tuple[int, str]):
    """A contender's place in the listing: its number, and its name."""

    __slots__ = ()


class Dated(Child):
    """One whose number is that of the transaction that created it."""

    __slots__ = ()


class Layout:
    """The paths below one root.

    Args:
        root: The path of the URL, without slashes around it; may be empty.
    """

    def __init__(self, root: str) -> None:
        self._base = f"/{root}/" if root else "/"

    def queue(self, name: str) -> str:
        """Return the node whose children are the contenders of an encoded name."""
        return f"{self._base}{name}"

    @property
    def root(self) -> str:
        """Return the node whose children are the queues."""
        return self._base.rstrip("/") or "/"

    def ancestors(self, name: str) -> list[str]:
        """Return the nodes down to the queue's, topmost first."""
        parts = self.queue(name)[1:].split("/")
        return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]

    def contender(self, ticket: Ticket) -> str:
        """Return the path of an attempt, to which the server adds the number."""
        side = "" if ticket.kind == "lock" else f"{ticket.kind}-"
        return f"{self._base}{ticket.queue}/_c_{ticket.id}-{side}lock-"

    def children(self, names: Iterable[str]) -> list[Child]:
        """Return those names that stand for contenders, latest number first."""
        found = []
        for name in names:
            number = _SEQUENCE.search(name, len(name) - LONGEST_SEQUENCE)
            if number is None or name.startswith(NO_LOCK):
                continue
            if int(number[0]) <= LAST:  # else no server counted it
                found.append(Child((int(number[0]), name)))
        found.sort(reverse=True)
        return found

    def contender_at(self, name: str, child: Child) -> Contender:
        """Return whom a place in the listing stands for, and when it was created where that gave the place.

        Names come again only where the counter sticks, and there the order is by creation.
        """
        found = self.parse(name, child[1])
        return replace(found, token=child[0]) if isinstance(child, Dated) else found

    def parse(self, name: str, child: str) -> Contender:
        """Return whom a child of a lock's node stands for."""
        ref = f"{self.queue(name)}/{child}"
        ours = _OURS.match(child)
        if ours is not None:
            return Contender(ref, ours["id"], ours["kind"] or "W")
        return Contender(ref, kind="R" if _SHARED_ELSEWHERE.search(child) else "W")

    def foreign(self, child: str) -> str | None:
        """Return what to report of a child that is no contender, or may not wait for ours."""
        if child.startswith(NO_LOCK):
            return None
        if not self.children((child,)):
            return NO_CONTENDER
        return next((said for mark, said in _DEAF.items() if mark in child), None)


def dubious(children: list[Child]) -> bool:
    """Whether the numbers do not tell the order: one near the end, a negative, or a duplicate."""
    if not children:
        return False
    if children[0][0] >= NEAR_THE_END or children[-1][0] < 0:
        return True
    return any(one[0] == other[0] for one, other in pairwise(children))
