"""The asyncio link to a file: a thread carries out the requests, the loop waits and hears."""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass
from typing import Any

from recipes._contract.connection import Mailbox, OnEnd, Request
from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores.sqlite.requests import Ask, Start
from recipes.stores.sqlite.session import FileSession

__all__ = ["AsyncSqliteLink"]

CLOSE_WITHIN_S = 0.8


@dataclass(slots=True, eq=False)
class _Job:
    """One request, until it is done or nobody waits for it any more."""

    request: Ask[Any]
    until: float
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    given_up: bool = False


class AsyncSqliteLink:
    """An ``AsyncLink`` to a file: as ``SqliteLink``, but awaited; belongs to one loop.

    Args:
        path: The file.
        label: Where it is, for errors.
        on_end: Told once, in some thread, if the session turns out to have ended.
    """

    def __init__(self, path: str, label: str, on_end: OnEnd) -> None:
        self._label = label
        self._session = FileSession(path, label, on_end)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._hearing: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._closed = False
        self._over: _Job | None = None

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        assert isinstance(request, Ask), f"{request!r} should be a request to a file"
        if self._closed:
            raise StoreUnavailable(self._label, "the link is closed")
        loop = asyncio.get_running_loop()
        job = _Job(request, boot_time() + timeout_s, loop, loop.create_future())
        self._have_worker()
        self._jobs.put(job)
        timer = loop.call_later(timeout_s, _too_late, job.done, self._label)
        try:
            reply = await job.done
        except BaseException:
            job.given_up = True
            if self._session.taken:
                self._stop_hearing()
            raise
        finally:
            timer.cancel()
        if isinstance(request, Start):
            self._start_hearing(loop)
        return reply

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._session.book.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this link works in its own loop only."""

    async def close(self) -> None:
        """Let go of the connection, the socket and the thread, within a second; never raises."""
        if self._closed:
            return
        self._stop_hearing()
        if self._worker is None:
            self._closed = True
            return
        loop = asyncio.get_running_loop()
        over = self._over = _Job(Ask(""), 0.0, loop, loop.create_future())
        self._closed = True
        self._jobs.put(None)
        await asyncio.wait([over.done], timeout=CLOSE_WITHIN_S)

    # In the loop's thread.

    def _have_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="recipes-sqlite", daemon=True)
            self._worker.start()

    def _start_hearing(self, loop: asyncio.AbstractEventLoop) -> None:
        bell = self._session.bell
        if not self._closed and bell is not None and bell.socket is not None:
            self._hearing = loop, bell.socket.fileno()
            loop.add_reader(bell.socket, self._hear)

    def _stop_hearing(self) -> None:
        """Stop once, and so soon: if somebody else has the number, it may be heard for them later."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            loop, number = hearing
            loop.remove_reader(number)

    def _hear(self) -> None:
        if self._session.taken:
            self._session.give_up()
            self._stop_hearing()
            return
        if self._session.hear():
            self._jobs.put(None)

    # In the worker.

    def _work(self) -> None:
        while not self._closed:
            try:
                job = self._jobs.get(timeout=self._session.tick_s)
            except queue.Empty:
                job = None
            if job is not None and not job.given_up:
                self._do(job)
            if job is None or self._session.tick_s == 0:
                self._session.tick()
        self._session.close(CLOSE_WITHIN_S / 2)
        assert self._over is not None, "who closes the link waits for its thread"
        _answer(self._over, None, None)

    def _do(self, job: _Job) -> None:
        try:
            reply = self._session.carry_out(job.request, job.until - boot_time())
        except BaseException as error:
            _answer(job, None, error)
        else:
            _answer(job, reply, None)


def _answer(job: _Job, reply: Any, error: BaseException | None) -> None:
    try:
        job.loop.call_soon_threadsafe(_settle, job.done, reply, error)
    except RuntimeError:  # the loop is closed, and nobody waits
        pass


def _settle(done: asyncio.Future[Any], reply: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(reply)
    else:
        done.set_exception(error)


def _too_late(done: asyncio.Future[Any], label: str) -> None:
    _settle(done, None, StoreUnavailable(label, "no answer in time"))
