"""SQLite: processes on one machine that share a file, without a server."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from recipes._contract.backend import Backend
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.queue import QueueProtocol
from recipes.stores.sqlite.location import path_of

if TYPE_CHECKING:
    from recipes._contract.connection import AsyncConnection, Connection, OnEnd

__all__ = ["SqliteBackend", "backend", "liveness_locks"]

NO_FCNTL = "this platform has no fcntl, with which processes lock files"
ELSEWHERE = "use it on Linux, macOS or another Unix, or use etcd:// or zookeeper://"


def liveness_locks() -> list[int]:
    """Return the files whose kernel locks say that this process lives."""
    from recipes.stores.sqlite.liveness import descriptors

    return descriptors()


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[SqliteBackend, set[str]]:
    """Return the backend of the file that a URL names; there are no options of its own."""
    del options
    return SqliteBackend.named(parts), set()


class SqliteBackend(Backend):
    """A file on a local disk."""

    guarantees = STORES["sqlite"]

    def __init__(self, path: str) -> None:
        self._path = path
        self.label = f"sqlite://{path}"

    @classmethod
    def named(cls, parts: SplitResult) -> SqliteBackend:
        """Return the backend of the file that a URL names.

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
        return QueueProtocol(os.urandom(8).hex())

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores._kit.blocking import QueueConnection
        from recipes.stores.sqlite.session import FileSession

        try:
            return QueueConnection(FileSession(self._path, self.label, on_end))
        except OSError as error:  # too many open files
            raise StoreUnavailable(self.label, str(error)) from None

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores._kit.tasks import AsyncQueueConnection
        from recipes.stores.sqlite.session import FileSession

        return AsyncQueueConnection(FileSession(self._path, self.label, on_end))
