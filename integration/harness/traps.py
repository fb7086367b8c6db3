"""What a proxy has seen, and what it is told to wait for."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from integration.harness.link import Gate
from integration.harness.wire import Match, Request

__all__ = ["Counts", "Toll", "Trap"]


@dataclass
class Counts:
    """What passed: requests by label (``ping`` apart), replies, events and bytes, as the proxy read them."""

    requests: Counter[str] = field(default_factory=Counter)
    pings: int = 0
    replies: int = 0
    events: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    connections: int = 0

    def asked(self, request: Request) -> None:
        """Count a request."""
        if request.label == "ping":
            self.pings += 1
        else:
            self.requests[request.label] += 1

    def answered(self, request: Request | None) -> None:
        """Count a reply, or an event."""
        if request is None:
            self.events += 1
        elif request.label != "ping":
            self.replies += 1

    def copy(self) -> Counts:
        """Return what was counted so far."""
        return replace(self, requests=Counter(self.requests))

    def __sub__(self, earlier: Counts) -> Counts:
        numbers = {name: mine - getattr(earlier, name) for name, mine in self.__dict__.items()}
        return Counts(**numbers)


@dataclass(eq=False)
class Trap:
    """Waits for a request that matches, the ``left``-th from now, and then does one thing, once.

    ``matched`` is set when that request was seen (``request``), ``sprung`` when the fault has happened.
    """

    act: Literal["lose reply", "lose request", "hold request", "tell"]
    match: Match
    left: int
    silent: bool = False
    matched: threading.Event = field(default_factory=threading.Event)
    sprung: threading.Event = field(default_factory=threading.Event)
    request: Request | None = None
    gate: Gate = field(default_factory=Gate)

    def sees(self, request: Request) -> bool:
        """Whether ``request`` is the one this trap waits for."""
        if self.request is not None or not self.match(request):
            return False
        self.left -= 1
        if self.left:
            return False
        self.request = request
        self.matched.set()
        return True

    def loses_reply_to(self, request: Request | None) -> bool:
        """Whether the reply to ``request`` is the one to lose."""
        return self.act == "lose reply" and request is not None and request is self.request


@dataclass(eq=False)
class Toll(Trap):
    """Does its one thing at every ``every``-th request that matches; ``taken`` counts how often."""

    every: int = 1
    taken: int = 0
    due: set[Request] = field(default_factory=set)

    def sees(self, request: Request) -> bool:
        """Whether it is due at ``request``."""
        if not self.match(request):
            return False
        self.left -= 1
        if self.left:
            return False
        self.left = self.every
        self.taken += 1
        if self.act == "lose reply":
            self.due.add(request)
        return True

    def loses_reply_to(self, request: Request | None) -> bool:
        """Whether the reply to ``request`` is one to lose."""
        if request is None or request not in self.due:
            return False
        self.due.discard(request)
        return True
