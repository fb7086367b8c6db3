"""Several servers of one kind that are one store."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from integration.harness.process import Server, url_of

__all__ = ["Cluster"]

S = TypeVar("S", bound=Server)


class Cluster(ABC, Generic[S]):
    """The members of one store, started and closed together; each can be paused or killed by itself."""

    def __init__(self, members: list[S]) -> None:
        self.members = members

    def start(self) -> Self:
        """Start every member that is not running and wait until all serve."""
        for member in self.members:
            member.spawn()
        for member in self.members:
            member.wait_ready()
        return self

    def url(self, prefix: str = "") -> str:
        """Return the URL that names every member."""
        return url_of(self.members[0].scheme, [member.address for member in self.members], prefix)

    def leader(self) -> S:
        """Return the member that leads now."""
        leaders = [member for member in self.members if member.running and self.leads(member)]
        assert len(leaders) == 1, f"one leader there should be, not {len(leaders)}"
        return leaders[0]

    @abstractmethod
    def leads(self, member: S) -> bool:
        """Whether ``member`` says that it leads."""

    def close(self) -> None:
        """Kill every member and remove its data."""
        for member in self.members:
            member.close()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
