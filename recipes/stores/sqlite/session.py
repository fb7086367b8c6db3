"""One session with the file: what its two connections, blocking and asyncio, have in common."""

from __future__ import annotations

import os
import random
import socket
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recipes._contract.connection import OnEnd
from recipes._contract.operations import End, Enqueue, Open, Probe, Renew
from recipes._descriptors import TAKEN
from recipes._run.clock import boot_time
from recipes._section import section
from recipes._signals import of_a_handler
from recipes.errors import ReentrantCall, SessionLost, StoreError, StoreFull, StoreUnavailable
from recipes.events import log
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import Busy, Observe, Observed, Session
from recipes.stores.sqlite.database import Database
from recipes.stores.sqlite.liveness import Folder, LivenessLock
from recipes.stores.sqlite.notifications import Notifications
from recipes.stores.sqlite.schema import checkpoint, meaning, synced, transaction
from recipes.stores.sqlite.transactions import Sweep, Transaction, grows, lasts, writes

__all__ = ["FileSession"]

ROOM = 64 * 1024
"""With fewer bytes free on the disk nobody joins a queue: what is left is for renewing and ending."""

CHECKPOINT_CHANCE = 1 / 64
CHECKPOINT_BYTES = 1_000_000
"""One byte written adds the reciprocal to that chance: the log does not grow beyond a few large values."""

LOG_WARNS = 16_000_000
"""Bytes of the log: ordinarily it has less than a hundredth of that."""


class FileSession(Session):
    """Carries out commands, notifies other sessions of what came of them, and receives what these did.

    Args:
        path: The file.
        label: Where it is, for errors.
        on_end: Notified once if the session turns out to have ended.
    """

    def __init__(self, path: str, label: str, on_end: OnEnd) -> None:
        super().__init__(label, on_end)
        given, path = path, os.path.realpath(path)  # as SQLite itself does: links to one file are one store
        self.notifications: Notifications | None = None
        self._directory = str(Path(path).parent)
        self._folder = Folder(path)
        self._database = Database(path, label, self._folder, given)
        self._liveness: LivenessLock | None = None
        self._finished = False
        self._warned = False

    def try_once(self, command: Command, until: float) -> Any:
        """Carry out a command in one transaction, and notify those that wait for what it did."""
        try:
            return self._try(command, until)
        except StoreFull:
            if grows(command.op) is not None or not self._checkpoint():
                raise
            return self._try(command, until)  # there was room in the log, from its start

    def _try(self, command: Command, until: float) -> Any:
        database = self._database
        if database.mine:
            raise ReentrantCall
        with section.mark:
            try:
                if not database.acquire(until - boot_time()):
                    raise StoreUnavailable(self.label, "earlier requests take too long", unsent=True)
                db = database.connection(thorough=isinstance(command.op, Renew))
                self._expect_own(command)
                self._prepare(command)
                reply, work = self._transact(command, db)
            except sqlite3.Error as error:
                raise meaning(error, self.label) from None  # which says all that this one says
            except StoreError:
                raise
            except OSError as error:
                if of_a_handler(error):
                    raise
                raise StoreUnavailable(self.label, str(error)) from None
            finally:
                try:
                    database.release()
                finally:  # an interrupt may strike as that begins
                    database.release()
        self._tell(work)
        chance = CHECKPOINT_CHANCE + (grows(command.op) or 0) / CHECKPOINT_BYTES if writes(command) else 0.0
        if random.random() < chance and not self._checkpoint():  # noqa: S311 - spreads load only
            self._look_at_log()
        if isinstance(reply, SessionLost):
            raise reply
        return reply

    @property
    def taken(self) -> bool:
        """Whether somebody else closed what shows that this session lives, or what it receives with."""
        liveness, notifications = self._liveness, self.notifications
        return (liveness is not None and liveness.taken) or (
            notifications is not None and notifications.taken
        )

    def _expect_own(self, command: Command) -> None:
        """Give the session up if others take it for dead: when it is renewed, joins a queue, or waits."""
        if isinstance(command.op, Renew | Enqueue | Probe | Observe) and self.taken:
            raise SessionLost(TAKEN)

    def _prepare(self, command: Command) -> None:
        """See that there is room, and that others can see this session live before it does."""
        added = grows(command.op)
        if added is not None:
            room = os.statvfs(self._directory)
            if room.f_bavail * room.f_frsize < ROOM + 2 * added:  # in the log, and then in the file
                raise StoreFull(self.label, "the disk is full")
        if isinstance(command.op, Open) and self._liveness is None:
            try:
                self._folder.make()
            except OSError:  # then nothing is notified, and no death is seen: waiters look by themselves
                pass
            self._liveness = LivenessLock(self._folder, self.id)
            self.notifications = Notifications(self._folder, self.id)

    def _transact(self, command: Command, db: sqlite3.Connection) -> tuple[Any, Transaction]:
        reply: Any
        with ExitStack() as stack:
            if lasts(command.op):
                stack.enter_context(synced(db))
            stack.enter_context(transaction(db, "IMMEDIATE" if writes(command) else "DEFERRED"))
            work = Transaction(command, db, boot_time(), self._folder.dead, self.listen)
            try:
                reply = work.carry_out()
            except SessionLost as ended:
                reply = ended  # what was done about others stays done
        if isinstance(command.op, Open):
            self._tidy(db)
        self._finished = self._finished or isinstance(command.op, End)
        return reply, work

    def _tidy(self, db: sqlite3.Connection) -> None:
        known = db.execute("SELECT id FROM session").fetchall()
        try:
            self._folder.tidy(session for (session,) in known)
        except OSError:  # it cannot be read: another session may
            pass

    def _checkpoint(self) -> bool:
        """Have the log begin again with the next write; whether it will."""
        database = self._database
        if database.mine:
            return False
        with section.mark:
            try:
                return database.acquire(0.0) and checkpoint(database.connection())
            except (Busy, SessionLost, StoreError, sqlite3.Error):  # another time
                return False
            finally:
                try:
                    database.release()
                finally:  # see _once
                    database.release()

    def _look_at_log(self) -> None:
        """Warn once if it could not begin again for long."""
        wal = Path(f"{self._database.path}-wal")
        try:
            size = wal.stat().st_size
        except OSError:  # another time
            return
        if size > LOG_WARNS and not self._warned:
            self._warned = True
            log.warning(
                "%s: the log has grown to %.0f MB, as some process does not end its transaction; "
                "look for one that is stopped and has %s open",
                self.label,
                size / 1e6,
                wal,
            )

    def _tell(self, work: Transaction) -> None:
        """Notify all that want to know what was done."""
        for session, news in work.news.items():
            if session == self.id:
                self.post(news)
            elif self.notifications is not None:
                self.notifications.ring(session, news)
        self._folder.forget(work.ended)

    # Hearing.

    @property
    def socket(self) -> socket.socket | None:
        """Where other sessions say what they did."""
        return None if self.notifications is None else self.notifications.socket

    @property
    def pause_s(self) -> float:
        """After how many seconds to look by itself."""
        return 0.0 if self.notifications is None else self.notifications.tick_s

    def hear(self) -> bool:
        """Pass on what others said; whether it is better to look as well."""
        if self.notifications is None:
            return False
        news, doubtful = self.notifications.hear()
        self.post(news)
        return doubtful

    def look_after(self, found: Observed) -> None:
        """End the sessions whose time is over, and those whose process has died."""
        dead = self._folder.dead(found.owners)
        if found.due or dead:
            self.ask(Sweep(tuple(dead)))

    def close(self, within_s: float) -> None:
        """Let go of everything; a session that was not ended is seen to have nobody behind it."""
        if self.notifications is not None:
            self.notifications.close()
        if self._liveness is not None:
            self._liveness.drop()
        if self._finished:
            self._folder.forget([self.id])
        self._database.end(within_s)
