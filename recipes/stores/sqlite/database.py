"""The connection to the file: opened when it is needed, and never carried across a fork.

SQLite remembers in each process which locks its connections hold. A child that inherits this memory
believes to hold locks that it does not, also for connections of its own, and the file may be damaged: so
connections are closed before a fork, and opened again by the process that goes on.

Nor does SQLite notice that its file, or what it keeps beside it, was deleted, or that another was put in its
place: this process would go on with what it has open, and others with what is there. So that is looked at
before each use, too.

Nor does SQLite notice that somebody else closed its descriptors. It would write to whatever has the
numbers now, and close that; and the locks of all connections of the process to that file are gone. So the
descriptors are looked at before each use. If they were closed, the connection is left as it is, and this
process has to do without the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import weakref
from typing import NoReturn

from recipes._descriptors import TAKEN, Identity, identity
from recipes._mutex import new_rlock
from recipes.errors import SessionLost, StoreRefused, StoreUnavailable
from recipes.stores._kit.session import Busy
from recipes.stores.sqlite.descriptors import Files, Opening
from recipes.stores.sqlite.liveness import Folder
from recipes.stores.sqlite.schema import connect

__all__ = ["Database"]

FORK_WAITS_S = 1.0
SLICE_S = 0.1  # see recipes._run.waiting


class Database:
    """One file, and at most one connection to it; a thread that uses it has `lock`.

    Args:
        path: The file.
        label: Where it is, for errors.
        folder: Where the sessions of its clients show that they live.
        given: The path that the user gave; a link in it may lead elsewhere later.
    """

    def __init__(self, path: str, label: str, folder: Folder, given: str) -> None:
        self.path = path
        self._given = given
        self.lock = new_rlock()
        self._label = label
        self._folder = folder
        self._db: sqlite3.Connection | None = None
        self._file: Identity | None = None
        self._files: Files | None = None
        self._moved = False
        self._closed = False
        self._forking = False
        with _gate:
            _databases.add(self)

    @property
    def mine(self) -> bool:
        """Whether this very thread has the lock: the caller is a signal handler, amid what it interrupted."""
        return bool(self.lock._is_owned())  # noqa: SLF001 - nobody else knows

    def acquire(self, timeout_s: float) -> bool:
        """Take the lock within so many seconds, in slices, so that signals are handled.

        Not a second time: it is False at once if `mine`, and then nothing is to be released.
        """
        if self.mine:
            return False
        while not self.lock.acquire(timeout=max(0.0, min(timeout_s, SLICE_S))):
            timeout_s -= SLICE_S
            if timeout_s <= 0:
                return False
        return True

    def release(self) -> None:
        """Let the lock go if this thread has it; what an interrupt left half done is undone."""
        if not self.mine:  # an interrupt may hide it from who asked for it
            return
        try:
            if self._db is not None and self._db.in_transaction:
                if self._is_taken(self._links()):
                    self.close()
                else:
                    self._db.execute("ROLLBACK")
            if self._closed:
                self.close()
        finally:
            self.lock.release()

    def connection(self, *, thorough: bool = False) -> sqlite3.Connection:
        """Return the connection; with the lock held.

        Args:
            thorough: Look for what was renamed, too.

        Raises:
            Busy: Another connection of this process is in use whose files were replaced.
            SessionLost: The file is another than it was, or what is beside it; or somebody else closed a
                descriptor of it.
            StoreRefused: It cannot be used.
            StoreUnavailable: It was closed for good.
            sqlite3.Error: See `schema.meaning`.
        """
        if self._closed:
            raise StoreUnavailable(self._label, "the link is closed", unsent=True)
        file, links = identity(self._given), self._links()
        if self._is_moved(file, links) or (thorough and self._files is not None and not self._files.named):
            self._give_up()
        if self._is_taken(links):
            self.close()
            raise SessionLost(TAKEN)
        if self._db is None:
            if self.path in _torn:
                raise StoreRefused(self._label, "this process was forked amid a transaction; fork it earlier")
            if file in _taken:
                raise StoreRefused(self._label, f"{TAKEN}; restart it, and connect after that code")
            self._open()
        assert self._db is not None, "it should be open"
        return self._db

    def _open(self) -> None:
        """Open the connection to what is at the path, unless that is replaced meanwhile."""
        if not all(one.lets_go() for one in _all() if one is not self and one.path == self.path):
            raise Busy
        opening = Opening()
        try:
            self._db = connect(self.path, self._label, self._in_use)
            self._files = Files(self.path, opening)
            file = identity(self._given)
            if not self._files.complete or file != self._files.file or self._is_moved(file, self._links()):
                self._give_up()
            self._file = file
        except BaseException:  # what is half opened would not be looked at
            opening.ends()
            self.close()
            raise

    def lets_go(self) -> bool:
        """Close the connection if its files were replaced; False: it is in use.

        A new connection would share with it what SQLite has open for the file, and other processes would not.
        """
        if not self._is_left():
            return True
        if not self.acquire(0.0):
            return False
        try:
            # Looked at again: as it was being closed, SQLite may have removed what is beside the file.
            if self._is_left():
                self._moved = True
                self.close()
        finally:
            self.release()
        return True

    def _is_left(self) -> bool:
        """Whether the connection is to files that were replaced."""
        return self._db is not None and self._is_moved(self._file, self._links())

    def _give_up(self) -> NoReturn:
        """Close the connection for good, as its files were replaced; once it is closed that does not show."""
        self._moved = True
        self.close()
        raise SessionLost("the file was deleted, or another was put in its place")

    def _links(self) -> int | None:
        files = self._files
        return 1 if files is None else files.links()

    def _is_moved(self, file: Identity | None, links: int | None) -> bool:
        """Whether the file is another than it was; or it, its log or its memory has no name any more."""
        return self._moved or (self._file is not None and self._file != file) or links == 0

    def _is_taken(self, links: int | None) -> bool:
        """Whether somebody else closed what SQLite has open: for this connection, or for another."""
        return self._file in _taken or links is None

    def _in_use(self, db: sqlite3.Connection) -> bool:
        return self._folder.living([row[0] for row in db.execute("SELECT id FROM session").fetchall()])

    def close(self) -> None:
        """Close the connection, or leave it as it is where others use its descriptors; with the lock held."""
        db, self._db = self._db, None
        files, self._files = self._files, None
        if db is None:
            return
        if files is None or files.whole:
            db.close()
            return
        _keep_for_ever(db)
        if self._file is not None:
            _taken.add(self._file)

    def end(self, within_s: float) -> None:
        """Close it for good: within so many seconds, or as soon as a transaction is over."""
        self._closed = True
        if self.mine:
            return
        try:
            self.acquire(within_s)
        finally:
            self.release()

    # Fork.

    def before_fork(self) -> None:
        """Close the connection, unless a transaction does not end: this thread's, or that of another."""
        if self.acquire(FORK_WAITS_S):
            self._forking = True
            self.close()
        else:
            _torn.add(self.path)

    def after_fork_in_parent(self) -> None:
        """Go on; what a signal handler interrupted that forks does so too."""
        _torn.discard(self.path)
        if self._forking and self.mine:
            self._forking = False
            self.release()

    def after_fork_in_child(self) -> None:
        """Leave alone what could not be closed: closing it here would undo what the parent is doing."""
        interrupted, self.lock, self._forking = self.mine, new_rlock(), False
        db, self._db = self._db, None
        if db is None:
            return
        _torn.add(self.path)  # SQLite takes the locks of the parent for its own
        _keep_for_ever(db)
        if interrupted:  # this thread goes on amid the transaction, which is the parent's alone
            db.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)


def _keep_for_ever(db: sqlite3.Connection) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # so that it is never finalized, which would close it


def _all() -> list[Database]:
    while True:
        try:
            return list(_databases)
        except RuntimeError:  # another thread has made one meanwhile
            continue


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_torn: set[str] = set()
_taken: set[Identity] = set()
"""Files that this process has to do without: SQLite believes to have locks on them, and descriptors."""

_gate = new_rlock()
"""Kept through a fork, as is the lock of each database: none is made meanwhile, and so none opened."""


def _before_fork() -> None:
    _gate.acquire()
    for database in list(_databases):
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in list(_databases):
        database.after_fork_in_parent()
    _open_gate()


def _after_fork_in_child() -> None:
    for database in list(_databases):
        database.after_fork_in_child()
    _open_gate()


def _open_gate() -> None:
    with contextlib.suppress(RuntimeError):  # an interrupt struck before the fork, which goes on all the same
        _gate.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
