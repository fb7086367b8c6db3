"""One session with the file: what its two links, blocking and asyncio, have in common."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recipes._contract.connection import Mailbox, OnEnd
from recipes._run.clock import boot_time
from recipes._section import section
from recipes.errors import ReentrantCall, StoreError, StoreFull, StoreUnavailable
from recipes.stores.sqlite.bell import Bell
from recipes.stores.sqlite.book import Book
from recipes.stores.sqlite.database import TAKEN, Database
from recipes.stores.sqlite.layout import Target, ref_of
from recipes.stores.sqlite.lifeline import Folder, Lifeline
from recipes.stores.sqlite.requests import (
    Ask,
    Evict,
    Finish,
    Join,
    NoSession,
    Standing,
    Start,
    Touch,
    Watched,
)
from recipes.stores.sqlite.schema import Busy, checkpoint, meaning, transaction
from recipes.stores.sqlite.transactions import carry_out, writes
from recipes.stores.sqlite.work import Work

__all__ = ["FileSession"]

ROOM = 64 * 1024
"""With fewer bytes free on the disk nobody joins a queue: what is left is for renewing and ending."""

EAGER_TRIES = 4
SHORTEST_PAUSE_S = 0.0001
LONGEST_PAUSE_S = 0.01
CHECKPOINT_CHANCE = 1 / 64
TICK_WITHIN_S = 1.0
LOG_WARNS = 16_000_000
"""Bytes of the log: ordinarily it has less than a hundredth of that."""

_logger = logging.getLogger("recipes")


class FileSession:
    """Carries out requests, tells others what came of them, and hears what others did.

    Args:
        path: The file.
        label: Where it is, for errors.
        on_end: Told once if the session turns out to have ended.
        on_listen: Called when somebody waits who did not before; never blocks.
    """

    def __init__(
        self, path: str, label: str, on_end: OnEnd, on_listen: Callable[[], None] = lambda: None
    ) -> None:
        self.book = Book()
        self.bell: Bell | None = None
        path = os.path.realpath(path)  # as SQLite itself does: links to one file are one store
        self._directory = str(Path(path).parent)
        self._label = label
        self._on_end: OnEnd | None = on_end
        self._on_listen = on_listen
        self._folder = Folder(path)
        self._database = Database(path, label, self._folder)
        self._id = ""
        self._lifeline: Lifeline | None = None
        self._finished = False
        self._next_tick = 0.0
        self._idle = True
        self._warned = False
        self._downgraded: frozenset[Target] = frozenset()  # as the last tick saw it

    def carry_out(self, request: Ask[Any], timeout_s: float) -> Any:
        """Carry a request out within so many seconds, or raise; waits while others write."""
        until = boot_time() + timeout_s
        full = False
        for pause_s in _pauses():
            try:
                return self._once(request, until)
            except Busy:
                pass
            except StoreFull:
                if full or request.grows or not self._checkpoint():
                    raise
                full = True  # there was room in the log, from its start: try once more
            if boot_time() + pause_s >= until:
                raise StoreUnavailable(self._label, "others were writing all the time")
            time.sleep(pause_s)
        raise AssertionError("pauses should not end")

    def _once(self, request: Ask[Any], until: float) -> Any:
        database = self._database
        if database.mine:
            raise ReentrantCall
        with section.mark:
            try:
                if not database.acquire(until - boot_time()):
                    raise StoreUnavailable(self._label, "earlier requests take too long")
                db = database.connection()
                self._expect_own(request)
                self._prepare(request)
                reply, work = self._transact(request, db)
            except sqlite3.Error as error:
                raise meaning(error, self._label) from None  # which says all that this one says
            except StoreError:
                raise
            except OSError as error:
                raise StoreUnavailable(self._label, str(error)) from None
            finally:
                try:
                    database.release()
                finally:  # an interrupt may strike as that begins
                    database.release()
        self._tell(work)
        chosen = writes(request) and random.random() < CHECKPOINT_CHANCE  # noqa: S311 - spreads load only
        if chosen and not self._checkpoint():
            self._look_at_log()
        if isinstance(reply, NoSession):
            raise reply
        return reply

    @property
    def taken(self) -> bool:
        """Whether somebody else closed what shows that this session lives, or what it hears with."""
        lifeline, bell = self._lifeline, self.bell
        return (lifeline is not None and lifeline.taken) or (bell is not None and bell.taken)

    def _expect_own(self, request: Ask[Any]) -> None:
        """Give the session up if others take it for dead: when it is renewed, joins a queue, or waits."""
        if isinstance(request, Touch | Join | Watched) and self.taken:
            raise NoSession(TAKEN)

    def _prepare(self, request: Ask[Any]) -> None:
        """See that there is room, and that others can see this session live before it does."""
        if request.grows:
            room = os.statvfs(self._directory)
            if room.f_bavail * room.f_frsize < ROOM:
                raise StoreFull(self._label, "the disk is full")
        if isinstance(request, Start) and not self._id:
            self._id = request.session
            try:
                self._folder.make()
            except OSError:  # then nobody is told, and nobody sees who died: waiters look by themselves
                pass
            self._lifeline = Lifeline(self._folder, self._id)
            self.bell = Bell(self._folder, self._id)

    def _transact(self, request: Ask[Any], db: sqlite3.Connection) -> tuple[Any, Work]:
        reply: Any
        with transaction(db, "IMMEDIATE" if writes(request) else "DEFERRED"):
            work = Work(db, boot_time(), self._folder.dead, self._listen)
            try:
                reply = carry_out(request, work)
            except NoSession as ended:
                reply = ended  # what was done about others stays done
        if isinstance(request, Start):
            self._tidy(db)
        self._finished = self._finished or isinstance(request, Finish)
        return reply, work

    def _tidy(self, db: sqlite3.Connection) -> None:
        known = db.execute("SELECT id FROM session").fetchall()
        try:
            self._folder.tidy(session for (session,) in known)
        except OSError:  # it cannot be read: another session may
            pass

    def _checkpoint(self) -> bool:
        """Have the log begin again with whoever writes next; whether it will."""
        database = self._database
        if database.mine:
            return False
        with section.mark:
            try:
                return database.acquire(0.0) and checkpoint(database.connection())
            except (NoSession, StoreError, sqlite3.Error):  # another time
                return False
            finally:
                try:
                    database.release()
                finally:  # see _once
                    database.release()

    def _look_at_log(self) -> None:
        """Warn once if it could not begin again for long."""
        log = Path(f"{self._database.path}-wal")
        try:
            size = log.stat().st_size
        except OSError:  # another time
            return
        if size > LOG_WARNS and not self._warned:
            self._warned = True
            _logger.warning(
                "%s: the log has grown to %.0f MB, as some process does not end its transaction; "
                "look for one that is stopped and has %s open",
                self._label,
                size / 1e6,
                log,
            )

    def _listen(self, mailbox: Mailbox, target: Target) -> None:
        self.book.listen(mailbox, target)  # first: `tick_s` says that it is idle before it looks
        if self._idle:
            self._plan_tick()
            self._on_listen()

    def _tell(self, work: Work) -> None:
        """Tell everybody who wants to hear what was done."""
        for session in dict.fromkeys((*work.gone, *work.changed)):  # the first in the queue first
            gone, changed = work.gone.get(session, ()), work.changed.get(session, ())
            if session == self._id:
                self.book.gone(gone)
                self.book.changed(changed)
            elif self.bell is not None:
                self.bell.ring(session, gone, changed)
        self._folder.forget(work.ended)

    # Hearing.

    @property
    def tick_s(self) -> float | None:
        """After how many seconds to call `tick`; None: nobody waits."""
        self._idle = True
        if not self.book:
            return None
        self._idle = False
        return max(0.0, self._next_tick - boot_time())

    def hear(self) -> bool:
        """Pass on what others said; whether it is better to look as well."""
        if self.bell is None:
            return False
        gone, changed, doubtful = self.bell.hear()
        self.book.gone(gone)
        self.book.changed(changed)
        return doubtful

    def tick(self) -> None:
        """Look after those who are waited for: whether they stand, and whether their processes live."""
        self._plan_tick()
        targets = self.book.targets()
        if not targets:
            return
        try:
            found: Standing = self.carry_out(Watched(self._id, targets), TICK_WITHIN_S)
            dead = self._folder.dead(found.owners.values())
            if found.due or dead:
                self.carry_out(Evict(self._id, tuple(dead)), TICK_WITHIN_S)
        except NoSession as ended:
            self._tell_end(str(ended) or "it was removed from the file")
        except StoreError:  # the next tick will do, and so will the waiter's own look
            return
        else:
            self._compare(targets, found)

    def _compare(self, targets: tuple[Target, ...], found: Standing) -> None:
        """Pass on what was not heard; of a downgrade once, as writers go on waiting behind it."""
        news, self._downgraded = found.downgraded - self._downgraded, found.downgraded
        self.book.gone(ref_of(*target) for target in set(targets) - set(found.owners))
        self.book.changed(ref_of(*target) for target in news)

    def _plan_tick(self) -> None:
        if self.bell is not None:
            self._next_tick = boot_time() + self.bell.tick_s

    def give_up(self) -> None:
        """End the session here, as somebody else closed what it had open; never raises, never waits."""
        self._tell_end(TAKEN)

    def _tell_end(self, reason: str) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(reason)

    def close(self, within_s: float) -> None:
        """Let go of everything; a session that was not ended is seen to have nobody behind it."""
        if self.bell is not None:
            self.bell.close()
        if self._lifeline is not None:
            self._lifeline.drop()
        if self._finished:
            self._folder.forget([self._id])
        self._database.end(within_s)


def _pauses() -> Iterator[float]:
    """Yield how long to wait before each next try, with jitter: others write for some ten microseconds."""
    yield from (0.0,) * EAGER_TRIES
    longest = SHORTEST_PAUSE_S
    while True:
        yield random.uniform(longest / 2, longest)  # noqa: S311 - spreads load only
        longest = min(longest * 1.5, LONGEST_PAUSE_S)
