"""What the servers of databases have in common."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from integration.harness.demoted import demoted, unprivileged
from integration.harness.process import Server, ServerUnavailable
from integration.harness.throwaway import free_ports, memory_directory

__all__ = ["CONNECTIONS", "TABLES", "Database"]

CONNECTIONS = 300
"""How many clients each server accepts."""
TABLES = "recipes_"
"""What the names of the package's tables begin with."""

_templates: dict[tuple[type[Database], Path], Path] = {}
_preparing = threading.Lock()


class Database(Server):
    """A database server on loopback, with a database ``app``, of a user ``app`` with the password ``app``.

    Its data begin as a copy of what was prepared once in this process. As root it runs as another user.

    Args:
        label: In errors.
        programs: The program, or the directory with the programs.
        keeps: Whether what was committed is kept over a kill; else durability is given up for speed.
        settings: More of its configuration.
        folder: Where its data are made, on a disk say; by default in memory if there is room.
    """

    users: ClassVar[tuple[str, ...]]
    """The users a server of root's runs as: the first that exists."""
    now: ClassVar[str]
    """Its time in microseconds, as it is asked for."""

    def __init__(
        self,
        label: str,
        programs: Path,
        *,
        keeps: bool = False,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(label, *free_ports(1), folder=folder)
        self.programs = programs
        self.keeps = keeps
        self.settings = dict(settings or {})
        self.data = self.home / "data"
        self.user = unprivileged(*self.users)

    def prepare(self) -> None:
        self.own_home()
        if not self.data.exists():
            with _preparing:
                template = self._template()
            subprocess.run(["cp", "-a", template / "data", self.data], check=True, timeout=60)

    def own_home(self) -> None:
        """Give the directory to the user of the server."""
        if self.user is not None:
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)

    @abstractmethod
    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query of the administrator's finds."""

    def contenders(self, root: str = "", *, tables: str = TABLES) -> tuple[str, ...]:
        """Return who stands in the queues of a root, as ``root:queue/token``: those whose session lives."""
        found = self.ask(
            f"SELECT queue, token FROM {tables}contender JOIN {tables}session"
            f" ON {tables}session.id = session WHERE expires_at > {self.now} ORDER BY queue, token"
        )
        start = f"{root}:" if root else ""
        return tuple(f"{queue}/{token}" for queue, token in found if queue.startswith(start))

    def sessions(self, *, tables: str = TABLES) -> set[str]:
        """Return the sessions that live."""
        return {one for (one,) in self.ask(f"SELECT id FROM {tables}session WHERE expires_at > {self.now}")}

    def clean(self, root: str, *, tables: str = TABLES) -> None:
        """Delete the queues and values of a root, and who stands there."""
        of = {"contender": "queue", "value": "name", "receipt": "name", "queue": "name"}
        for table, name in of.items():
            within = f"{name} >= %s AND {name} < %s"
            self.ask(f"DELETE FROM {tables}{table} WHERE {within}", f"{root}:", f"{root};")

    @abstractmethod
    def initialise(self, folder: Path) -> None:
        """Make the first data, in ``folder / "data"``."""

    def run(self, words: Iterable[object], *, folder: Path | None = None, given: str = "") -> None:
        """Run a program of the server's as its user."""
        done = subprocess.run(
            demoted(self.user, words),
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder or self.home,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
            raise ServerUnavailable(f"`{' '.join(done.args)}` failed: {' '.join(said)}")

    def _template(self) -> Path:
        key = type(self), self.programs
        if key not in _templates:
            folder = Path(tempfile.mkdtemp(prefix=f"recipes-{self.scheme}-new-", dir=memory_directory()))
            atexit.register(_remove, folder, os.getpid())
            if self.user is not None:
                os.chown(folder, self.user.pw_uid, self.user.pw_gid)
            self.initialise(folder)
            _templates[key] = folder
        return _templates[key]


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
