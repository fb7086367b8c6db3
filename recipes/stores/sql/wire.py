"""What the ways of threads and of asyncio to a database share: a request, on a connection of the pool."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, func, select

from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores.sql.acts import Starting
from recipes.stores.sql.carrying import carry_out, followed, run
from recipes.stores.sql.engines import IDLE_S, LOCK_WAIT_S
from recipes.stores.sql.entering import entered
from recipes.stores.sql.hearing import Hearing
from recipes.stores.sql.meaning import Again, is_ours, is_read_only, meaning
from recipes.stores.sql.requests import Transact, Work
from recipes.stores.sql.settings import Settings

__all__ = ["Progress", "Wire"]

LATE = "no answer in time"
POOLED_LATE = (
    "no connection in time: all of the engine's pool may be in use;"
    " give it a larger pool_size or max_overflow"
)

PAUSE_S = 0.01
_SAID = {
    "synchronous_commit": "on",
    "lock_timeout": f"{LOCK_WAIT_S}s",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
}
_HOLDS, _STAYS = (
    select(*(func.set_config(name, value, local) for name, value in _SAID.items())) for local in (True, False)
)
"""What holds on PostgreSQL, whatever the defaults of database, role and proxy are.

For one transaction; or for a connection, an own one, if what is notified is heard: then no proxy is in
between that gives each transaction another connection.
"""
_KEPT = "recipes", "settings"


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
        hearing: What the session hears.
    """

    def __init__(self, settings: Settings) -> None:
        self.hearing = Hearing()
        self._settings = settings
        self._postgresql = settings.statements.notifies

    def options(self, request: Transact) -> dict[str, Any]:
        """Return the options of the engine that a request needs."""
        if request.reads and self._postgresql:  # on MySQL that costs more than it saves
            return {"isolation_level": "AUTOCOMMIT"}
        return {} if self._settings.own else {"isolation_level": "READ COMMITTED"}

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
        while True:
            progress.sent = False
            try:
                return self._once(connection, request, progress)
            except Starting as starting:
                left_s = starting.left_us / 1e6
                said = f"it took over, and grants nothing for {left_s:.1f} s more (restart_grace)"
                raise StoreUnavailable(label, said, unsent=True) from None
            except Exception as error:
                if not is_ours(error) and not isinstance(error, Again):
                    raise
                if is_read_only(error):
                    connection.invalidate()
                meant = meaning(error, label, sent=progress.sent)
                if not isinstance(meant, Again):
                    raise meant from None
                pause_s = random.uniform(0, PAUSE_S)  # noqa: S311 - spreads load only
                if boot_time() + pause_s >= until:
                    raise StoreUnavailable(
                        label, f"others were writing all the time ({meant})", unsent=True
                    ) from None
                pause(pause_s)

    def _once(self, connection: Connection, request: Transact, progress: Progress) -> Any:
        work = Work(starting_until_us=entered(connection, self._settings))
        if request.reads and self._postgresql:
            return run(connection, request.act, work)
        hearing, act = self.hearing, request.act
        proves = request.session and not request.channel and hearing.to_prove()
        if proves:
            act = followed(act, self._settings.statements.notify(hearing.channel, ""))
        began = boot_time()
        prepare = self._prepare(connection) if self._postgresql else None
        found = carry_out(connection, act, work, prepare=prepare, ending=progress.ending)
        if proves or request.channel:
            hearing.asked(began)
        if not work.undo:
            hearing.bells.post(work.news)
        return found

    def _prepare(self, connection: Connection) -> Callable[[Connection], object] | None:
        """Return what a transaction on this connection begins with; None: what it would say holds."""
        if self._settings.own and self.hearing.works and _KEPT not in connection.info:
            with connection.begin():
                connection.execute(_STAYS)
            connection.info[_KEPT] = True
        return None if _KEPT in connection.info else _holding


def _holding(connection: Connection) -> None:
    connection.execute(_HOLDS)
