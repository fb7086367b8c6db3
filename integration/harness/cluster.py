"""Several servers of one kind that are one store."""

from __future__ import annotations

import contextlib
import http.client
import threading
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

import redis

from integration.harness.hub import Hub
from integration.harness.process import Server, eventually, url_of

__all__ = ["Cluster"]

S = TypeVar("S", bound=Server)

NOT_SERVING = (
    *(OSError, RuntimeError, http.client.HTTPException, redis.RedisError),
    *(KeyError, ValueError),  # what it sent is no whole answer
)
"""How asking a member fails that does not serve just now."""


class Cluster(ABC, Generic[S]):
    """The members of one store, started and closed together; each can be paused or killed by itself.

    On a hub, a member can also be cut off from the others; the hub belongs to the cluster.
    """

    def __init__(self, members: list[S], hub: Hub | None = None) -> None:
        self.members = members
        self.hub = hub
        self._starting = threading.Lock()
        if hub is not None:
            for place, member in enumerate(members, 1):
                member.host, member.namespace = hub.address(place), hub.namespace(place)

    @property
    def scheme(self) -> str:
        """The scheme of its URL."""
        return self.members[0].scheme

    @property
    def kind(self) -> str:
        """Which kind of store it is, whatever it is asked in."""
        return self.members[0].kind

    def start(self) -> Self:
        """Start every member that is not running and wait until all serve."""
        with self._starting:  # the cases of a test that failed may all come to start it again
            for member in self.members:
                member.resume()
                member.spawn()
            for member in self.members:
                member.wait_ready()
        return self

    @property
    def running(self) -> bool:
        """Whether all members exist."""
        return all(member.running for member in self.members)

    def url(self, prefix: str = "") -> str:
        """Return the URL that names every member."""
        return url_of(self.scheme, [member.address for member in self.members], prefix)

    def leader(self, within_s: float = 60) -> S:
        """Return the member that leads, when there is one: of those that can be asked."""
        found: list[S] = []

        def seen() -> bool:
            found[:] = [member for member in self.members if member.running and self._leads(member)]
            return len(found) == 1

        assert eventually(seen, within_s), f"one leader there should be, not {len(found)}"
        return found[0]

    def _leads(self, member: S) -> bool:
        try:
            return self.leads(member)
        except NOT_SERVING:
            return False

    def others(self, *than: S) -> list[S]:
        """Return all members but these."""
        return [member for member in self.members if member not in than]

    def agrees(self) -> bool:
        """Whether all members have stored the same, as far as can be seen from outside."""
        return True

    @abstractmethod
    def leads(self, member: S) -> bool:
        """Whether ``member`` says that it leads."""

    def cut_off(self, member: S) -> None:
        """Cut ``member`` off from all others, but not from this machine."""
        assert self.hub is not None, "the members should be on a hub"
        place = self.members.index(member) + 1
        for other in range(1, len(self.members) + 1):
            if other != place:
                self.hub.cut(place, other)

    def close(self) -> None:
        """Kill every member and remove its data, and the hub."""
        for member in self.members:
            member.close()
        if self.hub is not None:
            self.hub.__exit__()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            if self.hub is not None:
                self.hub.__enter__()
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
