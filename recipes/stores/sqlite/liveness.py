"""Which sessions are alive: each session holds a lock that the kernel drops when its process dies.

It is a lock on a file of the session's own, in a directory beside the database. A process identifier that is
used again does not revive it, and a forked child closes it. The file gets its name when it is locked: under
that name nobody ever sees it free whose process lives, unless somebody in that process closes the descriptor.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from recipes._descriptors import Descriptor
from recipes.events import log
from recipes.stores.sqlite import filelock

__all__ = ["Folder", "LivenessLock", "descriptors"]

MOST_TRIES = 50
PAUSE_S = 0.002
NEW = ".new"
LOOKING = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


_warned: set[tuple[str, str]] = set()


class Folder:
    """The directory beside the database, where sessions have their locks and their addresses.

    A user that may write the database may use it.
    """

    def __init__(self, path: str) -> None:
        self._database = path
        self.path = f"{path}-clients"

    def make(self) -> None:
        """Have it there, and open to those to whom the database is; its owner sees to that each time."""
        with suppress(FileExistsError):
            Path(self.path).mkdir(mode=0o700)
        database = os.stat(self._database)  # noqa: PTH116
        here = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(here)
            if found.st_uid == os.geteuid():
                _share(here, found, database)
        finally:
            os.close(here)

    def warn(self, what: str, error: OSError) -> None:
        """Log, once in a process, what is slower than it need be."""
        if (self.path, what) not in _warned:
            _warned.add((self.path, what))
            log.warning("%s: %s (%s); see who may use this directory", self.path, what, error)

    @property
    def mode(self) -> int:
        """The permissions of those that may use what is in it."""
        return Path(self.path).stat().st_mode & 0o666

    def lock_of(self, session: str) -> str:
        """Return where a session has its lock."""
        return f"{self.path}/{session}.lock"

    def address_of(self, session: str) -> str:
        """Return where a session receives notifications."""
        return f"{self.path}/{session}.sock"

    def dead(self, sessions: Iterable[str]) -> list[str]:
        """Return those whose process is known to have died; of others nothing is known."""
        return [session for session in set(sessions) if self._is_free(session)]

    def living(self, sessions: Iterable[str]) -> bool:
        """Whether a process keeps one of these sessions."""
        return any(self._is_free(session) is False for session in sessions)

    def _is_free(self, session: str) -> bool | None:
        """Whether nobody holds the lock of a session; None: it has none, or it cannot be seen."""
        if not session.isalnum():  # not of our making
            return None
        try:
            descriptor = os.open(self.lock_of(session), os.O_RDONLY | LOOKING)
        except OSError:
            return None
        try:
            return not filelock.is_taken(descriptor)
        except OSError:
            return None
        finally:
            with suppress(OSError):
                os.close(descriptor)

    def forget(self, sessions: Iterable[str]) -> None:
        """Remove what sessions that have ended left there; of whom a process keeps it does so itself."""
        for session in sessions:
            if session.isalnum() and filelock.remove_free(self.lock_of(session)) is not False:
                _unlink(self.address_of(session))

    def tidy(self, known: Iterable[str]) -> None:
        """Remove what is left of sessions that nobody knows and nobody keeps: of an earlier boot, say."""
        known = set(known)
        for file in [*Path(self.path).iterdir()]:
            session = file.stem
            if session in known or not session.isalnum():
                continue
            if file.suffix == NEW:
                filelock.remove_free(str(file))
            elif file.suffix == ".lock" and filelock.remove_free(str(file)):
                _unlink(self.address_of(session))


def _share(directory: int, found: os.stat_result, database: os.stat_result) -> None:
    """Give a directory to the group of the database, if that may write it, and to its owner if root may."""
    wanted = 0o700 | (0o070 if database.st_mode & 0o060 == 0o060 else 0)
    wanted |= 0o007 if database.st_mode & 0o006 == 0o006 else 0
    wanted |= 0o2000 if wanted & 0o070 else 0  # what is made in it is the group's, too
    owner = database.st_uid if os.geteuid() == 0 else found.st_uid
    if (found.st_uid, found.st_gid) != (owner, database.st_gid):
        os.fchown(directory, owner, database.st_gid)
    if stat.S_IMODE(found.st_mode) != wanted:
        os.fchmod(directory, wanted)


class LivenessLock:
    """The lock of one session of this process; made before the session is, so that it is never seen free."""

    def __init__(self, folder: Folder, session: str) -> None:
        self._folder = folder
        self._own: Descriptor | None = None
        path = folder.lock_of(session)
        _liveness_locks.add(self)
        try:
            self._make(path.removesuffix(".lock") + NEW, path)
        except OSError as error:  # then it lives as long as it is renewed, as with any other store
            self.drop()
            folder.warn("nobody will see at once when a process dies", error)

    def _make(self, new: str, path: str) -> None:
        """Make the file and lock it, and only then give it its name; raises ``OSError``."""
        for _ in range(MOST_TRIES):
            own = self._own = Descriptor(os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            try:
                if self._is_locked(own.number, new):
                    os.rename(new, path)  # noqa: PTH104
                    return
            except OSError:
                _unlink(new)
                raise
            own.close()
            time.sleep(PAUSE_S)
        _unlink(new)
        raise BlockingIOError

    def _is_locked(self, descriptor: int, new: str) -> bool:
        """Lock the file; False: somebody is just tidying up, and takes it for a left one."""
        with suppress(OSError):  # a file system without permissions
            os.fchmod(descriptor, self._folder.mode)
        return filelock.take(descriptor) and filelock.is_at(descriptor, new)

    @property
    def descriptor(self) -> int:
        """The file that is locked; below 0 if there is none."""
        return self._own.number if self._own is not None and self._own.mine else -1

    @property
    def taken(self) -> bool:
        """Whether somebody else has closed the file, and the lock is gone with it."""
        return self._own is not None and self._own.taken

    def drop(self) -> None:
        """Let the lock go: others then see that nothing keeps the session; never raises."""
        _liveness_locks.discard(self)
        if self.descriptor >= 0:
            with suppress(OSError):  # closing lets it go as well, unless a child has inherited it
                filelock.release(self.descriptor)
        if self._own is not None:
            self._own.close()


_liveness_locks: set[LivenessLock] = set()  # of this process


def descriptors() -> list[int]:
    """Return the files whose locks say that this process lives.

    A process that is handed one, and keeps it open, lives on for others when this one is
    killed: at most until the session runs out.
    """
    return [one.descriptor for one in list(_liveness_locks) if one.descriptor >= 0]


def _unlink(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_liveness_locks.clear)
