"""A file, and links to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recipes.stores._kit.blocking import QueueLink
from recipes.stores.sqlite.session import FileSession
from tests.stores.sqlite.linking import start


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "locks.db")


@pytest.fixture
def link(path: str) -> Iterator[Callable[[str], QueueLink]]:
    links: list[QueueLink] = []

    def started(session: str) -> QueueLink:
        one = QueueLink(FileSession(path, "label", lambda reason: ended.append((session, reason))))
        links.append(one)
        one.ask(start(session), 1.0)
        return one

    ended: list[tuple[str, str]] = []
    started.ended = ended  # type: ignore[attr-defined]
    yield started
    for one in links:
        one.close()
