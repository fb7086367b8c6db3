"""The asyncio connection: one or two threads carry out the commands, the loop waits and receives."""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass
from typing import Any

from recipes._contract.connection import AsyncConnection, Mailbox, Request
from recipes._contract.operations import Op, Open, Renew
from recipes._descriptors import TAKEN
from recipes._run.clock import boot_time
from recipes._threads import new_thread, start
from recipes.errors import StoreUnavailable
from recipes.stores._kit.cell import Drop, Keep
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
    forgotten: bool = False

    def begin(self) -> bool:
        """Begin, in the worker, unless nobody waits any more."""
        self.begun = True
        return not self.given_up

    def give_up(self, label: str) -> None:
        """Answer in the loop that there is no answer."""
        self.given_up = True
        late = StoreUnavailable(label, "no answer in time", unsent=not self.begun)
        self.answer.settle(None, late)


class _Worker:
    """A thread that carries out jobs, one after the other, from the first one on and until it is ended.

    All but its work is called in the loop's thread.

    Args:
        session: Carries them out.
        looks: Whether it also looks after what is watched.
    """

    def __init__(self, session: Session, *, looks: bool) -> None:
        self._session, self._looks = session, looks
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over: _Answer | None = None
        self._doing: _Job | None = None

    def forget(self, mailbox: Mailbox) -> None:
        """Have what the job under way subscribes this mailbox to be forgotten behind it."""
        job = self._doing
        if job is not None and job.command.mailbox is mailbox:
            job.forgotten = True

    def put(self, job: _Job) -> None:
        """Have a job carried out, after those that were put before.

        Raises:
            StoreUnavailable: No thread can be started; the next job tries again.
        """
        if self._thread is None:
            self._thread = new_thread("store", self._work)
            try:
                start(self._thread)
            except OSError as error:
                self._thread = None
                raise StoreUnavailable(self._session.label, str(error), unsent=True) from error
        self._jobs.put(job)

    def look(self) -> None:
        """Have it look after what is watched."""
        self._jobs.put(None)

    def end(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[Any]]:
        """Have it end after the job that is under way; what is returned is done when it has ended."""
        if self._thread is None:
            return []
        self._over = over = _Answer(loop, loop.create_future())
        self._jobs.put(None)
        return [over.done]

    def _work(self) -> None:
        while self._over is None:
            try:
                job = self._jobs.get(timeout=self._session.tick_s if self._looks else None)
            except queue.Empty:
                job = None
            self._doing = job  # before it begins: `forget` has to find it from here on
            if job is not None and job.begin():
                self._do(job)
            self._doing = None
            if job is not None and job.forgotten:
                self._session.subscriptions.forget(job.command.mailbox)
            if self._looks and (job is None or self._session.tick_s == 0):
                self._session.tick()
        while not self._jobs.empty():  # none comes any more
            job = self._jobs.get()
            if job is not None:
                job.answer.give(None, _closed(self._session.label))
        self._session.close(CLOSE_WITHIN_S / 2)
        self._over.give(None)

    def _do(self, job: _Job) -> None:
        try:
            reply = self._session.carry_out(job.command, job.until - boot_time())
        except BaseException as error:
            job.answer.give(None, error)
        else:
            job.answer.give(reply)


class AsyncQueueConnection(AsyncConnection):
    """A connection to a queue store: as ``QueueConnection``, but awaited; belongs to one loop.

    Where commands are carried out in parallel, what keeps the session has a worker of its own: a session
    does not last for as long as another request may have no answer.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._worker = _Worker(session, looks=True)
        self._keeper = _Worker(session, looks=False) if session.parallel else self._worker
        self._hearing: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._closed = False

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        assert isinstance(request, Command), f"{request!r} should be a Command"
        if self._closed:
            raise _closed(self.session.label)
        loop = asyncio.get_running_loop()
        answer = _Answer(loop, loop.create_future())
        job = _Job(request, boot_time() + timeout_s, answer)
        worker = self._keeper if _is_of_session(request.op) else self._worker
        worker.put(job)
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
        for worker in (self._worker, self._keeper):
            worker.forget(mailbox)  # first: what it has subscribed to by now is forgotten here
        self.session.subscriptions.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this connection works in its own loop only."""

    async def close(self) -> None:
        """Let go of the session, the socket and the threads, within a second; never raises."""
        if self._closed:
            return
        self._stop_hearing()
        self._closed = True
        loop = asyncio.get_running_loop()
        ending = [done for worker in {self._worker, self._keeper} for done in worker.end(loop)]
        if ending:
            await asyncio.wait(ending, timeout=CLOSE_WITHIN_S)

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
            self._worker.look()


def _is_of_session(op: Op[Any]) -> bool:
    """Whether it opens or renews the session; what ends it comes behind what is under way."""
    return isinstance(op, Open | Renew | Keep) or (isinstance(op, Drop) and op.of_session)


def _closed(label: str) -> StoreUnavailable:
    return StoreUnavailable(label, "the link is closed", unsent=True)
