"""The tables, and opening a file so that they are there, are ours, and are of this boot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.errors import StoreError, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores._kit.session import Busy
from recipes.stores.sqlite.location import check, machine, no_room

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["EPOCH", "checkpoint", "connect", "meaning", "synced", "transaction"]

APPLICATION = 0x52454349  # "RECI"
VERSION = 3
"""Rises when a client of an older version can no longer use the tables; what it need not know of is added."""

EPOCH = 1 << 40
"""A token is the number of the boot times this, and the number of the grant within it."""

PAGE = 1024
CHECKPOINT_WAITS_MS = 50
RESERVE = 256 * PAGE
"""Bytes kept in the log and in the file, so that sessions can be renewed and ended on a full disk."""

CONTENDER = """
CREATE TABLE contender (
    queue TEXT NOT NULL, token INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL,
    mark TEXT NOT NULL DEFAULT '', owner TEXT NOT NULL DEFAULT '', data BLOB NOT NULL DEFAULT x'',
    version INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (queue, token)
) WITHOUT ROWID;
CREATE TABLE observer (
    queue TEXT NOT NULL, session TEXT NOT NULL, state TEXT, PRIMARY KEY (queue, session)
) WITHOUT ROWID;
"""
"""What versions before 3 had in another form, or not at all."""

VALUES = """
CREATE TABLE value (key TEXT PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE receipt (
    session TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, said BLOB NOT NULL,
    PRIMARY KEY (session, key)
) WITHOUT ROWID;
CREATE TRIGGER receipts AFTER DELETE ON session BEGIN DELETE FROM receipt WHERE session = OLD.id; END;
"""
"""What clients that do not know of values leave alone; by the trigger they, too, end a session's receipts."""

TABLES = """
CREATE TABLE machine (only INTEGER PRIMARY KEY CHECK (only = 1), boot TEXT NOT NULL, token INTEGER NOT NULL);
CREATE TABLE session (id TEXT PRIMARY KEY, ttl_s REAL NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE watch (
    token INTEGER NOT NULL, session TEXT NOT NULL, waiter INTEGER NOT NULL, PRIMARY KEY (token, session)
) WITHOUT ROWID;
CREATE TABLE reserve (room BLOB);
INSERT INTO machine VALUES (1, '', 0);
"""

WHOSE = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
    (SELECT COUNT(*) FROM sqlite_master)
"""

HAS = """
SELECT (SELECT user_version FROM pragma_user_version),
    EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'value')
"""

DAMAGED = "the file is damaged; stop all clients, and delete it: tokens begin anew then"
MEANT = {
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full"),
    sqlite3.SQLITE_IOERR_SHMSIZE: (StoreFull, "the disk is full"),
    sqlite3.SQLITE_READONLY: (StoreRefused, "the file is read-only"),
    sqlite3.SQLITE_CANTOPEN: (StoreRefused, "the file cannot be opened"),
    sqlite3.SQLITE_PERM: (StoreRefused, "no permission for the file"),
    sqlite3.SQLITE_NOTADB: (StoreRefused, "the file is no SQLite database"),
    sqlite3.SQLITE_CORRUPT: (StoreRefused, DAMAGED),
    sqlite3.SQLITE_ERROR: (StoreRefused, "the tables are not as they should be"),
}


def meaning(error: sqlite3.Error, label: str) -> StoreError | Busy:
    """Return what an error of SQLite means to a caller."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy()
    kind, what = MEANT.get(code) or MEANT.get(code & 0xFF) or (StoreUnavailable, "SQLite failed")
    return kind(label, f"{what} ({error})")


@contextmanager
def transaction(db: sqlite3.Connection, how: str = "IMMEDIATE") -> Generator[None]:
    """Begin, and commit at the end; an exception, whichever, leaves no trace."""
    db.execute(f"BEGIN {how}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def synced(db: sqlite3.Connection) -> Generator[None]:
    """Have the commit within survive a power cut: nothing of it is visible before it is on the disk.

    Interrupted, it leaves later commits synced too.
    """
    (before,) = db.execute("PRAGMA synchronous").fetchone()
    db.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        if not db.in_transaction:  # an interrupt struck as one began: SQLite would raise another error
            db.execute(f"PRAGMA synchronous = {before}")


def checkpoint(db: sqlite3.Connection) -> bool:
    """Copy the log to the file, so that the next writer begins it again; whether all of it was copied.

    While it copies nobody writes. In many versions of SQLite a checkpoint that starts when another has just
    ended, at the moment at which a writer begins the log again, damages the file; SQLite's own checkpoints
    at a commit do not keep writers out, and so are switched off.
    """
    db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAITS_MS}")
    try:
        busy, logged, copied = db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
    finally:
        db.execute("PRAGMA busy_timeout = 0")
    return not busy and logged == copied


def connect(path: str, label: str, in_use: Callable[[sqlite3.Connection], bool]) -> sqlite3.Connection:
    """Open the file, and make or check what is in it; never waits for another process.

    Args:
        path: The file.
        label: Where it is, for errors.
        in_use: Whether a process of this machine keeps one of the sessions in the file.

    Raises:
        StoreRefused: No file can be shared there, or it is somebody else's.
        StoreUnavailable: This process has as many files open as it may.
        sqlite3.Error: What `meaning` explains.
    """
    check(path, label)
    with _saying_why(path, label):
        db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with _saying_why(path, label):
                _prepare(db, label)
            _tune(db)
            _enter_boot(db, label, in_use)
            _keep_room(db, path)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def _saying_why(path: str, label: str) -> Generator[None]:
    """Say why a file cannot be opened, if that is known; SQLite does not."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
        reason = no_room(path) if code & 0xFF == sqlite3.SQLITE_CANTOPEN else None
        if reason is None:
            raise
        raise StoreUnavailable(label, str(reason)) from None


def _prepare(db: sqlite3.Connection, label: str) -> None:
    ours = _is_ours(db, label)
    if not ours:
        db.execute(f"PRAGMA page_size = {PAGE}")
    # Also a file of ours may have another journal: a copy by VACUUM INTO has, and a tool may have set it.
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreRefused(label, f"the file cannot be shared (its journal stays {mode!r})")
    if ours:
        _upgrade(db)
        return
    with transaction(db):
        if not _is_ours(db, label):  # another may have been quicker
            _execute(db, TABLES + CONTENDER + VALUES)
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {VERSION}")


def _execute(db: sqlite3.Connection, script: str) -> None:
    """Execute statements inside the transaction, which ``executescript`` would commit."""
    for statement in script.strip().split(";\n"):
        db.execute(statement)


def _upgrade(db: sqlite3.Connection) -> None:
    """Have tables of an older version as they are now, with all that is in them.

    A client from before there were values goes on as it did, and may open the file again. One of a version
    before 3 that has the file open keeps what it holds, renews and releases it; all else that it asks is
    refused, as the columns are others. It cannot open the file again.
    """
    if db.execute(HAS).fetchone() == (VERSION, True):
        return
    with transaction(db):
        version, has_values = db.execute(HAS).fetchone()
        if not has_values:  # else another was quicker
            _execute(db, VALUES)
        if version < VERSION:
            _upgrade_contenders(db, version)
            db.execute(f"PRAGMA user_version = {VERSION}")


def _upgrade_contenders(db: sqlite3.Connection, version: int) -> None:
    db.execute("ALTER TABLE contender RENAME TO older")
    _execute(db, CONTENDER)
    mark, owner = "CASE downgraded WHEN 0 THEN '' ELSE 'downgraded' END", "note" if version > 1 else "''"
    db.execute(
        "INSERT INTO contender (queue, token, id, kind, session, mark, owner, version) "  # noqa: S608 - constants
        f"SELECT queue, token, id, kind, session, {mark}, {owner}, downgraded FROM older"
    )
    db.execute("DROP TABLE older")


def _is_ours(db: sqlite3.Connection, label: str) -> bool:
    """Whether the tables are there; False: the file is empty. One look: another may be making them."""
    application, version, tables = db.execute(WHOSE).fetchone()
    if (application, version, tables) == (0, 0, 0):
        return False
    if application != APPLICATION:
        raise StoreRefused(label, "the file is another program's database; name a file of its own")
    if version > VERSION:
        raise StoreRefused(
            label, f"the file was made by a newer version of this package (schema {version}); upgrade here"
        )
    return True


def _tune(db: sqlite3.Connection) -> None:
    # A commit survives the death of a process, and need not survive the machine: no session does. What
    # must are values, see `synced`, and the boot's number, see _enter_boot. Checkpoints are synced, so the
    # file is never damaged.
    for pragma in ("synchronous = NORMAL", "secure_delete = OFF", "trusted_schema = OFF"):
        db.execute(f"PRAGMA {pragma}")
    for pragma in ("fullfsync", "checkpoint_fullfsync"):  # on macOS to sync leaves it in the disk's own cache
        db.execute(f"PRAGMA {pragma} = ON")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # see checkpoint


def _enter_boot(db: sqlite3.Connection, label: str, in_use: Callable[[sqlite3.Connection], bool]) -> None:
    """After a restart of the machine: end all sessions, and go on with larger tokens than ever.

    A power cut may take back the last commits. It cannot take back the number of the boot, which is
    synced before the first token of that boot is given; and tokens of the next boot are larger, however
    many of this one's were given.
    """
    boot = machine()
    if not boot:  # it cannot be known that the machine was restarted: every commit is synced
        db.execute("PRAGMA synchronous = FULL")
        return
    if _boot(db) == boot:
        return
    db.execute("PRAGMA synchronous = FULL")
    with transaction(db):
        if _boot(db) != boot:
            if in_use(db):
                raise StoreRefused(
                    label, "the file is in use under another kernel or clock; share it on one machine only"
                )
            for statement in (
                "DELETE FROM session",
                "DELETE FROM contender",
                "DELETE FROM watch",
                "DELETE FROM observer",
            ):
                db.execute(statement)
            db.execute("UPDATE machine SET boot = ?, token = (token / ? + 1) * ?", (boot, EPOCH, EPOCH))
    db.execute("PRAGMA synchronous = NORMAL")


def _boot(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT boot FROM machine").fetchone()[0])


def _keep_room(db: sqlite3.Connection, path: str) -> None:
    """Have the log and the file take up more of the disk than they need.

    A log is written again from its start after each checkpoint, and a file does not shrink: small
    changes find their room even when the disk is full.
    """
    try:
        if Path(f"{path}-wal").stat().st_size >= RESERVE:
            return
    except FileNotFoundError:
        pass
    try:
        with transaction(db):
            db.execute("INSERT INTO reserve VALUES (zeroblob(?))", (RESERVE,))
        with transaction(db):
            db.execute("DELETE FROM reserve")
        checkpoint(db)  # else only the log has grown
    except sqlite3.OperationalError as error:
        if not isinstance(meaning(error, ""), StoreFull):
            raise
