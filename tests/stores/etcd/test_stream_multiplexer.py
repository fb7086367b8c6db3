from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from recipes._contract.wakeups import Disturbed, Event, Gone
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.requests import EtcdError, Watch
from recipes.stores.etcd.stream_book import Arming
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.etcd.wires import Channel

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PROGRESS: dict[str, Any] = {"progress_request": {}}


class Box:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def post(self, event: Event) -> None:
        self.events.append(event)


class Desk:
    """A multiplexer at a manual clock, its tellings done at once, its outboxes read."""

    def __init__(self, servers: int = 2) -> None:
        self.endpoints = Endpoints([("a", 1), ("b", 2)][:servers])
        self.multiplexer = Multiplexer(self.endpoints, None)
        self.now = 100.0
        self._begun: set[Channel] = set()

    def arm(self, box: Box, key: bytes = b"k", *, again: bool = False) -> tuple[list[Any], Arming]:
        replies: list[Any] = []
        arming = Arming(Watch(key, box, again=again), replies.append)
        self.multiplexer.arm(arming, self.now)
        self.tell()
        return replies, arming

    def opened(self) -> Channel:
        (channel,) = self.multiplexer.opens
        self.multiplexer.opens = []
        self.multiplexer.connected(channel, self.now)
        return channel

    def started(self, box: Box) -> Channel:
        """Return the shared channel, with one confirmed watch (number 1) of ``box``."""
        self.arm(box)
        channel = self.opened()
        self.result(channel, watch_id="1", created=True)
        self.sent(channel)
        return channel

    def sent(self, channel: Channel) -> list[Any]:
        data = bytes(channel.outbox)
        channel.outbox.clear()
        return [json.loads(line) for line in data.split(b"\n") if line.startswith(b"{")]

    def result(self, channel: Channel, **result: Any) -> None:
        self.document(channel, {"result": {"header": {"revision": "7"}, **result}})

    def document(self, channel: Channel, document: Any) -> None:
        self.raw(channel, json.dumps(document).encode() + b"\n")

    def raw(self, channel: Channel, line: bytes) -> None:
        head = b"" if channel in self._begun else HEAD
        self._begun.add(channel)
        self.multiplexer.received(channel, head + b"%x\r\n%s\r\n" % (len(line), line), self.now)
        self.tell()

    def at_due(self) -> None:
        due = self.multiplexer.due()
        assert due is not None
        self.multiplexer.tick(due - 0.01)
        self.now = due
        self.multiplexer.tick(due)
        self.tell()

    def tell(self) -> None:
        for tell, what in self.multiplexer.take_told():
            tell(what)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_all_watches_share_one_channel(desk: Desk) -> None:
    box = Box()
    replies, _ = desk.arm(box, b"a")
    desk.arm(box, b"b")
    channel = desk.opened()
    assert [m["create_request"]["watch_id"] for m in desk.sent(channel)] == [1, 2]
    desk.result(channel, watch_id="1", created=True)
    desk.result(channel, watch_id="2", created=True)
    assert replies == [7]
    desk.arm(box, b"c")
    assert [m["create_request"]["watch_id"] for m in desk.sent(channel)] == [3]
    assert desk.multiplexer.opens == []


def test_what_ended_is_cancelled_on_the_wire(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    _, arming = desk.arm(box, b"l")
    desk.multiplexer.drop(arming)
    desk.arm(box, b"m")
    desk.multiplexer.forget(box)
    assert cancelled(desk, channel) == [2, 3]
    assert box.events == [Gone("k")]
    desk.at_due()
    assert cancelled(desk, channel) == [1]


def cancelled(desk: Desk, channel: Channel) -> list[int]:
    return [m["cancel_request"]["watch_id"] for m in desk.sent(channel) if "cancel_request" in m]


def test_watches_that_told_of_their_event_are_cancelled_together_soon_after(desk: Desk) -> None:
    channel = desk.started(Box())
    other = Box()
    desk.arm(other, b"l")
    desk.result(channel, watch_id="2", created=True)
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    since = desk.now
    desk.now += 0.03
    desk.result(channel, watch_id="2", events=[{"type": "DELETE"}])
    assert other.events == [Gone("l")]
    assert cancelled(desk, channel) == []
    assert desk.multiplexer.due() == pytest.approx(since + 0.1)  # if nothing is said or read until then
    desk.at_due()
    assert cancelled(desk, channel) == [1, 2]
    assert desk.multiplexer.due() is None  # nothing is watched, and nothing owed


def test_a_stream_that_is_never_quiet_does_not_keep_spent_watches(desk: Desk) -> None:
    channel = desk.started(Box())
    desk.arm(Box(), b"l")
    desk.result(channel, watch_id="2", created=True)
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    desk.now += 0.06
    desk.result(channel, watch_id="-1")  # news that are none
    assert cancelled(desk, channel) == [1]


def test_spent_watches_are_cancelled_with_the_next_create(desk: Desk) -> None:
    channel = desk.started(Box())
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    desk.now += 0.04
    desk.arm(Box(), b"l")
    assert cancelled(desk, channel) == []
    desk.now += 0.02
    desk.arm(Box(), b"m")
    cancel, create = desk.sent(channel)
    assert cancel == {"cancel_request": {"watch_id": 1}}
    assert create["create_request"]["watch_id"] == 3


def test_spent_watches_end_with_their_connection(desk: Desk) -> None:
    channel = desk.started(Box())
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    desk.multiplexer.received(channel, b"", desk.now)
    assert desk.multiplexer.due() is None
    desk.arm(Box())
    again = desk.opened()
    desk.result(again, watch_id="2", created=True)
    desk.now += 1
    desk.multiplexer.tick(desk.now)
    assert cancelled(desk, again) == []


def test_a_silent_channel_is_asked_and_then_dead(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.at_due()
    assert desk.now == 105.0
    assert desk.sent(channel) == [PROGRESS]
    desk.at_due()
    assert desk.now == 107.0
    assert box.events == [Disturbed()]
    assert desk.multiplexer.closes == [channel]
    assert desk.multiplexer.due() is None
    assert desk.endpoints.current().host == "b"
    desk.arm(box)
    assert desk.opened().endpoint.host == "b"


def test_a_single_server_has_more_patience() -> None:
    desk = Desk(servers=1)
    box = Box()
    channel = desk.started(box)
    desk.at_due()
    desk.at_due()
    assert desk.now == 110.0
    assert desk.multiplexer.closes == [channel]


def test_watches_go_where_calls_go(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.multiplexer.follow()
    desk.tell()
    assert (channel.live, box.events) == (True, [])
    desk.endpoints.failed(channel.endpoint)
    desk.multiplexer.follow()
    desk.tell()
    assert (channel.live, box.events) == (False, [Disturbed()])
    assert desk.endpoints.current().host == "b", "which nobody has left"
    desk.arm(box)
    assert desk.opened().endpoint.host == "b"


def test_a_watch_begins_where_calls_go(desk: Desk) -> None:
    box, late = Box(), Box()
    channel = desk.started(box)
    desk.endpoints.failed(channel.endpoint)
    desk.arm(late, b"another")
    assert (channel.live, box.events) == (False, [Disturbed()])
    assert desk.opened().endpoint.host == "b"


def test_a_sign_of_life_is_enough(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    for _ in range(3):
        desk.at_due()
        assert desk.sent(channel) == [PROGRESS]
        desk.result(channel, watch_id="-1")
    assert desk.now == 115.0
    assert box.events == []


def test_a_channel_without_watches_may_be_silent(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.multiplexer.forget(box)
    assert desk.multiplexer.due() is None
    desk.now += 1000
    desk.multiplexer.tick(desk.now)
    desk.arm(box)
    assert desk.multiplexer.due() == desk.now + 1.5
    assert desk.sent(channel)[-1]["create_request"]["watch_id"] == 2


def test_a_create_that_is_not_answered_ends_the_channel_without_a_progress_request(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.now += 2
    replies, _ = desk.arm(Box(), b"l")
    desk.now += 1
    desk.arm(Box(), b"m")
    desk.result(channel, watch_id="3", created=True)
    assert desk.multiplexer.due() == 104.5  # still owes the other, from its last sign of life on
    desk.at_due()
    assert isinstance(replies[0], StoreUnavailable)
    assert box.events == [Disturbed()]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}\n', "no leader"),
        (b"nonsense\n", "no JSON object"),
        (b'{"result":{"watch_id":"x"}}\n', "no JSON object"),
        (b'{"result":{"watch_id":[]}}\n', "no JSON object"),
        (b'{"result":7}\n', "unknown shape"),
        (b"{}\n", "unknown shape"),
        (b'{"result":{"watch_id":"2","created":true}}\n', "unknown shape"),
    ],
)
def test_a_channel_that_says_something_wrong_is_dead(desk: Desk, data: bytes, words: str) -> None:
    box = Box()
    channel = desk.started(box)
    replies, _ = desk.arm(Box(), b"l")
    desk.raw(channel, data)
    assert box.events == [Disturbed()]
    assert words in str(replies[0])
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])  # too late
    desk.multiplexer.broken(channel, StoreUnavailable("a:1", "again"))
    desk.multiplexer.connected(channel, desk.now)
    assert box.events == [Disturbed()]


def test_what_follows_an_error_in_one_chunk_is_not_listened_to(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    event = {"result": {"watch_id": "1", "events": [{"type": "DELETE"}]}}
    desk.raw(channel, b'{"error":{"grpc_code":14}}\n' + json.dumps(event).encode() + b"\n")
    assert box.events == [Disturbed()]


def test_the_end_of_the_connection_is_the_end_of_the_channel(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    desk.multiplexer.received(channel, b"", desk.now)
    desk.tell()
    assert box.events == [Disturbed()]


def test_an_http_error_is_the_answer_and_its_kind_decides_whether_to_go_elsewhere(desk: Desk) -> None:
    replies, _ = desk.arm(Box())
    channel = desk.opened()
    body = b'{"code":16,"message":"invalid auth token"}'
    desk.multiplexer.received(
        channel, b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), 100.0
    )
    desk.tell()
    assert isinstance(replies[0], EtcdError)
    assert desk.endpoints.current().host == "a"


# A proxy in between.


def tried_alone(desk: Desk, box: Box) -> tuple[Channel, Channel, list[Any]]:
    replies, _ = desk.arm(box)
    main = desk.opened()
    desk.sent(main)
    desk.at_due()
    assert desk.now == 101.0
    solo = desk.opened()
    assert desk.sent(main) == [{"cancel_request": {"watch_id": 1}}]
    assert b"Content-Length" in solo.outbox
    return main, solo, replies


def test_behind_a_proxy_each_watch_gets_its_connection(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    box = Box()
    main, solo, replies = tried_alone(desk, box)
    desk.result(solo, watch_id="1", created=True)
    assert replies == [7]
    assert main not in desk.multiplexer.closes
    with caplog.at_level(logging.WARNING, "recipes"):
        desk.at_due()
    assert desk.now == 102.0
    assert main in desk.multiplexer.closes
    assert "proxy" in caplog.text
    desk.arm(box, b"l")
    other = desk.opened()
    desk.result(other, watch_id="2", created=True)
    assert desk.arm(box, b"l", again=True)[0] == [0]
    assert desk.multiplexer.opens == [], "and none a second one"
    desk.result(solo, watch_id="1", events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]
    assert not solo.live
    desk.result(other, watch_id="2", canceled=True)
    assert box.events == [Gone("k"), Disturbed()]
    assert not other.live
    assert desk.multiplexer.due() is None
    desk.now += 600
    desk.arm(box)
    assert b"chunked" in desk.opened().outbox


def refuse(desk: Desk, channel: Channel, status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n".encode()
    desk.multiplexer.received(channel, head + b"{}", desk.now)
    desk.tell()


@pytest.mark.parametrize("status", ["411 Length Required", "413 Content Too Large", "501 Not Implemented"])
def test_behind_a_proxy_that_refuses_a_body_without_a_length_each_watch_gets_its_connection(
    desk: Desk, caplog: pytest.LogCaptureFixture, status: str
) -> None:
    box, gone = Box(), Box()
    replies, _ = desk.arm(box)
    desk.arm(gone, b"l")
    main = desk.opened()
    desk.multiplexer.forget(gone)
    with caplog.at_level(logging.WARNING, "recipes"):
        refuse(desk, main, status)
    assert "a proxy refuses the watch stream" in caplog.text
    assert desk.multiplexer.closes == [main]
    assert replies == []
    solo = desk.opened()
    assert b"Content-Length" in solo.outbox
    assert desk.endpoints.current().host == "a"
    desk.result(solo, watch_id="1", created=True)
    assert replies == [7]
    assert desk.multiplexer.book.unanswered() == []
    assert desk.multiplexer.due() is None
    desk.arm(Box(), b"m")
    assert b"Content-Length" in desk.opened().outbox
    desk.result(solo, watch_id="1", events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]
    desk.now += 600
    desk.arm(box)
    assert b"chunked" in desk.opened().outbox


def test_a_watch_that_is_refused_alone_as_well_is_not_made(desk: Desk) -> None:
    replies, _ = desk.arm(Box())
    refuse(desk, desk.opened(), "501 Not Implemented")
    refuse(desk, desk.opened(), "501 Not Implemented")
    assert isinstance(replies[0], StoreUnavailable)
    assert desk.multiplexer.opens == []


def test_what_is_tried_alone_as_the_shared_stream_is_refused_is_not_tried_twice(desk: Desk) -> None:
    main, solo, replies = tried_alone(desk, Box())
    refuse(desk, main, "411 Length Required")
    assert desk.multiplexer.opens == []
    desk.result(solo, watch_id="1", created=True)
    assert replies == [7]


def test_a_second_watch_of_a_mailbox_is_cancelled_with_the_first(desk: Desk) -> None:
    box = Box()
    channel = desk.started(box)
    assert desk.arm(box, again=True)[0] == []
    assert desk.sent(channel)[-1]["create_request"]["watch_id"] == 2
    desk.result(channel, watch_id="2", created=True)
    desk.result(channel, watch_id="2", events=[{"type": "DELETE"}])
    desk.result(channel, watch_id="1", events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]
    desk.at_due()
    assert [each["cancel_request"]["watch_id"] for each in desk.sent(channel)] == [2, 1]
    assert desk.multiplexer.due() is None


def test_the_proxy_is_told_of_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        desk.now += 1000
        desk.arm(Box(), str(desk.now).encode())
        desk.opened()
        desk.at_due()
        solo = desk.opened()
        desk.result(solo, watch_id=str(desk.multiplexer._number_of(solo)), created=True)
        desk.at_due()
    assert caplog.text.count("proxy") == 1


def test_a_server_that_was_stopped_is_no_proxy(desk: Desk) -> None:
    box = Box()
    main, solo, replies = tried_alone(desk, box)
    desk.arm(box, b"l")  # while in doubt: alone
    desk.opened()
    desk.result(solo, watch_id="1", created=True)
    desk.result(main, watch_id="1", created=True)  # both at once, after a pause
    desk.result(main, watch_id="1", events=[{"type": "DELETE"}])  # not listened to here
    assert replies == [7]
    assert box.events == []
    assert desk.multiplexer.due() is None
    desk.arm(box, b"m")
    assert desk.multiplexer.opens == []
    assert desk.sent(main)[-1]["create_request"]["watch_id"] == 3
    desk.result(solo, watch_id="1", events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]


def test_a_dead_server_is_no_proxy(desk: Desk) -> None:
    main, solo, replies = tried_alone(desk, Box())
    desk.at_due()
    assert desk.now == 102.0
    assert not main.live
    desk.multiplexer.broken(solo, StoreUnavailable("a:1", "reset"))
    desk.tell()
    assert isinstance(replies[0], StoreUnavailable)
    desk.arm(Box())
    assert b"chunked" in desk.opened().outbox


def test_a_trial_that_finds_nobody_waiting_leaves_nothing(desk: Desk) -> None:
    box = Box()
    desk.arm(box)
    desk.opened()
    desk.multiplexer.forget(box)
    desk.at_due()
    assert desk.multiplexer.opens == []
    assert desk.multiplexer.book.unanswered() == []
    desk.arm(box)
    desk.opened()
    desk.multiplexer.forget(box)
    assert len(desk.multiplexer.closes) == 1
    assert desk.multiplexer.book.unanswered() == []


def test_a_second_trial_leaves_watches_alone_that_are(desk: Desk) -> None:
    box = Box()
    main, _, _ = tried_alone(desk, box)
    desk.multiplexer.broken(main, StoreUnavailable("a:1", "reset"))
    desk.arm(box, b"l")
    desk.opened()
    desk.at_due()
    assert [desk.multiplexer._number_of(channel) for channel in desk.multiplexer.opens] == [2]


def test_losing_all_loses_all(desk: Desk) -> None:
    box = Box()
    main, solo, replies = tried_alone(desk, box)
    desk.result(solo, watch_id="1", created=True)
    desk.multiplexer.lose_all(StoreUnavailable("a:1", "closed"))
    desk.tell()
    assert (replies, box.events) == ([7], [Disturbed()])
    assert not main.live
    assert not solo.live
    assert desk.endpoints.current() == main.endpoint, "and blames nobody"
    desk.multiplexer.lose_all(StoreUnavailable("a:1", "closed"))


def test_the_token_goes_with_the_channel_and_a_new_one_needs_another(desk: Desk) -> None:
    tokens = ["old"]
    desk.multiplexer = Multiplexer(desk.endpoints, lambda: tokens[-1])
    box = Box()
    desk.arm(box)
    old = desk.opened()
    assert b"Authorization: old" in old.outbox
    desk.result(old, watch_id="1", created=True)
    tokens.append("new")
    replies, _ = desk.arm(box, b"l")
    assert box.events == [Disturbed()]
    assert not old.live
    new = desk.opened()
    assert b"Authorization: new" in new.outbox
    assert new.endpoint == old.endpoint
    desk.result(new, watch_id="2", created=True)
    assert replies == [7]
