"""A file, and links to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recipes.stores.sqlite.blocking import SqliteLink
from recipes.stores.sqlite.requests import Start


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "locks.db")


@pytest.fixture
def link(path: str) -> Iterator[Callable[[str], SqliteLink]]:
    links: list[SqliteLink] = []

    def started(session: str) -> SqliteLink:
        one = SqliteLink(path, "label", lambda reason: ended.append((session, reason)))
        links.append(one)
        one.ask(Start(session, 5.0), 1.0)
        return one

    ended: list[tuple[str, str]] = []
    started.ended = ended  # type: ignore[attr-defined]
    yield started
    for one in links:
        one.close()
