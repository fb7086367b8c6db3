"""The watchdog of an asyncio client: takes back what a blocked event loop cannot give back.

The keepalive loop of an asyncio client is a task, so whatever blocks the loop blocks it too; on
ZooKeeper the session even lives on, for kazoo's own threads keep it. So there is one thread
for the grants that may be held for so long only, as long as there are any. It leaves them to
the keepalive loop; where that does not come, it withdraws the contender over a connection of its own: a
blocking one, or, where the store has none, one of asyncio, in an event loop of its own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from recipes._mutex import new_lock
from recipes._programs.cleaner import Job, clean
from recipes._programs.hold import StoreSession
from recipes._programs.queueing import open_session
from recipes._run.blocking import BlockingRuntime
from recipes._run.clock import boot_time
from recipes._threads import new_thread
from recipes.errors import RecipesError
from recipes.events import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from recipes._contract.backend import Backend
    from recipes._programs.hold import HeldState
    from recipes._run.runtime import Settings

__all__ = ["Watchdog"]

GRACE_S = 0.25  # for the keepalive loop, whose task may be next in a loop that is not blocked
AGAIN_S = 1.0
LONGEST_S = 3600.0


class Watchdog:
    """Watches over grants from a thread that is there while there are any.

    Args:
        backend: The client's.
        settings: The client's.
        in_new_loop: Withdraws the contender of a grant in a new event loop, within so many seconds; whether
            that is done.
    """

    def __init__(
        self, backend: Backend, settings: Settings, in_new_loop: Callable[[HeldState, float], bool]
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._in_new_loop = in_new_loop
        self._watched: dict[HeldState, float] = {}  # and when to look after it next, at the earliest
        self._lock = new_lock()
        self._poked = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, hold: HeldState) -> None:
        """Watch over one more grant, until it has ended."""
        with self._lock:
            self._watched[hold] = 0.0
            if self._thread is None or not self._thread.is_alive():
                self._thread = new_thread("watchdog", self._run)
                self._thread.start()
        self._poked.set()

    def look(self) -> None:
        """Have it look again: grants have ended, and maybe there is nothing left to do."""
        self._poked.set()

    def _run(self) -> None:
        blocking = self._has_blocking_way()
        try:
            if blocking:
                # Have loaded what a blocked process is slow to load.
                self._backend.connection(_no_word).close()
        except Exception:  # it will be said when it is needed
            log.debug("no link could be made", exc_info=True)
        while True:
            self._poked.clear()
            with self._lock:
                self._watched = {hold: at for hold, at in self._watched.items() if not hold.ended}
                if not self._watched:
                    self._thread = None
                    return
                watched = list(self._watched.items())
            at, hold = min(((max(hold.until + GRACE_S, at), hold) for hold, at in watched), key=_first)
            left = at - boot_time()
            if left > 0:
                self._poked.wait(min(left, LONGEST_S))
            elif hold.is_overheld(boot_time()) and not hold.ended:
                self._take_back(hold, self._withdrawn if blocking else self._in_new_loop)

    def _has_blocking_way(self) -> bool:
        try:
            self._backend.check_api(asynchronous=False)
        except (ValueError, ImportError):
            return False
        return True

    def _take_back(self, hold: HeldState, withdrawn: Callable[[HeldState, float], bool]) -> None:
        """Have its contender withdrawn; the keepalive loop reports it, once it comes to that."""
        again_at = AGAIN_S
        within_s = self._settings.session_timeout_s
        late_at = boot_time() + within_s
        try:
            if withdrawn(hold, within_s) and boot_time() < late_at:
                again_at = LONGEST_S
        except RecipesError as error:
            log.warning("the contender of a blocked event loop could not be withdrawn yet: %s", error)
        except Exception:
            log.exception("the contender of a blocked event loop could not be withdrawn yet")
        with self._lock:
            if hold in self._watched:
                self._watched[hold] = boot_time() + again_at

    def _withdrawn(self, hold: HeldState, within_s: float) -> bool:
        """Withdraw its contender over a session of our own; whether that is done."""
        runtime = BlockingRuntime(self._backend, self._settings)
        try:
            opening = runtime.call(None, 2 * self._settings.request_timeout_s, fail_fast=True)
            runtime.run(open_session(), opening)
            assert opening.session is not None, "a session was opened"
            # The session of the grant, by the connection of another: any may delete what it made.
            call = runtime.call(None, within_s)
            call.session = StoreSession(opening.session.connection, hold.session.protocol)
            return runtime.run(clean(Job(call.session, hold.entry.ticket, hold.entry)), call)
        finally:
            runtime.close()


def _no_word(reason: str) -> None:
    """Nobody waits for the end of a connection that asks nothing."""


def _first(pair: tuple[float, HeldState]) -> float:
    return pair[0]
