"""Files of SQLite, in the place of a server: nothing runs, and a prefix is a file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from integration.harness.process import Server

__all__ = ["Files"]


class Files(Server):
    """A directory of files; each prefix is one, made at first use."""

    scheme = "sqlite"

    def __init__(self) -> None:
        super().__init__("sqlite", 0)

    def command(self) -> Sequence[str]:
        raise AssertionError("no server should be started")

    def healthy(self) -> bool:
        return True

    def version(self) -> str:
        return sqlite3.sqlite_version

    def url(self, prefix: str = "") -> str:
        file = self.home / prefix
        file.parent.mkdir(parents=True, exist_ok=True)
        return f"sqlite://{file}"

    @property
    def running(self) -> bool:
        """There is nothing that could have died."""
        return True

    def start(self) -> Self:
        """Nothing to start."""
        return self

    def ask(self, prefix: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask a file, as the command line of SQLite would."""
        file = self.home / prefix
        if not file.exists():
            return []
        with contextlib.closing(sqlite3.connect(file, timeout=10)) as db, db:
            return db.execute(sql, values).fetchall()

    def contenders(self, prefix: str) -> tuple[str, ...]:
        """Return who stands in the queues of a file, as ``file:queue/token``."""
        found = self.ask(prefix, "SELECT queue, token FROM contender ORDER BY token")
        return tuple(f"{prefix}:{queue}/{token}" for queue, token in found)

    def delete(self, contender: str) -> None:
        """Delete one contender, as an operator would."""
        prefix, _, ref = contender.partition(":")
        queue, _, token = ref.rpartition("/")
        self.ask(prefix, "DELETE FROM contender WHERE queue = ? AND token = ?", queue, int(token))

    def sessions(self) -> set[str]:
        """Return the sessions in all files."""
        files = [path.relative_to(self.home) for path in self.home.rglob("*-clients")]
        prefixes = [str(path).removesuffix("-clients") for path in files]
        return {one for prefix in prefixes for (one,) in self.ask(prefix, "SELECT id FROM session")}

    def clean(self, prefix: str) -> None:
        """Delete a file, and what belongs to it."""
        for path in (self.home / prefix).parent.glob(f"{Path(prefix).name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
