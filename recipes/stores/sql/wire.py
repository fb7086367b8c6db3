"""What the ways of threads and of asyncio to a database share: a request, on a connection of the pool."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from recipes._run.clock import boot_time
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores.sql.acts import Elsewhere, Starting
from recipes.stores.sql.carrying import (
    HOLDING,
    begin_on_mysql,
    bounded,
    call,
    carry_out,
    followed,
    given_back_as_it_is,
    run,
    silenced,
)
from recipes.stores.sql.entering import create, entered, left, started
from recipes.stores.sql.hearing import Hearing
from recipes.stores.sql.meaning import Again, code_of, is_missing, is_ours, is_read_only, meaning
from recipes.stores.sql.requests import Act, Transact, Work
from recipes.stores.sql.settings import Settings

__all__ = ["Progress", "Wire"]

LATE = "no answer in time"
PROXY = "what was prepared on a connection is not there: a proxy may lend them; nothing is prepared any more"
POOLED_LATE = (
    "no connection in time: all of the engine's pool may be in use;"
    " give it a larger pool_size or max_overflow"
)

PAUSE_S = 0.01
_BEHIND = {"default_transaction_isolation": "read committed"}
"""The same for an act in one call, which no BEGIN says it for."""
_HOLDS, _STAYS = (
    select(*(func.set_config(name, value, local) for name, value in said.items()))
    for said, local in ((HOLDING, True), ({**HOLDING, **_BEHIND}, False))
)
"""What has that hold for one transaction; or for a connection, an own one, if what is notified arrives: then
no proxy is in between that gives each transaction another connection.
"""
_KEPT = "recipes", "settings"
_USES = "recipes", "uses"
QUICK_FROM = 3
"""From how many requests on a connection it is worth to prepare statements and to make functions there."""
QUEUE_FULL = "54000"
"""What is said at a commit that would notify, while a session that listens does not end its transaction."""
_UNPREPARED: set[str | int | None] = {"26000", "42P05", "0A000", "42883"}
"""What is said where a statement or a function of this connection is not there, or not as it was."""


class Progress:
    """How far a request has come.

    Attributes:
        connected: It has got a connection.
        sent: The end of its transaction was asked for.
    """

    __slots__ = ("connected", "sent")

    def __init__(self) -> None:
        self.connected = self.sent = False

    def ending(self) -> None:
        """Note that it is committed now."""
        self.sent = True


class Wire:
    """Carries out the requests of one session.

    Args:
        settings: Where the database is.

    Attributes:
        hearing: What the session receives.
    """

    def __init__(self, settings: Settings) -> None:
        self.hearing = Hearing()
        self._settings = settings
        self._postgresql = settings.statements.notifies
        self._calls = True
        self._lent = not (settings.own and self._postgresql)  # a proxy may lend each transaction another

    def late(self, progress: Progress, *, unsent: bool) -> StoreUnavailable:
        """Return what a request met that was not done in time."""
        detail = LATE if progress.connected or self._settings.own else POOLED_LATE
        return StoreUnavailable(self._settings.label, detail, unsent=unsent)

    def transact(
        self,
        connection: Connection,
        request: Transact,
        progress: Progress,
        until: float,
        pause: Callable[[float], object] = time.sleep,
    ) -> Any:
        """Carry out a request before a moment of the boot clock.

        Raises:
            StoreError: As `meaning` has it.
        """
        label, progress.connected = self._settings.label, True
        creates, missing, rings = self._settings.create_tables, False, True
        while True:
            progress.sent = False
            try:
                if missing:
                    create(connection, self._settings)
                return self._once(connection, request, progress)
            except Starting as starting:
                left_s = starting.left_us / 1e6
                said = f"it took over, and grants nothing for {left_s:.1f} s more (restart_grace)"
                raise StoreUnavailable(label, said, unsent=True) from None
            except Elsewhere:
                left(connection, self._settings)
                meant: StoreError | Again = Again("another server took over, or its clock was set back")
            except Exception as error:
                if not is_ours(error) and not isinstance(error, Again):
                    raise
                if is_read_only(error):
                    connection.invalidate()
                original = getattr(error, "orig", None)
                if code_of(original) in _UNPREPARED and _KEPT in connection.info:
                    self._lent = True
                    connection.invalidate()
                    raise StoreUnavailable(label, f"{PROXY} ({original})", unsent=True) from None
                missing = creates and is_missing(error)
                creates = creates and not missing
                meant = Again("tables are missing") if missing else meaning(error, label, sent=progress.sent)
                if rings and progress.sent and code_of(original) == QUEUE_FULL:  # nothing is done
                    meant, rings = Again(f"nobody can be notified ({original})"), False
                    request = self._unproved(request)
                if not isinstance(meant, Again):
                    raise meant from None
            pause_s = random.uniform(0, PAUSE_S)  # noqa: S311 - spreads load only
            if boot_time() + pause_s >= until:
                raise StoreUnavailable(label, f"it was tried until the time was over ({meant})", unsent=True)
            pause(pause_s)

    def _unproved(self, request: Transact) -> Transact:
        """Return a request that notifies nobody, and proves nothing."""
        self.hearing.unproved()
        return replace(request, act=silenced(request.act), quick=None, session=False, channel="")

    def _once(self, connection: Connection, request: Transact, progress: Progress) -> Any:
        level = connection.get_execution_options().get("isolation_level")
        theirs = not self._settings.own
        # Where it commits each statement, such an engine of MySQL would keep a rollback to itself.
        silent = theirs and getattr(connection.dialect, "skip_autocommit_rollback", False)
        if theirs and self._postgresql:
            given_back_as_it_is(connection)
        if silent or (self._postgresql and (theirs or level == "AUTOCOMMIT")):  # of the try before
            connection.execution_options(isolation_level="READ COMMITTED")
        work = Work(*entered(connection, self._settings), self._settings.grace_us)
        if request.reads and self._postgresql:  # on MySQL that costs more than it saves
            return run(connection.execution_options(isolation_level="AUTOCOMMIT"), request.act, work)
        if request.quick is not None and not work.starting_until_us and self._quickly(connection):
            found = self._call(connection, request.quick, work, progress)
            if found is not None:
                return found
            connection.execution_options(isolation_level="READ COMMITTED")
        hearing, act = self.hearing, request.act
        proves = request.session and not request.channel and hearing.to_prove()
        if proves:
            act = followed(act, self._settings.statements.notify(hearing.channel, ""))
        began = boot_time()
        prepare: Callable[[Connection], object] | None = None
        unbounded = not (self._settings.own or self._postgresql or request.reads)
        if self._postgresql and not self._keeps(connection):
            prepare = _holding
        elif not (self._postgresql or self._settings.own):
            prepare = partial(begin_on_mysql, bound=unbounded)
        with bounded(connection) if unbounded else nullcontext():
            found = carry_out(connection, act, work, prepare=prepare, ending=progress.ending)
        if proves or request.channel:
            hearing.asked(began)
        if work.started and work.starting_until_us:
            started(connection, self._settings)
        if not work.undo:
            hearing.bells.post(work.news)
        return found

    def _keeps(self, connection: Connection) -> bool:
        """Whether what is said once to this connection holds for all of its transactions."""
        if self._lent:
            return False
        if _KEPT not in connection.info and self.hearing.works:
            with connection.begin():
                connection.execute(_STAYS)
            connection.info[_KEPT] = True
        return _KEPT in connection.info

    def _quickly(self, connection: Connection) -> bool:
        """Whether this connection is used long enough for what is prepared on it."""
        if not (self._calls and self._keeps(connection)):
            return False
        uses = connection.info[_USES] = connection.info.get(_USES, 0) + 1
        if uses == QUICK_FROM:
            driver: Any = connection.connection.driver_connection
            if hasattr(driver, "prepare_threshold"):  # psycopg's; asyncpg prepares by itself
                driver.prepare_threshold = 1
        return bool(uses > QUICK_FROM)

    def _call(self, connection: Connection, act: Act[Any], work: Work, progress: Progress) -> Any:
        """Carry out an act in one call; None if it cannot be, or there is more to do."""
        found = None
        connection.execution_options(isolation_level="AUTOCOMMIT")
        try:
            found = call(connection, act, work, progress.ending)
        except DBAPIError:
            if progress.sent or connection.invalidated:
                raise
            self._calls = False  # temporary functions are not allowed here
        progress.sent = found is not None
        if found is not None:
            self.hearing.bells.post(work.news)
        return found


def _holding(connection: Connection) -> None:
    connection.execute(_HOLDS)
