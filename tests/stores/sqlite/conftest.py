"""A file, and connections to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recipes.stores._kit.blocking import QueueConnection
from recipes.stores.sqlite.session import FileSession
from tests.stores.sqlite.connecting import start
from tests.stores.sqlite.file import File


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "locks.db")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    one = File(tmp_path / "locks.db")
    yield one
    one.db.close()


@pytest.fixture
def connection(path: str) -> Iterator[Callable[[str], QueueConnection]]:
    connections: list[QueueConnection] = []

    def started(session: str) -> QueueConnection:
        one = QueueConnection(FileSession(path, "label", lambda reason: ended.append((session, reason))))
        connections.append(one)
        one.ask(start(session), 1.0)
        return one

    ended: list[tuple[str, str]] = []
    started.ended = ended  # type: ignore[attr-defined]
    yield started
    for one in reversed(connections):  # what an earlier one leaves is news to those behind it
        one.close()
