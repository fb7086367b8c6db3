"""The blocking way to a database: workers carry out the requests, callers wait for them until a deadline.

No driver promises to return in time. So a caller never asks a driver itself: it gives its request to a
worker, waits for the answer, and leaves when its time is over; then the worker's socket is shut down, so
that it comes free.
"""

from __future__ import annotations

import contextlib
import queue
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from recipes._contract.connection import Connection, Mailbox, OnEnd, Request
from recipes._descriptors import leave
from recipes._mutex import new_lock
from recipes._run.clock import boot_time
from recipes._run.waiting import acquire
from recipes._section import section
from recipes._threads import new_thread, start
from recipes.errors import StoreUnavailable
from recipes.stores.sql.descriptors import hang_up, taken
from recipes.stores.sql.engines import WORKERS
from recipes.stores.sql.meaning import connecting, is_ours, meaning
from recipes.stores.sql.requests import Listen, Transact
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.wire import Progress, Wire

__all__ = ["SqlConnection"]

CLOSE_WITHIN_S = 0.7
LISTEN_WITHIN_S = 2.0
"""So long the beginning of a session waits for the connection that listens; without it, it looks by time."""
RETRY_S = 1.0
LOOK_S = 1.0
CLOSED = "this connection is closed"


class _Job:
    """One request, until it is done or its caller does not wait any more.

    Each side first says what it does and then looks at the other: what was given up before it began is never
    begun.
    """

    def __init__(self, request: Transact, until: float) -> None:
        self.request, self.until = request, until
        self.progress = Progress()
        self._answered = threading.Lock()
        self._answered.acquire()
        self._outcome: tuple[Any, BaseException | None] = None, None
        self._begun = self._given_up = False
        self._using = new_lock()
        self._hang_up: Callable[[], None] | None = None

    def begin(self) -> bool:
        """Begin, in the worker, unless nobody waits any more."""
        self._begun = True
        return not self._given_up

    def give_up(self) -> bool:
        """Wait no more; whether it will never begin."""
        self._given_up = True
        return not self._begun

    def use(self, hang_up: Callable[[], None] | None) -> None:
        """Note what shuts down the connection that is used now; None: it is used no more."""
        with self._using:
            self._hang_up = hang_up
            if hang_up is not None and self._given_up:
                hang_up()

    def hang_up(self) -> None:
        """Have the worker come free, if it uses a connection."""
        with section.mark, self._using:
            if self._hang_up is not None:
                self._hang_up()

    def answer(self, found: Any, error: BaseException | None = None) -> None:
        """Give the caller its answer."""
        self._outcome = found, error
        self._answered.release()

    def wait(self, wire: Wire) -> Any:
        """Return the answer, or raise, before the time is over."""
        try:
            answered = acquire(self._answered, max(0.0, self.until - boot_time()))
        except BaseException:
            self._given_up = True
            raise
        if not answered:
            self._given_up = True
            self.hang_up()
            raise wire.late(self.progress, unsent=not self.progress.sent)
        found, error = self._outcome
        if error is not None:
            raise error
        return found


class _Lane:
    """Workers of one kind: made when all others have something to do, up to so many.

    Args:
        most: So many.
        work: What a worker does with a job; never raises.
    """

    def __init__(self, most: int, work: Callable[[_Job], None]) -> None:
        self._most, self._work = most, work
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._free: deque[None] = deque()  # no more than there are workers that wait
        self._threads: list[threading.Thread] = []
        self._entering = new_lock()

    def put(self, job: _Job) -> None:
        """Have a job done.

        Raises:
            OSError: There is no worker, and none can be started.
        """
        try:
            self._free.pop()
        except IndexError:
            if len(self._threads) < self._most:
                self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        try:
            with section.mark:
                start(new_thread("sql", self._run))
        except OSError:
            if not self._threads:  # else the others do it, one after the other
                raise

    def close(self) -> None:
        """Have the workers end."""
        self._jobs.put(None)

    def join(self, until: float) -> None:
        """Wait until they have ended, or that moment."""
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - boot_time()))

    def _run(self) -> None:
        with self._entering:  # here, where no interrupt comes between that and the start
            if len(self._threads) >= self._most:
                return
            self._threads.append(threading.current_thread())
        job = self._jobs.get()  # for which it was started: only behind that it is free
        while job is not None:
            self._work(job)
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                self._free.append(None)
                job = self._jobs.get()
        self._jobs.put(None)  # for the next, also one that begins later


class SqlConnection(Connection):
    """A ``Connection`` to a database; threads may share it. Making one does no I/O.

    Args:
        settings: Where the database is, and what all connections have in common.
        on_end: Not used: that a session has ended shows when it is renewed.
    """

    def __init__(self, settings: Settings, on_end: OnEnd) -> None:
        del on_end
        self._settings = settings
        self._wire = Wire(settings)
        self._made: dict[str, Any] = {}
        self._session, self._joins, self._others = (_Lane(most, self._work) for most in WORKERS)
        self._under_way: dict[_Job, None] = {}
        self._over = threading.Event()
        self._listener: _Listener | None = None
        self._behind: _Job | None = None

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        if isinstance(request, Listen):
            return self._wire.hearing.listen(request)
        assert isinstance(request, Transact), f"{request!r} should be a request to a database"
        if self._over.is_set():
            raise self._closed
        if request.behind_s:
            self._do_behind(request)
            return None
        self._hang_up_late()
        job = _Job(request, boot_time() + timeout_s)
        lane = self._session if request.session else self._joins if request.joins else self._others
        try:
            lane.put(job)
        except OSError as error:
            raise StoreUnavailable(self._settings.label, str(error), unsent=True) from error
        if self._over.is_set() and job.give_up():  # it was closed meanwhile, and no worker may be left
            raise self._closed
        return job.wait(self._wire)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._wire.hearing.bells.forget(mailbox)

    def close(self) -> None:
        """Let go of the connections and the threads, within a second; never raises."""
        until = boot_time() + CLOSE_WITHIN_S
        self._over.set()
        listener, lanes = self._listener, (self._session, self._joins, self._others)
        for lane in lanes:
            lane.close()
        if listener is not None:
            listener.close()
            listener.join(max(0.0, until - boot_time()))
        for lane in lanes:
            lane.join(until - CLOSE_WITHIN_S / 2)
        for job in list(self._under_way):
            job.hang_up()
        for lane in lanes:
            lane.join(until)
        engine = self._made.get("engine")
        if engine is not None and engine is not self._settings.theirs:
            engine.dispose()

    @property
    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(self._settings.label, CLOSED, unsent=True)

    def _hang_up_late(self) -> None:
        """Have the workers come free whose time is over: an interrupt may have struck their callers."""
        now = boot_time()
        for job in list(self._under_way):
            if job.until <= now:
                job.hang_up()

    def _do_behind(self, request: Transact) -> None:
        """Have a request done for which nobody waits; if the last one is not done yet, it hangs."""
        last, self._behind = self._behind, _Job(request, boot_time() + request.behind_s)
        if last is not None:
            last.hang_up()
        with contextlib.suppress(OSError):  # it is asked for again when the next is due
            self._others.put(self._behind)

    # In the workers.

    @property
    def _engine(self) -> Any:
        if "engine" not in self._made:
            self._made.setdefault("engine", self._settings.engine())
        return self._made["engine"]

    def _work(self, job: _Job) -> None:
        if self._over.is_set():
            job.answer(None, self._closed)
        elif job.begin():
            self._under_way[job] = None
            try:
                found = self._do(job)
            except BaseException as error:
                if is_ours(error):
                    error = meaning(error, self._settings.label, sent=job.progress.sent)
                job.answer(None, error)
            else:
                job.answer(found)
            finally:
                self._under_way.pop(job, None)

    def _do(self, job: _Job) -> Any:
        request = job.request
        if request.channel and self._settings.listens and self._listener is None:
            self._wire.hearing.channel = request.channel
            self._listener = _Listener(self._engine, self._wire, self._over)
            try:
                start(self._listener)
            except OSError:
                self._listener = None
                raise
            self._listener.ready.wait(min(LISTEN_WITHIN_S, max(0.0, job.until - boot_time()) / 2))
        with connecting(self._settings.label):
            connected = self._engine.connect()
        with connected as connection:
            driver = connection.connection.driver_connection
            job.use(lambda: hang_up(driver))
            try:
                return self._wire.transact(connection, request, job.progress, job.until, self._over.wait)
            finally:
                job.use(None)
                if self._over.is_set() and self._settings.own:
                    connection.invalidate()


class _Listener(threading.Thread):
    """Hears what PostgreSQL notifies, on a connection of its own, through psycopg.

    Attributes:
        ready: It listens, or cannot do so yet.
    """

    def __init__(self, engine: Any, wire: Wire, over: threading.Event) -> None:
        super().__init__(name="recipes-listener", daemon=True)
        self.ready = threading.Event()
        self._engine, self._hearing, self._over = engine, wire.hearing, over
        self._connection: Any = None

    def close(self) -> None:
        """Have it end: the connection finds its end."""
        connection = self._connection
        if connection is not None:
            hang_up(connection)

    def run(self) -> None:
        """Listen, on one connection after the other, until closed."""
        while not self._over.is_set():
            try:
                self._listen()
            except Exception as error:
                if not is_ours(error):
                    raise
            finally:
                self._hearing.lost()
                self.ready.set()
                self._let_go()
            self._over.wait(max(RETRY_S, self._hearing.rest_s))

    def _listen(self) -> None:
        lent = self._engine.raw_connection()
        connection = self._connection = lent.driver_connection
        lent.detach()  # from the pool, whose connections are for acts
        connection.commit()  # what a listener of the user's pool may have begun
        connection.autocommit = True
        connection.execute(f'LISTEN "{self._hearing.channel}"')
        self._hearing.connected()
        self.ready.set()
        pgconn = connection.pgconn
        poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN)
        while not (self._over.is_set() or self._hearing.overdue or taken(connection)):
            pgconn.consume_input()
            while (notified := pgconn.notifies()) is not None:
                self._hearing.hear(notified.extra.decode("utf-8", "replace"))
            poll.poll(LOOK_S * 1000)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and taken(connection):
            leave(connection)
        elif connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
