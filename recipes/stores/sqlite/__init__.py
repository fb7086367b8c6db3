"""SQLite: processes on one machine that share a file, without a server."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from recipes._contract.backend import Engine
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.queue import QueueProtocol
from recipes.stores.sqlite.location import path_of

if TYPE_CHECKING:
    from recipes._contract.connection import AsyncLink, Link, OnEnd

__all__ = ["SqliteEngine", "engine", "lifelines"]

NO_FCNTL = "this platform has no fcntl, with which processes lock files"
ELSEWHERE = "use it on Linux, macOS or another Unix, or use etcd:// or zookeeper://"


def lifelines() -> list[int]:
    """Return the files whose kernel locks say that this process lives."""
    from recipes.stores.sqlite.lifeline import descriptors

    return descriptors()


def engine(parts: SplitResult, options: dict[str, Any]) -> tuple[SqliteEngine, set[str]]:
    """Return the engine of the file that a URL names; there are no options of its own."""
    del options
    return SqliteEngine.named(parts), set()


class SqliteEngine(Engine):
    """A file on a local disk."""

    guarantees = STORES["sqlite"]

    def __init__(self, path: str) -> None:
        self._path = path
        self.label = f"sqlite://{path}"

    @classmethod
    def named(cls, parts: SplitResult) -> SqliteEngine:
        """Return the engine of the file that a URL names.

        Raises:
            StoreRefused: This platform cannot lock files.
            ValueError: The URL names no file.
        """
        one = cls(path_of(parts))
        if find_spec("fcntl") is None:
            raise StoreRefused(one.label, f"{NO_FCNTL}; {ELSEWHERE}")
        return one

    def protocol(self) -> QueueProtocol:
        """Return the protocol for one session, with an id of its own."""
        return QueueProtocol(secrets.token_hex(8))

    def link(self, on_end: OnEnd) -> Link:
        """Return a new blocking link."""
        from recipes.stores._kit.blocking import QueueLink
        from recipes.stores.sqlite.session import FileSession

        try:
            return QueueLink(FileSession(self._path, self.label, on_end))
        except OSError as error:  # too many open files
            raise StoreUnavailable(self.label, str(error)) from None

    def async_link(self, on_end: OnEnd) -> AsyncLink:
        """Return a new asyncio link."""
        from recipes.stores._kit.tasks import AsyncQueueLink
        from recipes.stores.sqlite.session import FileSession

        return AsyncQueueLink(FileSession(self._path, self.label, on_end))
