"""The blocking API's watching: one daemon thread that reads every watch connection.

Callers write for themselves (a watch has to be on its way before the read that follows
it), without ever waiting: what does not fit into the socket is left to the thread. The
multiplexer and the connections are touched under one lock, which is never held over anything
that waits; notifications that are due are sent when it is released.

A caller whose watches are the only ones reads for itself: else two threads have to get their turn, one after
the other, before it goes on. The connection is *lent* to it as it arms, and stays lent while nobody else
watches anything. The thread keeps the time meanwhile, and reads again as soon as another caller watches,
something is to be done that waits, or what has arrived is left lying.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from recipes._contract.connection import Mailbox
from recipes._descriptors import TAKEN, Descriptor, identity, leave
from recipes._mutex import new_lock
from recipes._section import section
from recipes._threads import new_thread, start
from recipes.events import log
from recipes.stores.etcd.blocking_loan import Loan, Waiter
from recipes.stores.etcd.stream_book import Arming, Telling
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.wire_answers import failed, unavailable
from recipes.stores.etcd.wires import Channel
from recipes.stores.sockets import Conn, readable

__all__ = ["Dial", "Reader"]

Dial = Callable[[Channel, Callable[[], bool]], Conn]
"""Connect for a channel within a bounded time, or raise OSError; gives up soon when the callable says so."""

_CLOSE_S = 0.9
_LOOKS_UP_S = 60.0
"""How long the thread sleeps in one go, if nothing wakes it: what should may be closed by other code."""
_SEE_CHANGES = tuple(
    getattr(selectors, kind) for kind in ("EpollSelector", "KqueueSelector") if hasattr(selectors, kind)
)
"""Selectors that mind at once what another thread registers."""


class _Ears:
    """What the thread waits with, and what wakes it.

    Raises:
        OSError: This process has as many descriptors as it may.
    """

    def __init__(self) -> None:
        with ExitStack() as made:
            self._waking, self._woken = socket.socketpair()
            self._own = tuple(map(Descriptor, (self._waking, self._woken)))
            for end in self._own:
                made.callback(end.close)
            self._waking.setblocking(False)
            self._woken.setblocking(False)
            self.selector = made.enter_context(selectors.DefaultSelector())
            self.selector.register(self._woken, selectors.EVENT_READ)
            made.pop_all()
        number = getattr(self.selector, "fileno", None)  # not all of them have a descriptor
        self._number = -1 if number is None else number()
        self._kind = identity(self._number)
        self._closed = False

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed some of it; one selector looks like another."""
        if self._closed:
            return False
        return any(one.taken for one in self._own) or identity(self._number) != self._kind

    def wake(self) -> None:
        """Have the thread look up; never blocks, never raises."""
        if not self._own[0].taken:  # else it would be said to somebody else
            with contextlib.suppress(OSError):  # full: it will wake anyway; closed: there is nothing to wake
                self._waking.send(b"!")

    def woke(self) -> None:
        """Forget what it was woken by; OSError: by the closing of one of the two."""
        with contextlib.suppress(BlockingIOError):
            if self._own[1].taken or not self._woken.recv(4096):
                raise OSError(TAKEN)

    def close(self) -> None:
        """Close all of it that is ours; once is enough."""
        if self.taken:
            leave(self.selector)
        elif not self._closed:
            self.selector.close()
        self._closed = True
        for one in self._own:
            one.close()


class Reader:
    """Carry out what the multiplexer wants on sockets; the thread starts with the first watch."""

    def __init__(self, multiplexer: Multiplexer, dial: Dial, store: str) -> None:
        self._multiplexer = multiplexer
        self._dial = dial
        self._store = store
        self._lock = new_lock()
        self._conns: dict[Channel, Conn] = {}
        self._thread: threading.Thread | None = None
        self._ears: _Ears | None = None
        self._loan: Loan | None = None
        self._asleep_until = 0.0
        self._closed = False
        self._upset = False

    def arm(self, arming: Arming) -> None:
        """Send for a watch; ``arming.resolve`` will be notified."""
        try:
            self._give_up_taken()
            if self._thread is None:
                self._start()
        except OSError as error:  # this process has as many descriptors or threads as it may
            arming.resolve(failed(self._store, error, unsent=True))
            return
        if not self._step(lambda now: self._multiplexer.arm(arming, now), arming.watch.mailbox):
            arming.resolve(unavailable(self._store, "this link is closed"))

    def drop(self, arming: Arming) -> None:
        """Undo ``arming``."""
        self._step(lambda _now: self._multiplexer.drop(arming))

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``."""
        loan = self._loan
        if loan is not None and loan.mailbox is mailbox:
            loan.mailbox = loan.waiter = None
        if self._multiplexer.book.watches(mailbox):
            self._step(lambda _now: self._multiplexer.forget(mailbox))

    def follow(self) -> None:
        """Leave the servers that calls have left."""
        if self._thread is not None:
            self._step(lambda _now: self._multiplexer.follow())

    def attend(self, waiter: Waiter, mailbox: Mailbox, deadline: float) -> None:
        """Read for the call of ``mailbox`` until it need not wait any more, if the reading is lent to it.

        Returns at ``deadline`` (``time.monotonic``) at the latest, and as soon as the thread reads again.
        """
        loan = self._loan
        if loan is None or not loan.lent:
            return
        try:
            if not self._begins(loan, waiter, mailbox):
                return
            while loan.serves(waiter) and not waiter.ready():
                left = deadline - time.monotonic()
                try:
                    arrived = loan.arrived(left)
                except OSError as error:
                    self._lose(loan.channel, error)
                    return
                waiter.bell = None  # what it reads for itself need not ring
                if arrived and loan.serves(waiter):  # a signal handler may have forked meanwhile
                    self._read_lent(loan)
                    if loan.channel.outbox and not waiter.ready():
                        self._step(lambda _now: None)
                if left <= 0:
                    return
                waiter.bell = loan.ring
        finally:
            waiter.bell = None
            if loan.waiter is waiter:
                loan.waiter = None

    def close(self) -> None:
        """End the thread and the connections."""
        self._give_up_taken()
        with section.mark, self._lock:
            self._closed = True
            thread = self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _start(self) -> None:
        """Start the thread; if that is interrupted, the next call starts another, and only that reads."""
        with section.mark, self._lock:
            if self._thread is not None or self._closed:
                return
            with ExitStack() as made:
                ears = _Ears()
                made.callback(ears.close)
                thread = new_thread("etcd", self._run, ears)
                start(thread)
                made.pop_all()  # they are the thread's
            self._thread = thread

    def _step(self, step: Callable[[float], None], arms: Mailbox | None = None) -> bool:
        """Take one step of the multiplexer, send what it wants sent, then tell; False if closed.

        With ``arms`` it is the step in which the call of this mailbox arms.
        """
        try:
            with section.mark, self._lock:
                if self._closed:
                    return False
                self._mend()
                if arms is not None:
                    self._catch_up()
                step(time.monotonic())
                self._flush()
                self._lend_or_take_back(arms)
                if self._needs_thread():
                    self._wake()
            self._tell()
        except BaseException:
            self._struck()
            raise
        return True

    def _give_up_taken(self) -> None:
        """Have the next watch start anew if other code has closed what the thread waits with."""
        ears = self._ears
        if ears is None or not ears.taken:
            return
        with section.mark, self._lock:
            if self._ears is ears:
                self._thread = self._ears = None  # the thread sees that it is not the one any more
                self._asleep_until = 0.0
                self._multiplexer.lose_all(unavailable(self._store, TAKEN))
                self._close_conns(None, list(self._conns))
        self._tell()

    def _lose(self, channel: Channel, error: OSError) -> None:
        self._give_up_taken()
        failure = failed(channel.endpoint.store, error)
        self._step(lambda _now: self._multiplexer.broken(channel, failure))

    def _struck(self) -> None:
        """Have the thread mend what an interrupt left half done."""
        self._upset = True
        self._wake()

    def _tell(self) -> None:
        """Deliver what is due, with no lock held: a mailbox may close the connection.

        What an interrupt leaves is delivered by the next step, and what two threads deliver at a time comes
        twice, which does no harm: it is a hint to look.
        """
        told = self._multiplexer.book.told
        while told:
            try:
                one = told[0]
            except IndexError:  # pragma: no cover - another thread was quicker
                return
            tell, what = one
            try:
                tell(what)
            except Exception:  # a mailbox that is broken; an interrupt is another thing
                _drop(told, one)
                raise
            _drop(told, one)

    def _mend(self) -> None:
        """Lose every watch after an interruption: what the multiplexer knows and what was sent may differ."""
        if self._upset:
            for channel in self._conns:
                channel.live = False
            self._multiplexer.closes += self._conns
            self._multiplexer.lose_all(unavailable(self._store, "a call was interrupted while it sent"))
            self._upset = False

    def _flush(self) -> None:
        for channel, conn in self._conns.items():
            if not (channel.outbox and channel.live):
                continue
            if conn.taken:
                self._multiplexer.broken(channel, unavailable(channel.endpoint.store, TAKEN))
            else:
                try:
                    del channel.outbox[: conn.send_some(channel.outbox)]
                except OSError as error:
                    self._multiplexer.broken(channel, failed(channel.endpoint.store, error))

    def _needs_thread(self) -> bool:
        multiplexer = self._multiplexer
        if multiplexer.opens or multiplexer.closes or any(channel.outbox for channel in self._conns):
            return True
        return self._oversleeps()

    def _oversleeps(self) -> bool:
        due = self._multiplexer.due()
        return due is not None and due < self._asleep_until - 0.001

    def _wake(self) -> None:
        ears = self._ears
        if ears is not None:
            ears.wake()

    # Lending; all of it under the lock.

    def _begins(self, loan: Loan, waiter: Waiter, mailbox: Mailbox) -> bool:
        """Whether a caller may wait for the connection itself now."""
        try:
            with section.mark, self._lock:
                if loan.lent and loan.mailbox is not mailbox:  # that one waits for something else
                    self._take_back()
                    if self._multiplexer.closes:
                        self._wake()
                begins = loan.lent
                if begins:
                    loan.waiter, waiter.bell = waiter, loan.ring
            self._tell()
            return begins
        except BaseException:
            self._struck()
            raise

    def _catch_up(self) -> None:
        """Read what has come since the last caller read: the end of the connection, perhaps."""
        loan = self._loan
        if loan is not None and loan.lent and loan.waiter is None:
            self._take_in(loan.channel, loan.conn)

    def _lend_or_take_back(self, arms: Mailbox | None) -> None:
        """Have a caller read that arms alone; one that arms beside others takes it back as it waits."""
        loan, book = self._loan, self._multiplexer.book
        arms_alone = arms is not None and book.watched_by(arms) and hasattr(arms, "source")
        if not self._lendable():
            self._take_back()
        elif loan is None or not loan.lent:
            if arms_alone:
                self._lend(arms)
        elif arms_alone and loan.waiter is None:
            loan.mailbox = arms
            loan.mailbox.source = self.attend

    def _is_lent(self, channel: Channel) -> bool:
        loan = self._loan
        return loan is not None and loan.lent and loan.channel is channel

    def _lendable(self) -> bool:
        """Whether there is one connection, and nothing to do but to read it."""
        multiplexer = self._multiplexer
        if self._closed or self._upset or multiplexer.opens or multiplexer.closes or len(self._conns) != 1:
            return False
        return all(channel.live and not channel.outbox for channel in self._conns)

    def _lend(self, mailbox: Any) -> None:
        loan, ears = self._loan, self._ears
        if loan is None:
            if ears is None or not isinstance(ears.selector, _SEE_CHANGES):
                return
            with contextlib.suppress(OSError):  # no descriptor for a bell: the thread goes on reading
                loan = self._loan = Loan(*next(iter(self._conns.items())))
        if loan is None or ears is None or loan.waiter is not None:
            return
        loan.lent, loan.mailbox = True, mailbox
        ears.selector.unregister(loan.conn.sock)
        mailbox.source = self.attend

    def _take_back(self) -> None:
        """Have the thread read again, and the caller wait as others do."""
        loan, ears = self._loan, self._ears
        if loan is not None and loan.lent:
            loan.lent = False
            if loan.mailbox is not None:
                loan.mailbox.source = None
            if loan.conn.taken:
                self._multiplexer.broken(loan.channel, unavailable(loan.channel.endpoint.store, TAKEN))
            elif ears is not None:
                with contextlib.suppress(KeyError, OSError):  # an interrupt struck as it was lent
                    ears.selector.register(loan.conn.sock, selectors.EVENT_READ, loan.channel)
            if loan.waiter is not None:
                loan.ring()

    def _read_lent(self, loan: Loan) -> None:
        """Read once, in the caller's thread; what there is to send in turn is left to the next step."""
        try:
            with section.mark, self._lock:
                if not loan.lent:
                    return
                while self._take_in(loan.channel, loan.conn) and loan.conn.hides:
                    pass
                if self._multiplexer.closes:
                    self._take_back()
                if self._multiplexer.closes or self._oversleeps():
                    self._wake()
            self._tell()
        except BaseException:
            self._struck()
            raise

    def _take_in(self, channel: Channel, conn: Conn) -> bool:
        """Read once; whether there may be more."""
        try:
            data = conn.receive_own()
        except OSError as error:
            self._multiplexer.broken(channel, failed(channel.endpoint.store, error))
            return False
        if data is None:
            return False
        self._multiplexer.received(channel, data, time.monotonic())
        return channel.live

    # What follows runs in the thread.

    def _run(self, ears: _Ears) -> None:
        with section.mark, self._lock:  # which `_start` has until this thread is noted, or it was interrupted
            if not self._noted():
                ears.close()
                return
            self._ears = ears
        try:
            while not self._closed and self._noted():
                try:
                    self._turn(ears)
                except Exception as error:
                    if ears.taken:
                        self._give_up_taken()
                        break
                    log.exception("%s: watching failed; every watch is taken as lost", self._store)
                    failure = unavailable(self._store, f"watching failed: {error!r}")
                    self._turn_in(partial(self._multiplexer.lose_all, failure))
        finally:
            self._end(ears)

    def _end(self, ears: _Ears) -> None:
        """Lose every watch, as this thread ends; unless it was closed, the next watch starts another."""
        with section.mark, self._lock:
            if self._noted():
                said = "this link was closed" if self._closed else "the thread that reads was ended"
                self._multiplexer.lose_all(unavailable(self._store, said))
                self._close_conns(ears.selector, list(self._conns))
                self._ears = None
                self._asleep_until = 0.0
                if not self._closed:
                    self._thread = None
        ears.close()
        self._tell()

    def _noted(self) -> bool:
        return self._thread is threading.current_thread()

    def _turn(self, ears: _Ears) -> None:
        selector = ears.selector
        with section.mark, self._lock:
            if self._ears is not ears:  # another thread has it by now
                return
            opens, self._multiplexer.opens = self._multiplexer.opens, []
            closes, self._multiplexer.closes = self._multiplexer.closes, []
            self._close_conns(selector, closes)
            timeout = self._nap(time.monotonic())
            if timeout is None:  # nobody watches, and nobody would see the end of what is lent
                self._take_back()
            for channel, conn in self._conns.items():
                if self._is_lent(channel) or not channel.live:
                    continue
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.outbox else 0)
                if selector.get_key(conn.sock).events != wanted:
                    selector.modify(conn.sock, wanted, channel)
        for channel in opens:
            if channel.live:
                self._open(ears, channel)
        longest = _LOOKS_UP_S if timeout is None else min(timeout, _LOOKS_UP_S)
        ready = selector.select(0 if opens else longest)
        if ears.taken:  # what it has asked may be somebody else's selector
            raise OSError(TAKEN)
        for key, _ in ready:
            if key.data is None:
                ears.woke()
            else:
                self._read(key.data)
        self._turn_in(lambda: self._after(bool(ready)))

    def _after(self, heard: bool) -> None:
        self._mend()
        if heard:  # what had arrived is read first: a process that was stopped is not a silent server
            return
        now, due, loan = time.monotonic(), self._multiplexer.due(), self._loan
        is_due = due is not None and due <= now
        if is_due and loan is not None and loan.lent and readable(loan.conn.sock.fileno()):
            self._take_back()  # what has arrived there is left lying
        else:
            self._multiplexer.tick(now)

    def _turn_in(self, step: Callable[[], None]) -> None:
        with section.mark, self._lock:
            step()
            self._flush()
            self._lend_or_take_back(None)
        self._tell()

    def _nap(self, now: float) -> float | None:
        """Return how long to sleep; a nap is not made longer, so that callers seldom need to wake us."""
        due = self._multiplexer.due()
        if self._multiplexer.opens or self._multiplexer.closes or self._upset:
            return 0.0
        if not now < self._asleep_until < float("inf"):
            self._asleep_until = float("inf")
        if due is not None:
            self._asleep_until = min(self._asleep_until, due)
        return None if self._asleep_until == float("inf") else max(0.0, self._asleep_until - now)

    def _open(self, ears: _Ears, channel: Channel) -> None:
        try:
            conn = self._dial(channel, lambda: self._closed or not channel.live)
        except OSError as error:
            failure = failed(channel.endpoint.store, error)
            self._turn_in(lambda: self._multiplexer.broken(channel, failure))
            return
        with section.mark, self._lock:
            if self._ears is not ears or ears.taken:  # the second shows in the next turn
                conn.close()
                return
            self._conns[channel] = conn
            ears.selector.register(conn.sock, selectors.EVENT_READ, channel)
        self._turn_in(lambda: self._connected(channel))

    def _connected(self, channel: Channel) -> None:
        self._multiplexer.connected(channel, time.monotonic())
        if not channel.live:  # given up while it connected
            self._multiplexer.closes.append(channel)

    def _read(self, channel: Channel) -> None:
        more = True
        while more and channel.live:
            with section.mark, self._lock:
                conn = None if self._is_lent(channel) else self._conns.get(channel)
                more = conn is not None and self._take_in(channel, conn)
            self._tell()  # what it sends in turn can wait: somebody may have got a lock

    def _close_conns(self, selector: selectors.BaseSelector | None, channels: list[Channel]) -> None:
        for channel in channels:
            if self._loan is not None and self._loan.channel is channel:
                self._take_back()
                self._loan.close()
                self._loan = None
            conn = self._conns.pop(channel, None)
            if conn is not None:
                if selector is not None:
                    with contextlib.suppress(KeyError):
                        selector.unregister(conn.sock)
                conn.close()


def _drop(told: list[Telling], one: Telling) -> None:
    with contextlib.suppress(ValueError):  # another thread was quicker
        told.remove(one)
