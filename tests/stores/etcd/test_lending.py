"""The blocking API: the only caller that watches reads the watch connection itself."""

from __future__ import annotations

import os
import selectors
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from integration.servers import eventually
from recipes._contract.connection import Batch
from recipes._contract.wakeups import Disturbed, Event, Gone
from recipes._run.blocking import ThreadMailbox
from recipes._signals import Struck
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.etcd.stream_book import Arming
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.sockets import readable
from tests.alarms import alarm
from tests.stores.etcd.fakes import Box, Peer, Server, trusting

SOON_S = 10.0


class Stream:
    """A server's side of one watch stream: confirms watches, and tells of deletions when told to."""

    def __init__(self) -> None:
        self.watched: dict[str, int] = {}
        self.cancelled: list[int] = []
        self.streams = 0
        self._peer: Peer | None = None
        self._talking = threading.Lock()  # TLS is for one thread at a time
        self._confirms = threading.Event()
        self._confirms.set()

    def __call__(self, peer: Peer, number: int) -> None:
        path, _, _body = peer.request()
        if path != "/v3/watch":
            peer.answer({"header": {"revision": "7"}, "kvs": [], "count": "0"})
            peer.hang()
            return
        self.streams += 1
        self._peer = peer
        peer.begin()
        while True:
            if not peer.waits_to_be_read(0.05):
                continue
            with self._talking:
                self._hear(peer)

    def _hear(self, peer: Peer) -> None:
        message = peer.chunk()
        if "create_request" in message:
            self._confirms.wait(SOON_S)
            made = message["create_request"]
            self.watched[made["key"]] = made["watch_id"]
            peer.created(message)
        elif "cancel_request" in message:
            self.cancelled.append(int(message["cancel_request"]["watch_id"]))

    def hold(self) -> None:
        """Confirm nothing until `confirm`."""
        self._confirms.clear()

    def confirm(self) -> None:
        """Confirm again."""
        self._confirms.set()

    def delete(self, key: str) -> None:
        """Tell of a deletion."""
        assert self._peer is not None
        with self._talking:
            self._peer.gone(self.watched[key])

    def reset(self) -> None:
        """End the connection."""
        assert self._peer is not None
        self._peer.reset()


K, L, M = "aw==", "bA==", "bQ=="
"""How the keys k, l and m are written on the wire."""


class Reading:
    """A connection, and which threads took in what arrived on its watch connection."""

    def __init__(self, stream: Stream, connection: EtcdConnection) -> None:
        self.stream = stream
        self.connection = connection
        self.reader = connection._reader
        self.multiplexer = self.reader._multiplexer
        self.multiplexer._patience_s, self.multiplexer._silence_s = 60, 60  # the machine may be busy
        self.by: list[str] = []
        self.boxes: list[ThreadMailbox] = []

    def armed(self, key: bytes = b"k") -> ThreadMailbox:
        """Watch a key for a new mailbox."""
        self.boxes.append(ThreadMailbox())
        assert self.connection.ask(Watch(key, self.boxes[-1]), SOON_S) == 7
        return self.boxes[-1]

    def warm(self) -> None:
        """Have the connection made; from then on it can be lent."""
        box = self.armed(b"m")
        self.stream.delete(M)
        assert box.receive(SOON_S) == Gone("m")
        self.by.clear()

    def own(self) -> bool:
        """Whether only this thread has read since the last look."""
        by, self.by = set(self.by), []
        return by == {threading.current_thread().name}


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """Yield a connection to a server that confirms."""
    stream = Stream()
    with Server(stream, tls=request.param) as server:
        context: ssl.SSLContext | None = trusting() if request.param else None
        connection = EtcdConnection(
            [("localhost" if context else "127.0.0.1", server.port)], ssl_context=context
        )
        found = Reading(stream, connection)
        real = Multiplexer.received

        def received(multiplexer: Multiplexer, *args: Any) -> None:
            found.by.append(threading.current_thread().name)
            real(multiplexer, *args)

        monkeypatch.setattr(Multiplexer, "received", received)
        monkeypatch.setattr("recipes.stores.etcd.blocking_loan._LOOKS_UP_S", 3600)
        try:
            found.warm()
            yield found
        finally:
            connection.close()


def in_thread(does: Any) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(does()), daemon=True)
    thread.start()
    return thread, results


def waits(reading: Reading) -> bool:
    """Whether a caller waits for the connection itself."""
    loan = reading.reader._loan
    return loan is not None and loan.waiter is not None and loan.waiter.bell is not None


def is_lent(reading: Reading) -> bool:
    loan = reading.reader._loan
    return loan is not None and loan.lent


def test_who_watches_alone_reads_for_itself(reading: Reading) -> None:
    for _ in range(3):
        box = reading.armed()
        reading.stream.delete(K)
        assert box.receive(SOON_S) == Gone("k")
        assert reading.own()


def test_so_it_does_while_it_makes_calls(reading: Reading) -> None:
    box = ThreadMailbox()
    watch, call = Watch(b"k", box), Post("/kv/range", {"key": b"k"})
    reply = reading.connection.ask(Batch((watch, call)), SOON_S)
    assert reply[0] == 7
    assert reading.own()


def test_its_time_ends(reading: Reading) -> None:
    began = time.monotonic()
    assert reading.armed().receive(0.3) is None
    assert time.monotonic() - began >= 0.3
    assert reading.own()


def test_what_others_post_is_received_at_once(reading: Reading) -> None:
    box, event = reading.armed(), Event()
    thread, received = in_thread(lambda: box.receive(None))
    assert eventually(lambda: waits(reading), SOON_S)
    box.post(event)
    thread.join(SOON_S)
    assert received == [event]
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")


@pytest.mark.parametrize("raised", [TimeoutError, ZeroDivisionError])
def test_what_a_signal_handler_raises_is_no_failure_of_the_connection(
    reading: Reading, raised: type[BaseException]
) -> None:
    box = reading.armed()
    with pytest.raises(Struck) as struck, alarm(raised, lambda: waits(reading)):
        box.receive(60)
    assert isinstance(struck.value.raised, raised)
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")
    assert reading.own()


def test_another_that_watches_has_the_thread_read_for_both(reading: Reading) -> None:
    first = reading.armed()
    thread, received = in_thread(lambda: first.receive(SOON_S))
    assert eventually(lambda: waits(reading), SOON_S)
    second = reading.armed(b"l")
    assert not is_lent(reading)
    reading.by.clear()
    reading.stream.delete(L)
    assert second.receive(SOON_S) == Gone("l")
    assert reading.armed(b"n").source is None  # nor is it lent to a third, that watches beside another
    reading.connection.forget(reading.boxes[-1])
    reading.stream.delete(K)
    thread.join(SOON_S)
    assert received == [Gone("k")]
    assert set(reading.by) == {"recipes-etcd"}
    third = reading.armed()  # and then it is lent again
    reading.stream.delete(K)
    assert third.receive(SOON_S) == Gone("k")
    assert reading.by[-1] == threading.current_thread().name


def test_of_one_that_waits_by_other_means_nothing_is_left_lying(reading: Reading) -> None:
    """It is lent by its watch, and then another mailbox of the same thread waits."""
    lent, other = reading.armed(), ThreadMailbox()
    other.source = reading.reader.attend
    assert other.receive(0.05) is None
    assert not is_lent(reading)
    reading.by.clear()
    reading.stream.delete(K)
    assert eventually(lent.ready, SOON_S)
    assert set(reading.by) == {"recipes-etcd"}


def test_a_mailbox_that_cannot_read_has_the_thread_read(reading: Reading) -> None:
    box = Box()
    assert reading.connection.ask(Watch(b"k", box), SOON_S) == 7
    reading.stream.delete(K)
    assert box.events.get(timeout=SOON_S) == Gone("k")
    assert set(reading.by) == {"recipes-etcd"}


def test_two_that_wait_in_turn_are_both_rung(reading: Reading) -> None:
    """One whose event has come may wait for something else as the next one watches."""
    box, event = reading.armed(), Event()
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")
    thread, received = in_thread(lambda: box.receive(None))
    assert eventually(lambda: waits(reading), SOON_S)
    other = reading.armed(b"l")
    assert not is_lent(reading)
    other_thread, other_received = in_thread(lambda: other.receive(None))
    other.post(event)
    other_thread.join(SOON_S)
    assert other_received == [event]
    box.post(event)
    thread.join(SOON_S)
    assert received == [event]


def test_closing_ends_the_reading(reading: Reading) -> None:
    box, event = reading.armed(), Event()
    thread, received = in_thread(lambda: box.receive(None))
    assert eventually(lambda: waits(reading), SOON_S)
    reading.connection.close()
    assert eventually(lambda: not waits(reading), SOON_S)
    box.post(event)
    thread.join(SOON_S)
    assert received in ([event], [Disturbed()])
    assert reading.reader._conns == {}


def test_an_end_of_the_connection_is_noticed_by_who_reads(reading: Reading) -> None:
    box = reading.armed()
    reading.stream.reset()
    assert box.receive(SOON_S) == Disturbed()
    assert reading.own()
    again = reading.armed()
    assert reading.stream.streams == 2
    reading.stream.delete(K)
    assert again.receive(SOON_S) == Gone("k")


def test_an_interrupt_amid_the_reading_loses_every_watch(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = reading.armed()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    reading.stream.delete(K)
    with monkeypatch.context() as patch:
        patch.setattr(Multiplexer, "received", interrupt)
        with pytest.raises(KeyboardInterrupt):
            box.receive(SOON_S)
    assert box.receive(SOON_S) == Disturbed()
    assert reading.armed() is not box
    assert reading.stream.streams == 2


def test_what_an_interrupted_caller_leaves_is_lent_again(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = reading.armed()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("recipes.stores.etcd.blocking_loan.any_ready", interrupt)
        with pytest.raises(KeyboardInterrupt):
            box.receive(SOON_S)
    reading.connection.forget(box)
    next_one = reading.armed(b"l")
    reading.stream.delete(L)
    assert next_one.receive(SOON_S) == Gone("l")
    assert reading.own()
    assert reading.stream.streams == 1


def test_what_is_left_lying_is_read_by_the_thread(reading: Reading) -> None:
    """A caller that does something else, or whose process stood still, is not a silent server."""
    box = reading.armed()
    reading.stream.delete(K)
    reading.by.clear()
    with reading.reader._lock:
        reading.multiplexer._heard -= 60
    reading.reader._wake()
    assert eventually(box.ready, SOON_S)
    assert set(reading.by) == {"recipes-etcd"}
    assert box.receive(0) == Gone("k")
    assert reading.stream.streams == 1


def test_a_confirmation_that_does_not_come_is_missed_by_the_thread(reading: Reading) -> None:
    reading.stream.hold()
    reading.multiplexer._patience_s = 0.2
    with pytest.raises(StoreUnavailable):
        reading.connection.ask(Watch(b"k", ThreadMailbox()), SOON_S)
    reading.stream.confirm()
    assert reading.armed(b"l").receive(0) is None


def test_the_last_watch_is_cancelled_though_nobody_reads_any_more(reading: Reading) -> None:
    box = reading.armed()
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")
    assert eventually(lambda: reading.stream.watched[K] in reading.stream.cancelled, SOON_S)
    assert eventually(lambda: not is_lent(reading), SOON_S)


def test_it_may_be_taken_back_as_a_caller_begins_to_wait() -> None:
    class Taken(ThreadMailbox):
        @property
        def source(self) -> Any:
            return next(sources)

        @source.setter
        def source(self, source: Any) -> None:
            """It is as the test says."""

    waited: list[float] = []
    sources = iter([lambda *args: waited.append(args[2]), None])
    assert Taken().receive(0) is None
    assert waited


def test_an_interrupt_as_it_is_taken_back_leaves_nobody_waiting(
    reading: Reading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, other = reading.armed(), ThreadMailbox()
    other.source = reading.reader.attend
    thread, received = in_thread(lambda: first.receive(SOON_S))
    assert eventually(lambda: waits(reading), SOON_S)
    ears = reading.reader._ears
    assert ears is not None
    selector = ears.selector
    real, main = selector.register, threading.current_thread()

    def register(*args: Any) -> Any:
        if threading.current_thread() is main:
            raise KeyboardInterrupt
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(selector, "register", register)
        with pytest.raises(KeyboardInterrupt):
            other.receive(SOON_S)
    thread.join(SOON_S / 2)
    assert received == [Disturbed()]
    assert "watching failed" not in caplog.text


def test_an_interrupt_amid_the_telling_leaves_nobody_out(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, real = reading.armed(), ThreadMailbox(), ThreadMailbox.post
    struck: list[bool] = []
    resolved: list[int | Exception] = []
    reading.reader.arm(Arming(Watch(b"k", second), resolved.append))  # by the same watch; it has yet to wait
    assert resolved == [7]

    def post(box: ThreadMailbox, event: Event) -> None:
        real(box, event)
        if box is first and not struck:
            struck.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(ThreadMailbox, "post", post)
    reading.stream.delete(K)
    with pytest.raises(KeyboardInterrupt):
        first.receive(SOON_S)
    assert second.receive(SOON_S / 2) == Gone("k")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_forked_amid_a_wait_reads_nothing(reading: Reading) -> None:
    box, children = reading.armed(), []
    loan = reading.reader._loan
    assert loan is not None

    def fork(*_: Any) -> None:
        children.append(os.fork())
        if children[0]:
            # The thread reads what arrives as something is due there.
            assert eventually(lambda: box.ready() or readable(loan.conn.sock.fileno()), SOON_S)
            time.sleep(0.3)  # for the child to read it, if it would

    before = signal.signal(signal.SIGUSR1, fork)
    try:
        teller = threading.Thread(target=_fork_and_delete, args=(reading, children))
        teller.start()
        event = box.receive(SOON_S / 2)
        if children[0] == 0:
            os._exit(int(event is not None))
        teller.join(SOON_S)
        assert event == Gone("k")
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def _fork_and_delete(reading: Reading, children: list[int]) -> None:
    assert eventually(lambda: waits(reading), SOON_S)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    assert eventually(lambda: bool(children), SOON_S)
    reading.stream.delete(K)


def test_the_end_of_an_idle_connection_fails_nobody(reading: Reading) -> None:
    box = reading.armed()
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")
    loan = reading.reader._loan
    assert loan is not None
    assert loan.lent
    reading.stream.reset()
    assert eventually(
        lambda: not loan.lent or (fd := loan.conn.sock.fileno()) < 0 or readable(fd), SOON_S
    )  # it has ended, or is closed already
    assert reading.armed() is not box
    assert reading.stream.streams == 2


def test_what_is_idle_is_not_lent_for_ever(reading: Reading) -> None:
    box = reading.armed()
    reading.stream.delete(K)
    assert box.receive(SOON_S) == Gone("k")
    with reading.reader._lock:
        reading.multiplexer._spent.clear()  # nothing is due any more
        reading.reader._asleep_until = float("inf")
    reading.reader._wake()
    assert eventually(lambda: not is_lent(reading), SOON_S)


def test_without_time_to_wait_it_reads_what_is_there(reading: Reading) -> None:
    box = reading.armed()
    loan = reading.reader._loan
    assert loan is not None
    reading.stream.delete(K)
    assert eventually(lambda: readable(loan.conn.sock.fileno()), SOON_S)
    assert box.receive(0) == Gone("k")


def none_left(*args: Any) -> Any:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("recipes.stores.etcd.blocking_reader.Loan", none_left),  # no descriptor for the bell
        ("selectors.DefaultSelector", selectors.SelectSelector),  # minds no change by another thread
    ],
)
def test_where_nothing_can_be_lent_the_thread_reads(
    monkeypatch: pytest.MonkeyPatch, where: str, what: Any
) -> None:
    monkeypatch.setattr(where, what)
    stream = Stream()
    with Server(stream) as server:
        connection = EtcdConnection([("127.0.0.1", server.port)])
        try:
            for _ in range(2):
                box = ThreadMailbox()
                assert connection.ask(Watch(b"k", box), SOON_S) == 7
                stream.delete(K)
                assert box.receive(SOON_S) == Gone("k")
                assert connection._reader._loan is None
        finally:
            connection.close()
