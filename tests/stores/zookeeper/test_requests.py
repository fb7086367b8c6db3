"""Each request and its reply, on both faces."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionClosedError, KazooException

from recipes._contract.connection import Batch, Request
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.kazoo_client_calls import Call, Part
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.pace import taking
from tests.stores.zookeeper.conftest import Box, Driver, Links, answered
from tests.stores.zookeeper.fake_server import CHANGED, FakeZooKeeper, packed


@pytest.fixture
def link(links: Links, server: FakeZooKeeper) -> Driver:
    return links.connected(server.hosts)


def test_the_session_is_what_the_server_granted(links: Links, server: FakeZooKeeper) -> None:
    server.granted_ms = 2500
    info = links(server.hosts).ask(Connect(60.0))
    assert info.id in server.sessions
    assert info.timeout_s == 2.5


def test_requests_and_replies(link: Driver, server: FakeZooKeeper) -> None:
    session = next(iter(server.sessions))
    path, stat = link.ask(Create("/q", b"data"))
    assert (path, stat.owner, stat.version) == ("/q", 0, 0)
    own, stat = link.ask(Create("/q/c-", ephemeral=True, sequence=True))
    assert own == "/q/c-0000000000"
    assert (stat.owner, stat.czxid) == (session, server.nodes[own].czxid)
    assert link.ask(Children("/q")) == ("c-0000000000",)
    assert link.ask(Exists(own)) == stat
    assert link.ask(Exists("/none")) is None
    assert link.ask(Get("/q"))[0] == b"data"
    assert link.ask(Get(own)) == (b"", stat)
    assert link.ask(SetData(own, b"x", version=0)).version == 1
    assert link.ask(Sync("/")) is None
    assert link.ask(Delete(own)) is None
    assert own not in server.nodes


def test_the_errors_that_protocols_handle(link: Driver, server: FakeZooKeeper) -> None:
    link.ask(Create("/q"))
    for request, error in (
        (Create("/q"), NodeExists),
        (Create("/none/q"), NoNode),
        (Delete("/none"), NoNode),
        (Children("/none"), NoNode),
        (SetData("/q", b"", version=7), BadVersion),
        (Delete("/q", version=7), BadVersion),
    ):
        with pytest.raises(error):
            link.ask(request)
    server.fail("create2", -102)
    with pytest.raises(StoreRefused, match="no permission"):
        link.ask(Create("/r"))


def test_a_batch_is_sent_before_the_first_answer(link: Driver, server: FakeZooKeeper) -> None:
    server.mute()
    with_answers = Batch((Create("/q"), Children("/"), Exists("/none"), Delete("/none")))
    replies = link.ask(with_answers, 1.0)
    assert [type(reply) for reply in replies] == [StoreUnavailable] * 4
    server.until(lambda: server.count("delete") == 1)
    assert [seen for seen in server.seen if seen[0] != "ping"][1:] == [
        ("create2", "/q"),
        ("children", "/"),
        ("exists", "/none"),
        ("delete", "/none"),
    ]


def test_a_batch_answers_each_part(link: Driver) -> None:
    created, names, none, error = link.ask(
        Batch((Create("/q"), Children("/"), Exists("/none"), Delete("/none")))
    )
    assert created[0] == "/q"
    assert names == ("q",)
    assert none is None
    assert isinstance(error, NoNode)
    assert link.ask(Batch(())) == ()


def test_a_batch_keeps_the_replies_that_came(link: Driver, server: FakeZooKeeper) -> None:
    server.mute("children")
    created, names = link.ask(Batch((Create("/q"), Children("/"))), 1.0)
    assert created[0] == "/q"
    assert isinstance(names, StoreUnavailable)


def test_no_answer_takes_no_longer_than_allowed(link: Driver, server: FakeZooKeeper) -> None:
    server.mute()
    with taking(2), pytest.raises(StoreUnavailable, match=r"nothing within 0\.1 s"):
        link.ask(Exists("/"), 0.1)


def test_a_watch_is_told_once(link: Driver) -> None:
    box = Box()
    link.ask(Create("/q"))
    link.ask(Get("/q", box))
    link.ask(SetData("/q", b"new"))
    assert box.next() == Changed("/q")
    link.ask(SetData("/q", b"newer"))
    assert link.ask(Get("/q", box))[0] == b"newer"
    link.ask(Delete("/q"))
    assert box.next() == Gone("/q")
    assert box.empty()
    assert len(link.session._watches) == 0


def test_a_get_without_a_node_watches_nothing(link: Driver) -> None:
    box = Box()
    with pytest.raises(NoNode):
        link.ask(Get("/q", box))
    link.ask(Create("/q"))
    link.ask(Delete("/q"))
    assert box.empty()
    assert len(link.session._watches) == 0


CHANGES = {
    "a contender comes": Create("/q/2"),
    "one goes": Delete("/q/1"),
    "one is rewritten": SetData("/q/1", b"new"),
}


@pytest.mark.parametrize("first", CHANGES)
def test_a_listing_is_told_of_its_first_change_alone(link: Driver, first: str) -> None:
    box, other = Box(), Box()
    link.ask(Batch((Create("/q"), Create("/q/1"))))
    for _ in range(2):
        assert link.ask(Children("/q", box, "q")) == ("1",)
        link.ask(Get("/q/1", box, "q"))
    link.ask(Get("/q/1", other))
    link.ask(CHANGES[first])
    assert box.next() == Changed("q")
    link.ask(Batch(tuple(change for name, change in CHANGES.items() if name != first)))
    assert link.ask(Exists("/")) is not None
    assert box.empty()
    assert other.next() in (Gone("/q/1"), Changed("/q/1"))
    assert len(link.session._watches) == 0


def test_a_listing_of_what_is_not_there_is_told_when_it_comes(link: Driver) -> None:
    box = Box()
    with pytest.raises(NoNode):
        link.ask(Children("/q", box, "q"))
    assert len(link.session._watches) == 0
    assert link.ask(Exists("/q", box, "q")) is None
    link.ask(Create("/q"))
    assert box.next() == Changed("q")
    assert link.ask(Children("/q", box, "q")) == ()
    link.ask(Delete("/q"))
    assert box.next() == Changed("q")
    assert box.empty()


def test_listings_again_and_again_are_one_watch_each(link: Driver) -> None:
    link.ask(Batch((Create("/q"), Create("/q/1"))))
    for _ in range(10):
        box = Box()
        link.ask(Batch((Children("/q", box, "q"), Get("/q/1", box, "q"))))
        link.forget(box)
    client = link.session._client
    assert (len(client._child_watchers["/q"]), len(client._data_watchers["/q/1"])) == (1, 1)
    assert len(link.session._watches) == 0


def test_many_watch_one_node(link: Driver) -> None:
    boxes = [Box() for _ in range(3)]
    link.ask(Create("/q", b"data"))
    for box in boxes:
        assert link.ask(Get("/q", box))[0] == b"data"
    link.forget(boxes[1])
    link.ask(Delete("/q"))
    assert boxes[0].next() == boxes[2].next() == Gone("/q")
    assert boxes[1].empty()


def test_waiters_that_give_up_leave_nothing(link: Driver) -> None:
    link.ask(Create("/q"))
    box = Box()
    for _ in range(10):
        boxes = tuple(Box() for _ in range(100))
        link.ask(Batch(tuple(Get("/q", box) for box in boxes)))
        for box in boxes:
            link.forget(box)
    assert len(link.session._watches) == 0
    assert not link.session._watches._paths
    assert len(link.session._client._data_watchers["/q"]) == 1
    link.forget(box)


def test_a_mailbox_that_raises_hurts_nobody(link: Driver) -> None:
    class Rude(Box):
        def post(self, event: Event) -> None:
            raise SystemExit

    polite = Box()
    link.ask(Create("/q"))
    link.ask(Get("/q", Rude()))
    link.ask(Get("/q", polite))
    link.ask(Delete("/q"))
    assert polite.next() == Gone("/q")
    assert link.ask(Exists("/")) is not None


def test_a_cut_disturbs_every_watch_and_the_session_goes_on(link: Driver, server: FakeZooKeeper) -> None:
    boxes = [Box(), Box()]
    link.ask(Create("/q", ephemeral=True))
    for box in boxes:
        link.ask(Get("/q", box))
    server.cut()
    assert boxes[0].next() == boxes[1].next() == Disturbed()
    link.ask(Get("/q", boxes[0]))  # parked until the connection is back
    assert len(server.sessions) == 1
    link.ask(Delete("/q"))
    assert boxes[0].next() == Gone("/q")
    assert boxes[1].empty()


def test_a_request_in_flight_is_lost_with_its_connection(link: Driver, server: FakeZooKeeper) -> None:
    server.mute("create2")
    failures: list[Exception] = []

    def ask() -> None:
        with pytest.raises(StoreUnavailable, match="ConnectionLoss") as caught:
            link.ask(Create("/q"))
        failures.append(caught.value)

    thread = threading.Thread(target=ask)
    thread.start()
    server.until(lambda: server.count("create2") == 1)
    server.cut()
    thread.join()
    assert failures


def test_what_nobody_waits_for_is_not_sent_later(link: Driver, server: FakeZooKeeper) -> None:
    server.silent = True
    server.drop()  # it comes back, and is not answered
    with pytest.raises(StoreUnavailable, match=r"no connection|broken"):
        link.ask(Create("/late"), 0.1)
    server.silent = False
    server.cut()
    assert answered(link, Exists("/")) is not None
    assert server.count("create2") == 0


def test_what_was_given_up_while_there_was_no_connection_is_kept_nowhere(
    link: Driver, server: FakeZooKeeper
) -> None:
    go_on = pausing(link)
    server.refuse()
    server.cut()
    try:
        soon(lambda: not link.session._up)
        for _ in range(5):  # those before the first pause fail with it
            with pytest.raises(StoreUnavailable):
                link.ask(Create("/late"), 0.1)
        assert link.session._parked == {}
    finally:
        go_on.set()


def test_a_reconnect_says_what_the_client_has_seen(link: Driver, server: FakeZooKeeper) -> None:
    link.ask(Create("/q"))
    link.ask(Exists("/"))
    seen = server.last_zxid
    server.drop()  # a server that lags behind that refuses the session, and another is tried
    assert answered(link, Exists("/")) is not None
    assert server.known_zxid >= seen > 0


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
    link: Driver, server: FakeZooKeeper
) -> None:
    go_on = pausing(link)
    server.cut()
    soon(lambda: not link.session._up)
    many = Batch(tuple(Exists("/") for _ in range(1000)))  # kazoo's own wake-up pipe holds 280
    replies: list[object] = []
    thread = threading.Thread(target=lambda: replies.extend(link.ask(many)))
    thread.start()
    soon(lambda: bool(link.session._parked))
    go_on.set()
    thread.join()
    assert [type(reply) for reply in replies] == [Stat] * 1000


def test_what_waits_for_a_connection_fails_when_no_server_would_have_it(
    link: Driver, server: FakeZooKeeper
) -> None:
    server.silent = True
    server.drop()
    soon(lambda: not link.session._up)
    caught: list[Exception] = []

    def ask() -> None:
        try:
            link.ask(Exists("/"), 60)
        except StoreUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    soon(lambda: bool(link.session._parked))
    server.cut()  # of the round in progress, and of none that came before
    thread.join(5)
    assert "broken" in str(caught[0])
    server.silent = False
    server.cut()
    assert answered(link, Exists("/")) is not None


def soon(check: Callable[[], bool]) -> None:
    """Wait for a state of the link, which tells nobody."""
    until = time.monotonic() + 20
    while not check():
        assert time.monotonic() < until
        threading.Event().wait(0.001)


def pausing(link: Driver) -> threading.Event:
    """Have the pause between two rounds of connecting last until the event is set."""
    go_on = threading.Event()
    told = link.session._handler._on_pause

    def pause() -> None:
        told()
        go_on.wait(20)

    link.session._handler._on_pause = pause
    return go_on


@pytest.mark.parametrize(("servers", "left"), [(2, True), (1, False)])
def test_a_server_that_cannot_reach_the_leader_is_left_if_there_is_another(
    links: Links, server: FakeZooKeeper, caplog: pytest.LogCaptureFixture, servers: int, left: bool
) -> None:
    link = links.connected(",".join([server.hosts] * servers))
    server.mute("sync")
    connects = server.count("connect")
    with pytest.raises(StoreUnavailable):
        link.ask(Sync("/"), 0.3)  # for no eighth of the timeout of 12 s
    assert link.session._up
    with pytest.raises(StoreUnavailable):
        link.ask(Sync("/"), 1.6)
    assert ("trying another server" in caplog.text) is left  # at once, not when the silence ends it
    if left:
        server.until(lambda: server.count("connect") == connects + 1)
    assert server.count("connect") == connects + left
    server.cut()
    assert answered(link, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_parked_requests_end_with_the_link(link: Driver, server: FakeZooKeeper) -> None:
    server.silent = True
    server.drop()
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            link.ask(Exists("/"))
        except SessionExpired as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    soon(lambda: bool(link.session._parked))
    link.close()
    thread.join()
    assert len(caught) == 1


def test_a_closed_link_answers_session_expired(link: Driver, server: FakeZooKeeper) -> None:
    assert link.ask(Close()) is None
    assert not server.sessions
    with pytest.raises(SessionExpired):
        link.ask(Exists("/"))
    assert [type(reply) for reply in link.ask(Batch((Sync("/"), Exists("/"))))] == [SessionExpired] * 2
    assert link.ask(Close()) is None
    link.close()


def test_whoever_asks_sends(link: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert link.ask(Exists("/")) is not None  # the first may come before kazoo is done with connecting
    bell = link.session._handler._bells[0]
    connection = link.session._client._connection
    rings: list[bytes] = []
    sent: list[bytes] = []
    three = Batch((Exists("/"), Exists("/"), Exists("/")))
    with monkeypatch.context() as patch:
        ring, send = bell.send, connection._socket.send_behind
        patch.setattr(bell, "send", lambda data: (rings.append(data), ring(data))[1])
        patch.setattr(connection._socket, "send_behind", lambda *what: (sent.append(what[0]), send(*what))[1])
        assert None not in link.ask(three)
        assert (len(sent), rings) == (1, [])
        patch.setattr(type(connection), "send_at_once", lambda *_: False)
        assert None not in link.ask(three)  # when something is in the way kazoo's thread sends: together, too
    assert (len(sent), rings) == (2, [b"\0\0\0"])
    assert link.ask(Exists("/")) is not None


def test_what_does_not_fit_in_is_sent_later(link: Driver, server: FakeZooKeeper) -> None:
    large = b"x" * 900_000
    created = link.ask(Batch(tuple(Create(f"/q{number}", large) for number in range(8))))
    assert [path for path, _ in created] == [f"/q{number}" for number in range(8)]
    assert server.nodes["/q7"].data == large
    assert not link.session._client._connection._socket.unsent
    assert [data for data, _ in link.ask(Batch((Get("/q0"), Get("/q7"))))] == [large, large]
    assert server.accepted == 1


def test_threads_that_ask_at_once_get_their_own_answers(link: Driver, server: FakeZooKeeper) -> None:
    names = [f"/q{number}" for number in range(8)]
    large = b"x" * 100_000
    link.ask(Batch(tuple(Create(name, name.encode() + large * (name == "/q7")) for name in names)))
    wrong: list[Any] = []

    def asking(name: str) -> None:
        for turn in range(50):
            (data, _), stat = link.ask(
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


def test_an_event_is_there_before_the_answer_to_a_later_request(link: Driver) -> None:
    for number in range(20):
        box = Box()
        path, _ = link.ask(Create(f"/q{number}"))
        link.ask(Batch((Get(path, box), Delete(path), Exists(path))))
        assert not box.empty()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("operation", "asked"), [("children", Children("/q")), ("exists", Exists("/q"))])
def test_a_reply_that_makes_no_sense_is_none(
    link: Driver, server: FakeZooKeeper, operation: str, asked: Request[Any], together: bool
) -> None:
    link.ask(Create("/q"))
    link.ask(Create("/q/c"))
    server.garble(operation)
    if together:
        _, found = link.ask(Batch((Get("/q"), asked)))
        assert type(found) is StoreUnavailable
    else:
        with pytest.raises(StoreUnavailable):
            link.ask(asked)
    server.garble()
    assert link.ask(Children("/q")) == ("c",)


def test_what_comes_between_the_look_and_the_wait_is_sent(
    link: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert link.ask(Exists("/")) is not None
    client = link.session._client
    call = Call(Exists("/"), lambda: None)

    class Looked:
        """The lock in which kazoo's thread looks at its queue; somebody queues as it lets go."""

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            patch.undo()
            part = Part(call, 0, b"", None, link.session._on_failed)
            client._hand_over([(part, part)])

    with monkeypatch.context() as patch:
        patch.setattr(client._connection, "_sending", Looked())
        client._connection._write_sock._write.send(b"\0")  # not counted: as if the socket took more
        while not call.complete:
            time.sleep(0.001)
    assert call.result(lambda: StoreUnavailable("", "no reply"), lambda error: error) is not None


def test_kazoos_own_requests_keep_the_order(
    link: Driver, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert link.ask(Exists("/")) is not None
    client = link.session._client
    bell = client._connection._read_sock
    real = bell.recv
    replies: list[Any] = []
    asking = threading.Thread(target=lambda: replies.append(link.ask(Exists("/"))))
    with monkeypatch.context() as patch:

        def received(size: int) -> Any:  # by kazoo: what it sent is not yet among what waits for an answer
            patch.undo()
            asking.start()
            asking.join(0.2)
            return real(size)

        patch.setattr(bell, "recv", received)
        assert client.add_auth_async("digest", "ada:secret").get(timeout=20) is True
    asking.join()
    assert [type(reply) for reply in replies] == [Stat]
    assert server.accepted == 1


def test_what_is_queued_is_sent_first(link: Driver, server: FakeZooKeeper) -> None:
    assert link.ask(Exists("/")) is not None
    session = link.session
    first = Call(Create("/first"), lambda: None)
    part = Part(first, 0, session._acl, None, session._on_failed)
    session._client._queue.append((part, part))  # as by a caller that is about to wake kazoo's thread
    link.ask(Create("/second"))
    assert [path for seen, path in server.seen if seen == "create2"] == ["/first", "/second"]
    assert first.complete


def test_a_stream_of_events_holds_up_no_ping(links: Links, server: FakeZooKeeper) -> None:
    server.granted_ms = 1500
    links.connected(server.hosts)
    event = struct.pack("!iqiii", -1, -1, 0, CHANGED, 3) + packed("/nobody")
    for _ in range(600):
        if server.count("ping"):
            break
        server.send_all(event)
        threading.Event().wait(0.005)
    assert server.count("ping")


def test_nothing_waits_for_an_answer_on_a_connection_that_is_lost(
    link: Driver, server: FakeZooKeeper
) -> None:
    assert link.ask(Exists("/")) is not None
    session = link.session
    go_on = pausing(link)
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


def test_a_pause_fails_nothing_if_there_was_a_connection_since_the_last(link: Driver) -> None:
    assert link.ask(Exists("/")) is not None
    session = link.session
    call = Call(Create("/q"), lambda: None)
    session._parked[id(call)] = call
    for failed in (False, True):
        session._handler.tried = True
        session._on_round_failed()
        assert call.over is failed


def test_what_kazoo_itself_cannot_send_is_answered(link: Driver) -> None:
    result = link.session._client.exists_async("/\ud800")
    with pytest.raises(KazooException):
        result.get(timeout=20)


def test_an_error_that_kazoo_does_not_know_is_one_answer(link: Driver, server: FakeZooKeeper) -> None:
    server.fail("exists", -77)
    with pytest.raises(ZooKeeperError, match="error -77"):
        link.ask(Exists("/"))
    assert link.ask(Exists("/")) is not None
    assert server.accepted == 1


def test_what_is_no_message_ends_the_connection_and_not_the_session(
    link: Driver, server: FakeZooKeeper
) -> None:
    for junk in (struct.pack("!i", -20), struct.pack("!i", 3)):
        assert answered(link, Exists("/")) is not None
        before = server.accepted
        with server._changed:
            for connection in server.connections:
                connection.sock.sendall(junk + bytes(16))
        server.until(lambda: server.accepted > before)  # noqa: B023 - called at once
    assert answered(link, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_a_reply_that_cannot_be_read_is_one_answer(
    link: Driver, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server, "_exists", lambda *_: b"short")
        with pytest.raises(StoreUnavailable):
            link.ask(Exists("/"))
    assert link.ask(Exists("/")) is not None
    assert server.accepted == 1


def test_a_closed_client_answers_at_once(link: Driver) -> None:
    client = link.session._client
    assert link.ask(Close()) is None
    with pytest.raises(ConnectionClosedError):
        client.exists_async("/").get(timeout=20)


def test_nothing_asked_is_nothing_owed(link: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert link.ask(Exists("/")) is not None
    asked: list[Any] = []
    monkeypatch.setattr(link.session._client._connection, "_send", asked.append)
    assert isinstance(link.ask(Batch((Exists("/\ud800"),)))[0], UnicodeEncodeError)
    assert not asked


def test_wrong_arguments_come_back_as_they_are(link: Driver) -> None:
    with pytest.raises(TypeError):
        link.ask(Exists(7))  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        link.ask(Exists("/\ud800"))
    (reply,) = link.ask(Batch((Connect(1.0),)))
    assert isinstance(reply, AssertionError)
    with pytest.raises(AssertionError, match="once"):
        link.ask(Connect(1.0))
