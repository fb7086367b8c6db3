"""The asyncio connection: a thread carries out the commands, the loop waits and receives."""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass
from typing import Any

from recipes._contract.connection import AsyncConnection, Mailbox, Request
from recipes._contract.operations import Open
from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores._kit.descriptors import TAKEN
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import Session

__all__ = ["AsyncQueueConnection"]

CLOSE_WITHIN_S = 0.8


@dataclass(slots=True, eq=False)
class _Answer:
    """What one call waits for in its loop."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]

    def give(self, reply: Any, error: BaseException | None = None) -> None:
        """Answer, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.settle, reply, error)
        except RuntimeError:  # the loop is closed, and nobody waits
            pass

    def settle(self, reply: Any, error: BaseException | None) -> None:
        """Answer, in the loop, unless that was done."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(reply)
        else:
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class _Job:
    """One command, until it is done or its caller does not wait any more.

    Each side first says what it does and then looks at the other: what the loop gave up before it began is
    never begun.
    """

    command: Command
    until: float
    answer: _Answer
    begun: bool = False
    given_up: bool = False

    def begin(self) -> bool:
        """Begin, in the worker, unless nobody waits any more."""
        self.begun = True
        return not self.given_up

    def give_up(self, label: str) -> None:
        """Answer in the loop that there is no answer."""
        self.given_up = True
        late = StoreUnavailable(label, "no answer in time", unsent=not self.begun)
        self.answer.settle(None, late)


class AsyncQueueConnection(AsyncConnection):
    """A connection to a queue store: as ``QueueConnection``, but awaited; belongs to one loop."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._hearing: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._over: _Answer | None = None
        self._closed = False

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        assert isinstance(request, Command), f"{request!r} should be a Command"
        if self._closed:
            raise self._is_closed()
        loop = asyncio.get_running_loop()
        answer = _Answer(loop, loop.create_future())
        job = _Job(request, boot_time() + timeout_s, answer)
        self._have_worker()
        self._jobs.put(job)
        timer = loop.call_later(timeout_s, job.give_up, self.session.label)
        try:
            reply = await answer.done
        except BaseException:
            job.given_up = True
            if self.session.taken:
                self._stop_hearing()
            raise
        finally:
            timer.cancel()
        if isinstance(request.op, Open):
            self._start_hearing(loop)
        return reply

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self.session.subscriptions.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this connection works in its own loop only."""

    async def close(self) -> None:
        """Let go of the session, the socket and the thread, within a second; never raises."""
        if self._closed:
            return
        self._stop_hearing()
        if self._worker is None:
            self._closed = True
            return
        loop = asyncio.get_running_loop()
        over = self._over = _Answer(loop, loop.create_future())
        self._closed = True
        self._jobs.put(None)
        await asyncio.wait([over.done], timeout=CLOSE_WITHIN_S)

    def _is_closed(self) -> StoreUnavailable:
        return StoreUnavailable(self.session.label, "the link is closed", unsent=True)

    # In the loop's thread.

    def _have_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="recipes-store", daemon=True)
            self._worker.start()

    def _start_hearing(self, loop: asyncio.AbstractEventLoop) -> None:
        heard = self.session.socket
        if not self._closed and heard is not None:
            self._hearing = loop, heard.fileno()
            loop.add_reader(heard, self._hear)

    def _stop_hearing(self) -> None:
        """Stop once, and so soon: if somebody else has the number, it may be read for them later."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            loop, number = hearing
            loop.remove_reader(number)

    def _hear(self) -> None:
        if self.session.taken:
            self.session.end(TAKEN)
            self._stop_hearing()
        elif self.session.hear():
            self._jobs.put(None)

    # In the worker.

    def _work(self) -> None:
        while not self._closed:
            try:
                job = self._jobs.get(timeout=self.session.tick_s)
            except queue.Empty:
                job = None
            if job is not None and job.begin():
                self._do(job)
            if job is None or self.session.tick_s == 0:
                self.session.tick()
        while not self._jobs.empty():  # none comes any more
            job = self._jobs.get()
            if job is not None:
                job.answer.give(None, self._is_closed())
        self.session.close(CLOSE_WITHIN_S / 2)
        assert self._over is not None, "close should have been called"
        self._over.give(None)

    def _do(self, job: _Job) -> None:
        try:
            reply = self.session.carry_out(job.command, job.until - boot_time())
        except BaseException as error:
            job.answer.give(None, error)
        else:
            job.answer.give(reply)
