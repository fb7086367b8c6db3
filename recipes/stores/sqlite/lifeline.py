"""Who is alive: each session holds a lock that the kernel drops when its process dies.

A POSIX record lock, on a file of the session's own in a directory beside the database. It belongs to the
process: a forked child does not inherit it, and a process identifier that is used again does not revive it.
It says nothing within one process, and is dropped when *any* descriptor of its file is closed there: so a
process never opens the files of its own sessions a second time.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Folder", "Lifeline"]

MOST_TRIES = 100

_mine: set[str] = set()  # the sessions of this process


class Folder:
    """The directory beside the database, where sessions have their locks and their addresses.

    Whoever may write the database may use it.
    """

    def __init__(self, path: str) -> None:
        self._database = path
        self.path = f"{path}-clients"

    def make(self) -> None:
        """Have it there."""
        try:
            Path(self.path).mkdir(mode=0o700)
        except FileExistsError:
            return
        Path(self.path).chmod(0o700 | self._shared(0o070) | self._shared(0o007))

    def _shared(self, whom: int) -> int:
        """Return ``whom``, if those may read and write the database."""
        wanted = whom & 0o666
        return whom if Path(self._database).stat().st_mode & wanted == wanted else 0

    @property
    def mode(self) -> int:
        """Who may use what stands in it."""
        return Path(self.path).stat().st_mode & 0o666

    def lock_of(self, session: str) -> str:
        """Return where a session has its lock."""
        return f"{self.path}/{session}.lock"

    def address_of(self, session: str) -> str:
        """Return where a session hears."""
        return f"{self.path}/{session}.sock"

    def dead(self, sessions: Iterable[str]) -> list[str]:
        """Return those whose process is known to have died; of others nothing is known."""
        return [session for session in set(sessions) if session not in _mine and self._is_free(session)]

    def living(self, sessions: Iterable[str]) -> bool:
        """Whether a process keeps one of these sessions."""
        return any(session in _mine or self._is_free(session) is False for session in sessions)

    def _is_free(self, session: str) -> bool | None:
        """Whether nobody holds the lock of a session; None: it has none, or it cannot be seen."""
        try:
            descriptor = os.open(self.lock_of(session), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return False if error.errno in (errno.EACCES, errno.EAGAIN) else None
        finally:
            os.close(descriptor)
        return True

    def forget(self, sessions: Iterable[str]) -> None:
        """Remove what sessions that have ended left there."""
        for session in sessions:
            for path in (self.lock_of(session), self.address_of(session)):
                if session not in _mine:
                    _unlink(path)

    def tidy(self, known: Iterable[str]) -> None:
        """Remove what is left of sessions that nobody knows and nobody keeps: of an earlier boot, say."""
        found = {file.stem for file in Path(self.path).iterdir()}
        self.forget(self.dead(found - set(known)))


class Lifeline:
    """The lock of one session of this process; made before the session is, so that it is never seen free."""

    def __init__(self, folder: Folder, session: str) -> None:
        self._folder = folder
        self._session = session
        self._descriptor = -1
        _mine.add(session)  # first: nobody in this process is to look at the file
        try:
            tries = iter(range(MOST_TRIES))
            while not self._locked(folder.lock_of(session)):
                os.close(self._descriptor)
                self._descriptor = -1
                next(tries)
        except (OSError, StopIteration):  # then it lives as long as it is renewed, as with any other store
            self.drop()

    def _locked(self, path: str) -> bool:
        """Make the file and lock it; False: somebody was just looking at it, or has removed it."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(self._descriptor, self._folder.mode)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))  # noqa: PTH116
        except (BlockingIOError, PermissionError, FileNotFoundError):
            return False

    def drop(self) -> None:
        """Let the lock go: whoever looks then sees that nobody keeps the session."""
        _mine.discard(self._session)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _unlink(path: str) -> None:
    try:
        Path(path).unlink()
    except OSError:
        pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mine.clear)
