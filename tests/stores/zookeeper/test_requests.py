"""Each request and its reply, on both APIs."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionClosedError, KazooException, NoNodeError

from recipes._contract.connection import Batch, Request
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.kazoo_client_calls import Call, Part
from recipes.stores.zookeeper.kazoo_client_connection import LeanClient
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Check,
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.pace import taking
from tests.stores.zookeeper.conftest import Box, Connections, Driver, answered
from tests.stores.zookeeper.fake_server import CHANGED, FakeZooKeeper, packed


@pytest.fixture
def connection(connections: Connections, server: FakeZooKeeper) -> Driver:
    return connections.connected(server.hosts)


def test_the_session_is_what_the_server_granted(connections: Connections, server: FakeZooKeeper) -> None:
    server.granted_ms = 2500
    info = connections(server.hosts).ask(Connect(60.0))
    assert info.id in server.sessions
    assert info.timeout_s == 2.5


def test_requests_and_replies(connection: Driver, server: FakeZooKeeper) -> None:
    session = next(iter(server.sessions))
    path, stat = connection.ask(Create("/q", b"data"))
    assert (path, stat.owner, stat.version) == ("/q", 0, 0)
    own, stat = connection.ask(Create("/q/c-", ephemeral=True, sequence=True))
    assert own == "/q/c-0000000000"
    assert (stat.owner, stat.czxid) == (session, server.nodes[own].czxid)
    assert connection.ask(Children("/q")) == ("c-0000000000",)
    assert connection.ask(Exists(own)) == stat
    assert connection.ask(Exists("/none")) is None
    assert connection.ask(Get("/q"))[0] == b"data"
    assert connection.ask(Get(own)) == (b"", stat)
    assert connection.ask(SetData(own, b"x", version=0)).version == 1
    assert connection.ask(Sync("/")) is None
    assert connection.ask(Delete(own)) is None
    assert own not in server.nodes


def test_the_errors_that_protocols_handle(connection: Driver, server: FakeZooKeeper) -> None:
    connection.ask(Create("/q"))
    for request, error in (
        (Create("/q"), NodeExists),
        (Create("/none/q"), NoNode),
        (Delete("/none"), NoNode),
        (Children("/none"), NoNode),
        (SetData("/q", b"", version=7), BadVersion),
        (Delete("/q", version=7), BadVersion),
    ):
        with pytest.raises(error):
            connection.ask(request)
    server.fail("create2", -102)
    with pytest.raises(StoreRefused, match="no permission"):
        connection.ask(Create("/r"))


def test_a_multi_is_done_whole_or_not_at_all(connection: Driver, server: FakeZooKeeper) -> None:
    done = connection.ask(Multi((Create("/q", None), SetData("/q", b"1"), Check("/q", 1), Create("/q/r"))))
    assert (done[0], done[1].version, done[2:]) == ("/q", 1, (None, "/q/r"))
    with pytest.raises(MultiFailed) as caught:
        connection.ask(Multi((SetData("/q", b"2"), Delete("/q/r"), SetData("/q", b"3", 1), Create("/q"))))
    assert (caught.value.part, type(caught.value.error), caught.value.code) == (2, BadVersion, -103)
    assert server.nodes["/q"].data == b"1"
    failed, (data, _) = connection.ask(Batch((Multi((Check("/none"),)), Get("/q"))))
    assert (failed.part, type(failed.error), data) == (0, NoNode, b"1")
    with pytest.raises(MultiFailed) as caught:
        connection.ask(Multi((Check("/q"), Create("/q"))))
    assert (caught.value.part, type(caught.value.error)) == (1, NodeExists)


@pytest.mark.parametrize(
    ("code", "raised"), [(-102, StoreRefused), (-112, SessionExpired), (-118, StoreUnavailable)]
)
def test_what_ends_all_ends_a_multi_whichever_part_says_it(
    connection: Driver, server: FakeZooKeeper, code: int, raised: type[Exception]
) -> None:
    server.fail("create", code)
    with pytest.raises(raised) as caught:
        connection.ask(Multi((Check("/"), Create("/q"))))
    assert not isinstance(caught.value, MultiFailed)
    assert connection.ask(Exists("/q")) is None


def test_no_data_is_not_empty_data(connection: Driver, server: FakeZooKeeper) -> None:
    connection.ask(Batch((Create("/none", None), Create("/empty", b""))))
    assert [data for data, _ in connection.ask(Batch((Get("/none"), Get("/empty"))))] == [None, b""]
    connection.ask(SetData("/empty", None))
    assert server.nodes["/empty"].data is None


def test_a_batch_is_sent_before_the_first_answer(connection: Driver, server: FakeZooKeeper) -> None:
    server.mute()
    with_answers = Batch((Create("/q"), Children("/"), Exists("/none"), Delete("/none")))
    replies = connection.ask(with_answers, 1.0)
    assert [type(reply) for reply in replies] == [StoreUnavailable] * 4
    server.until(lambda: server.count("delete") == 1)
    assert [seen for seen in server.seen if seen[0] != "ping"][1:] == [
        ("create2", "/q"),
        ("children", "/"),
        ("exists", "/none"),
        ("delete", "/none"),
    ]


def test_a_batch_answers_each_part(connection: Driver) -> None:
    created, names, none, error = connection.ask(
        Batch((Create("/q"), Children("/"), Exists("/none"), Delete("/none")))
    )
    assert created[0] == "/q"
    assert names == ("q",)
    assert none is None
    assert isinstance(error, NoNode)
    assert connection.ask(Batch(())) == ()


def test_a_batch_keeps_the_replies_that_came(connection: Driver, server: FakeZooKeeper) -> None:
    server.mute("children")
    created, names = connection.ask(Batch((Create("/q"), Children("/"))), 1.0)
    assert created[0] == "/q"
    assert isinstance(names, StoreUnavailable)


def test_no_answer_takes_no_longer_than_allowed(connection: Driver, server: FakeZooKeeper) -> None:
    server.mute()
    with taking(2), pytest.raises(StoreUnavailable, match=r"nothing within 0\.1 s") as late:
        connection.ask(Exists("/"), 0.1)
    assert not late.value.unsent  # it may have been


def test_a_watch_is_told_once(connection: Driver) -> None:
    box = Box()
    connection.ask(Create("/q"))
    connection.ask(Get("/q", box))
    connection.ask(SetData("/q", b"new"))
    assert box.next() == Changed("/q")
    connection.ask(SetData("/q", b"newer"))
    assert connection.ask(Get("/q", box))[0] == b"newer"
    connection.ask(Delete("/q"))
    assert box.next() == Gone("/q")
    assert box.empty()
    assert len(connection.session._watches) == 0


def test_a_get_without_a_node_watches_nothing(connection: Driver) -> None:
    box = Box()
    with pytest.raises(NoNode):
        connection.ask(Get("/q", box))
    connection.ask(Create("/q"))
    connection.ask(Delete("/q"))
    assert box.empty()
    assert len(connection.session._watches) == 0


def test_what_is_answered_too_late_ends_no_watch(connection: Driver) -> None:
    """It may have been asked again since, and that watches."""
    box, session = Box(), connection.session
    part: Any = SimpleNamespace(path="/q", request=Get("/q", box), position=0, watcher=print)
    for waits, watching in ((False, 1), (True, 0)):
        session._watches.add("/q", box)
        call = Call(part.request, lambda: None)
        if not waits:
            call.abandon()
        session._on_failed(call, part, NoNodeError())
        assert len(session._watches) == watching


CHANGES = {
    "a contender comes": Create("/q/2"),
    "one goes": Delete("/q/1"),
    "one is rewritten": SetData("/q/1", b"new"),
}


@pytest.mark.parametrize("first", CHANGES)
def test_a_listing_is_told_of_its_first_change_alone(connection: Driver, first: str) -> None:
    box, other = Box(), Box()
    connection.ask(Batch((Create("/q"), Create("/q/1"))))
    for _ in range(2):
        assert connection.ask(Children("/q", box, "q")) == ("1",)
        connection.ask(Get("/q/1", box, "q"))
    connection.ask(Get("/q/1", other))
    connection.ask(CHANGES[first])
    assert box.next() == Changed("q")
    connection.ask(Batch(tuple(change for name, change in CHANGES.items() if name != first)))
    assert connection.ask(Exists("/")) is not None
    assert box.empty()
    assert other.next() in (Gone("/q/1"), Changed("/q/1"))
    assert len(connection.session._watches) == 0


def test_a_listing_of_what_is_not_there_is_told_when_it_comes(connection: Driver) -> None:
    box = Box()
    with pytest.raises(NoNode):
        connection.ask(Children("/q", box, "q"))
    assert len(connection.session._watches) == 0
    assert connection.ask(Exists("/q", box, "q")) is None
    connection.ask(Create("/q"))
    assert box.next() == Changed("q")
    assert connection.ask(Children("/q", box, "q")) == ()
    connection.ask(Delete("/q"))
    assert box.next() == Changed("q")
    assert box.empty()


def test_listings_again_and_again_are_one_watch_each(connection: Driver) -> None:
    connection.ask(Batch((Create("/q"), Create("/q/1"))))
    for _ in range(10):
        box = Box()
        connection.ask(Batch((Children("/q", box, "q"), Get("/q/1", box, "q"))))
        connection.forget(box)
    client = connection.session._client
    assert (len(client._child_watchers["/q"]), len(client._data_watchers["/q/1"])) == (1, 1)
    assert len(connection.session._watches) == 0


def test_many_watch_one_node(connection: Driver) -> None:
    boxes = [Box() for _ in range(3)]
    connection.ask(Create("/q", b"data"))
    for box in boxes:
        assert connection.ask(Get("/q", box))[0] == b"data"
    connection.forget(boxes[1])
    connection.ask(Delete("/q"))
    assert boxes[0].next() == boxes[2].next() == Gone("/q")
    assert boxes[1].empty()


def test_waiters_that_give_up_leave_nothing(connection: Driver) -> None:
    connection.ask(Create("/q"))
    box = Box()
    for _ in range(10):
        boxes = tuple(Box() for _ in range(100))
        connection.ask(Batch(tuple(Get("/q", box) for box in boxes)))
        for box in boxes:
            connection.forget(box)
    assert len(connection.session._watches) == 0
    assert not connection.session._watches._paths
    assert len(connection.session._client._data_watchers["/q"]) == 1
    connection.forget(box)


def test_a_mailbox_that_raises_hurts_nobody(connection: Driver) -> None:
    class Rude(Box):
        def post(self, event: Event) -> None:
            raise SystemExit

    polite = Box()
    connection.ask(Create("/q"))
    connection.ask(Get("/q", Rude()))
    connection.ask(Get("/q", polite))
    connection.ask(Delete("/q"))
    assert polite.next() == Gone("/q")
    assert connection.ask(Exists("/")) is not None


def test_a_cut_disturbs_every_watch_and_the_session_goes_on(
    connection: Driver, server: FakeZooKeeper
) -> None:
    boxes = [Box(), Box()]
    connection.ask(Create("/q", ephemeral=True))
    for box in boxes:
        connection.ask(Get("/q", box))
    server.cut()
    assert boxes[0].next() == boxes[1].next() == Disturbed()
    connection.ask(Get("/q", boxes[0]))  # parked until the connection is back
    assert len(server.sessions) == 1
    connection.ask(Delete("/q"))
    assert boxes[0].next() == Gone("/q")
    assert boxes[1].empty()


def test_requests_are_numbered_on_over_connections(connection: Driver, server: FakeZooKeeper) -> None:
    """By session and number a server knows what was committed; what was asked before a move may be late."""
    for _ in range(3):
        connection.ask(Batch((Exists("/"), Exists("/"))))
        server.drop()
        answered(connection, Exists("/"))
    assert server.numbers == list(range(1, len(server.numbers) + 1))
    connection.session._client._connection._xid = 2**31 - 2
    connection.ask(Batch((Exists("/"), Exists("/"))))
    assert server.numbers[-2:] == [2**31 - 1, 1]


def test_a_request_in_flight_is_lost_with_its_connection(connection: Driver, server: FakeZooKeeper) -> None:
    server.mute("create2")
    failures: list[StoreUnavailable] = []

    def ask() -> None:
        with pytest.raises(StoreUnavailable, match="ConnectionLoss") as caught:
            connection.ask(Create("/q"))
        failures.append(caught.value)

    thread = threading.Thread(target=ask)
    thread.start()
    server.until(lambda: server.count("create2") == 1)
    server.cut()
    thread.join()
    assert [failure.unsent for failure in failures] == [False]


def test_what_nobody_waits_for_is_not_sent_later(connection: Driver, server: FakeZooKeeper) -> None:
    server.silent = True
    server.drop()  # it comes back, and is not answered
    with pytest.raises(StoreUnavailable, match=r"no connection|broken") as late:
        connection.ask(Create("/late"), 0.1)
    assert late.value.unsent
    server.silent = False
    server.cut()
    assert answered(connection, Exists("/")) is not None
    assert server.count("create2") == 0


def test_what_was_given_up_while_there_was_no_connection_is_kept_nowhere(
    connection: Driver, server: FakeZooKeeper
) -> None:
    go_on = pausing(connection)
    server.refuse()
    server.cut()
    try:
        soon(lambda: not connection.session._up)
        for _ in range(5):  # those before the first pause fail with it
            with pytest.raises(StoreUnavailable) as late:
                connection.ask(Create("/late"), 0.1)
            assert late.value.unsent
        assert connection.session._parked == {}
    finally:
        go_on.set()


def test_a_reconnect_says_what_the_client_has_seen(connection: Driver, server: FakeZooKeeper) -> None:
    connection.ask(Create("/q"))
    connection.ask(Exists("/"))
    seen = server.last_zxid
    server.drop()  # a server that lags behind that refuses the session, and another is tried
    assert answered(connection, Exists("/")) is not None
    assert server.known_zxid >= seen > 0


def test_a_reply_that_is_not_due_ends_the_connection_and_not_the_session(
    connection: Driver, server: FakeZooKeeper
) -> None:
    """A server that the session has left leaves out the reply to what it refuses, and answers the next."""
    connection.ask(Create("/q"))
    (session,) = server.sessions
    server.mute("create2")
    with pytest.raises(StoreUnavailable):
        connection.ask(Create("/late"), 0.1)
    with pytest.raises(StoreUnavailable):
        connection.ask(Exists("/q"))
    server.mute("none")
    assert answered(connection, Exists("/q")) is not None
    assert [*server.sessions] == [session]


def test_the_first_answer_to_a_part_counts_and_is_counted_once() -> None:
    woken: list[None] = []
    call = Call(Batch((Exists("/"), Exists("/q"))), lambda: woken.append(None))
    call.settle(0, "first")
    call.settle(0, ConnectionError())
    assert (call.complete, woken) == (False, [])
    call.settle(1, "second")
    assert woken == [None]
    assert call.result(lambda: StoreUnavailable("", "no reply"), lambda error: error) == ("first", "second")


def test_hundreds_of_requests_wait_for_the_connection_without_blocking(
    connection: Driver, server: FakeZooKeeper
) -> None:
    go_on = pausing(connection)
    server.cut()
    soon(lambda: not connection.session._up)
    many = Batch(tuple(Exists("/") for _ in range(1000)))  # kazoo's own wake-up pipe holds 280
    replies: list[object] = []
    thread = threading.Thread(target=lambda: replies.extend(connection.ask(many)))
    thread.start()
    soon(lambda: bool(connection.session._parked))
    go_on.set()
    thread.join()
    assert [type(reply) for reply in replies] == [Stat] * 1000


def test_what_waits_for_a_connection_fails_when_no_server_would_have_it(
    connection: Driver, server: FakeZooKeeper
) -> None:
    server.silent = True
    server.drop()
    soon(lambda: not connection.session._up)
    caught: list[Exception] = []

    def ask() -> None:
        try:
            connection.ask(Exists("/"), 60)
        except StoreUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    soon(lambda: bool(connection.session._parked))
    server.cut()  # of the round in progress, and of none that came before
    thread.join(5)
    assert "broken" in str(caught[0])
    server.silent = False
    server.cut()
    assert answered(connection, Exists("/")) is not None


def soon(check: Callable[[], bool]) -> None:
    """Wait for a state of the connection, which tells nobody."""
    until = time.monotonic() + 20
    while not check():
        assert time.monotonic() < until
        threading.Event().wait(0.001)


def pausing(connection: Driver) -> threading.Event:
    """Have the pause between two rounds of connecting last until the event is set."""
    go_on = threading.Event()
    told = connection.session._handler._on_pause

    def pause() -> None:
        told()
        go_on.wait(20)

    connection.session._handler._on_pause = pause
    return go_on


@pytest.mark.parametrize(("servers", "left"), [(2, True), (1, False)])
def test_a_server_that_cannot_reach_the_leader_is_left_if_there_is_another(
    connections: Connections,
    server: FakeZooKeeper,
    caplog: pytest.LogCaptureFixture,
    servers: int,
    left: bool,
) -> None:
    connection = connections.connected(",".join([server.hosts] * servers))
    server.mute("sync")
    for _ in range(5):
        connects, asked_at = server.count("connect"), time.monotonic()
        with pytest.raises(StoreUnavailable):
            connection.ask(Sync("/"), 0.3)
        if time.monotonic() - asked_at < 1.5:  # no eighth of the timeout of 12 s
            break
        server.cut()  # it stood still for so long that it may have been left
        assert answered(connection, Exists("/")) is not None
        caplog.clear()
    else:
        pytest.fail("a call for 0.3 s took longer than 1.5 s each time")
    assert "trying another server" not in caplog.text
    assert connection.session._up
    with pytest.raises(StoreUnavailable):
        connection.ask(Sync("/"), 3.0)
    assert ("trying another server" in caplog.text) is left  # at once, not when the silence ends it
    if left:
        server.until(lambda: server.count("connect") == connects + 1)
    assert server.count("connect") == connects + left
    server.cut()
    assert answered(connection, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_parked_requests_end_with_the_connection(connection: Driver, server: FakeZooKeeper) -> None:
    server.silent = True
    server.drop()
    caught: list[SessionExpired] = []

    def ask() -> None:
        try:
            connection.ask(Exists("/"))
        except SessionExpired as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    soon(lambda: bool(connection.session._parked))
    connection.close()
    thread.join()
    assert [error.unsent for error in caught] == [True]


def test_a_closed_connection_answers_session_expired(connection: Driver, server: FakeZooKeeper) -> None:
    confirmed = connection.ask(Close())
    assert confirmed == isinstance(connection.session._client, LeanClient)  # kazoo itself does not say
    assert not server.sessions
    with pytest.raises(SessionExpired) as caught:
        connection.ask(Exists("/"))
    assert caught.value.unsent
    assert [type(reply) for reply in connection.ask(Batch((Sync("/"), Exists("/"))))] == [SessionExpired] * 2
    assert connection.ask(Close()) is confirmed
    connection.close()


def test_whoever_asks_sends(connection: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.ask(Exists("/")) is not None  # the first may come before kazoo is done with connecting
    waker = connection.session._handler._wakers[0]
    kazoos = connection.session._client._connection
    rings: list[bytes] = []
    sent: list[bytes] = []
    three = Batch((Exists("/"), Exists("/"), Exists("/")))
    with monkeypatch.context() as patch:
        ring, send = waker.send, kazoos._socket.send_behind
        patch.setattr(waker, "send", lambda data: (rings.append(data), ring(data))[1])
        patch.setattr(kazoos._socket, "send_behind", lambda *what: (sent.append(what[0]), send(*what))[1])
        assert None not in connection.ask(three)
        assert (len(sent), rings) == (1, [])
        patch.setattr(type(kazoos), "send_at_once", lambda *_: False)
        # when something is in the way kazoo's thread sends: together, too
        assert None not in connection.ask(three)
    assert (len(sent), rings) == (2, [b"\0\0\0"])
    assert connection.ask(Exists("/")) is not None


def test_what_does_not_fit_in_is_sent_later(connection: Driver, server: FakeZooKeeper) -> None:
    large = b"x" * 900_000
    created = connection.ask(Batch(tuple(Create(f"/q{number}", large) for number in range(8))))
    assert [path for path, _ in created] == [f"/q{number}" for number in range(8)]
    assert server.nodes["/q7"].data == large
    assert not connection.session._client._connection._socket.unsent
    assert [data for data, _ in connection.ask(Batch((Get("/q0"), Get("/q7"))))] == [large, large]
    assert server.accepted == 1


def test_threads_that_ask_at_once_get_their_own_answers(connection: Driver, server: FakeZooKeeper) -> None:
    names = [f"/q{number}" for number in range(8)]
    large = b"x" * 100_000
    connection.ask(Batch(tuple(Create(name, name.encode() + large * (name == "/q7")) for name in names)))
    wrong: list[Any] = []

    def asking(name: str) -> None:
        for turn in range(50):
            (data, _), stat = connection.ask(
                Batch((Get(name), SetData(name, name.encode() + large * (turn % 10 == 0))))
            )
            if not data.startswith(name.encode()) or stat.version != turn + 1:
                wrong.append((name, turn, data, stat))

    threads = [threading.Thread(target=asking, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert server.accepted == 1


def test_an_event_is_there_before_the_answer_to_a_later_request(connection: Driver) -> None:
    for number in range(20):
        box = Box()
        path, _ = connection.ask(Create(f"/q{number}"))
        connection.ask(Batch((Get(path, box), Delete(path), Exists(path))))
        assert not box.empty()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("operation", "asked"), [("children", Children("/q")), ("exists", Exists("/q"))])
def test_a_reply_that_makes_no_sense_is_none(
    connection: Driver, server: FakeZooKeeper, operation: str, asked: Request[Any], together: bool
) -> None:
    connection.ask(Create("/q"))
    connection.ask(Create("/q/c"))
    server.garble(operation)
    if together:
        _, found = connection.ask(Batch((Get("/q"), asked)))
        assert type(found) is StoreUnavailable
    else:
        with pytest.raises(StoreUnavailable):
            connection.ask(asked)
    server.garble()
    assert connection.ask(Children("/q")) == ("c",)


def test_what_comes_between_the_look_and_the_wait_is_sent(
    connection: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection.ask(Exists("/")) is not None
    client = connection.session._client
    call = Call(Exists("/"), lambda: None)

    class Looked:
        """The lock in which kazoo's thread looks at its queue; somebody queues as it lets go."""

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            patch.undo()
            part = Part(call, 0, b"", None, connection.session._on_failed)
            client._hand_over([(part, part)])

    with monkeypatch.context() as patch:
        patch.setattr(client._connection, "_sending", Looked())
        client._connection._write_sock._write.send(b"\0")  # not counted: as if the socket took more
        while not call.complete:
            time.sleep(0.001)
    assert call.result(lambda: StoreUnavailable("", "no reply"), lambda error: error) is not None


def test_kazoos_own_requests_keep_the_order(
    connection: Driver, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection.ask(Exists("/")) is not None
    client = connection.session._client
    waker = client._connection._read_sock
    real = waker.recv
    replies: list[Any] = []
    asking = threading.Thread(target=lambda: replies.append(connection.ask(Exists("/"))))
    with monkeypatch.context() as patch:

        def received(size: int) -> Any:  # by kazoo: what it sent is not yet among what waits for an answer
            patch.undo()
            asking.start()
            asking.join(0.2)
            return real(size)

        patch.setattr(waker, "recv", received)
        assert client.add_auth_async("digest", "ada:secret").get(timeout=20) is True
    asking.join()
    assert [type(reply) for reply in replies] == [Stat]
    assert server.accepted == 1


def test_what_is_queued_is_sent_first(connection: Driver, server: FakeZooKeeper) -> None:
    assert connection.ask(Exists("/")) is not None
    session = connection.session
    first = Call(Create("/first"), lambda: None)
    part = Part(first, 0, session._acl, None, session._on_failed)
    session._client._queue.append((part, part))  # as by a caller that is about to wake kazoo's thread
    connection.ask(Create("/second"))
    assert [path for seen, path in server.seen if seen == "create2"] == ["/first", "/second"]
    assert first.complete


def test_a_stream_of_events_holds_up_no_ping(connections: Connections, server: FakeZooKeeper) -> None:
    server.granted_ms = 1500
    connections.connected(server.hosts)
    event = struct.pack("!iqiii", -1, -1, 0, CHANGED, 3) + packed("/nobody")
    for _ in range(600):
        if server.count("ping"):
            break
        server.send_all(event)
        threading.Event().wait(0.005)
    assert server.count("ping")


def test_nothing_waits_for_an_answer_on_a_connection_that_is_lost(
    connection: Driver, server: FakeZooKeeper
) -> None:
    assert connection.ask(Exists("/")) is not None
    session = connection.session
    go_on = pausing(connection)
    server.refuse()
    server.cut()
    try:
        soon(lambda: not session._up)
        call = Call(Exists("/"), lambda: None)
        part = Part(call, 0, session._acl, None, session._on_failed)
        session._client.ask([part])  # as by a caller that has looked just before
        assert not session._client._pending
    finally:
        go_on.set()


def test_a_pause_fails_nothing_if_there_was_a_connection_since_the_last(connection: Driver) -> None:
    assert connection.ask(Exists("/")) is not None
    session = connection.session
    call = Call(Create("/q"), lambda: None)
    session._parked[id(call)] = call
    for failed in (False, True):
        session._handler.tried = True
        session._on_round_failed()
        assert call.over is failed


def test_what_kazoo_itself_cannot_send_is_answered(connection: Driver) -> None:
    result = connection.session._client.exists_async("/\ud800")
    with pytest.raises(KazooException):
        result.get(timeout=20)


def test_an_error_that_kazoo_does_not_know_is_one_answer(connection: Driver, server: FakeZooKeeper) -> None:
    server.fail("exists", -77)
    with pytest.raises(ZooKeeperError, match="error -77"):
        connection.ask(Exists("/"))
    assert connection.ask(Exists("/")) is not None
    assert server.accepted == 1


def test_what_is_no_message_ends_the_connection_and_not_the_session(
    connection: Driver, server: FakeZooKeeper
) -> None:
    for junk in (struct.pack("!i", -20), struct.pack("!i", 3)):
        assert answered(connection, Exists("/")) is not None
        before = server.accepted
        with server._changed:
            for one in server.connections:
                one.sock.sendall(junk + bytes(16))
        server.until(lambda: server.accepted > before)  # noqa: B023 - called at once
    assert answered(connection, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_a_reply_that_cannot_be_read_is_one_answer(
    connection: Driver, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server, "_exists", lambda *_: b"short")
        with pytest.raises(StoreUnavailable):
            connection.ask(Exists("/"))
    assert connection.ask(Exists("/")) is not None
    assert server.accepted == 1


def test_a_closed_client_answers_at_once(connection: Driver) -> None:
    client = connection.session._client
    assert connection.ask(Close()) is True
    with pytest.raises(ConnectionClosedError):
        client.exists_async("/").get(timeout=20)


def test_nothing_asked_is_nothing_owed(connection: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.ask(Exists("/")) is not None
    asked: list[Any] = []
    monkeypatch.setattr(connection.session._client._connection, "_send", asked.append)
    assert isinstance(connection.ask(Batch((Exists("/\ud800"),)))[0], UnicodeEncodeError)
    assert not asked


def test_wrong_arguments_come_back_as_they_are(connection: Driver) -> None:
    with pytest.raises(TypeError):
        connection.ask(Exists(7))  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        connection.ask(Exists("/\ud800"))
    (reply,) = connection.ask(Batch((Connect(1.0),)))
    assert isinstance(reply, AssertionError)
    with pytest.raises(AssertionError, match="once"):
        connection.ask(Connect(1.0))
