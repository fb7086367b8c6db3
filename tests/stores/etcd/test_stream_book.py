from __future__ import annotations

import weakref
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.layout import ref_of
from recipes.stores.etcd.requests import EtcdError, Post, Watch
from recipes.stores.etcd.stream_book import Arming, WatchBook, split

LOST = StoreUnavailable("h:1", "lost")


class Box:
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __eq__(self, other: object) -> bool:  # all boxes look alike: identity is what counts
        return True

    def post(self, event: Event) -> None:
        self.events.append(event)


class Desk:
    """A book whose tellings are done at once."""

    def __init__(self) -> None:
        self.book = WatchBook()

    def arm(self, box: Box, key: bytes = b"k", changes: bool = False) -> tuple[int | None, list[Any], Arming]:
        return self.ask(Watch(key, box, changes))

    def arm_queue(self, box: Box, queue: str = "q") -> tuple[int | None, list[Any], Arming]:
        start = f"{queue}/".encode()
        return self.ask(Watch(start, box, changes=True, end=start + b"~", queue=queue))

    def ask(self, watch: Watch) -> tuple[int | None, list[Any], Arming]:
        replies: list[Any] = []
        arming = Arming(watch, replies.append)
        return self.do(self.book.arm(arming, "h:1")), replies, arming

    def take(self, only: int | None = None, **result: Any) -> list[int]:
        cancels = self.book.take({"header": {"revision": 7}, **result}, only)
        self.do()
        return cancels

    def do(self, value: Any = None) -> Any:
        told, self.book.told = self.book.told, []
        for tell, what in told:
            tell(what)
        return value


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_watch_is_created_without_a_start_and_without_puts(desk: Desk) -> None:
    number, _, _ = desk.arm(Box(), b"\x00k")
    assert number == 1
    assert desk.book.create_message(1) == {
        "create_request": {"key": b"\x00k", "watch_id": 1, "filters": ["NOPUT"]}
    }
    number, _, _ = desk.arm(Box(), b"\x00k", changes=True)
    assert number == 2
    assert desk.book.create_message(2) == {"create_request": {"key": b"\x00k", "watch_id": 2}}


def test_a_watch_of_a_queue_is_one_of_a_range_with_all_its_events(desk: Desk) -> None:
    number, _, _ = desk.arm_queue(Box())
    assert number == 1
    request = {"key": b"q/", "range_end": b"q/~", "watch_id": 1}
    assert desk.book.create_message(1) == {"create_request": request}


@pytest.mark.parametrize("event", [{"kv": {}}, {"type": "PUT", "kv": {}}, {"type": "DELETE"}])
def test_any_event_of_a_queue_is_a_change_and_ends_its_watch(desk: Desk, event: Any) -> None:
    box = Box()
    desk.arm_queue(box)
    desk.take(watch_id=1, created=True)
    assert desk.take(watch_id=1, events=[event, {"type": "DELETE"}, {"kv": {}}]) == [1]
    assert desk.take(watch_id=1, events=[event]) == []
    assert box.events == [Changed("q")]


def test_mailboxes_that_watch_the_same_queue_share_a_watch(desk: Desk) -> None:
    boxes = [Box() for _ in range(3)]
    assert desk.arm_queue(boxes[0])[0] == 1
    desk.take(watch_id=1, created=True)
    for box in boxes[1:]:
        assert desk.arm_queue(box)[:2] == (None, [7])
    assert desk.arm_queue(boxes[0])[:2] == (None, [7]), "it watches already, and goes on"
    assert desk.do(desk.book.forget(boxes[1])) == []
    desk.take(watch_id=1, events=[{"kv": {}}])
    assert [box.events for box in boxes] == [[Changed("q")], [], [Changed("q")]]
    assert desk.arm_queue(boxes[0])[0] == 2, "the next list needs one of its own"
    assert not desk.do(desk.book.forget(boxes[2]))


def test_a_queue_and_its_first_key_and_another_queue_are_watched_apart(desk: Desk) -> None:
    queue, key, other = Box(), Box(), Box()
    assert desk.arm_queue(queue)[0] == 1
    assert desk.arm(key, b"q/", changes=True)[0] == 2
    assert desk.arm_queue(other, "q2")[0] == 3
    desk.take(watch_id=2, events=[{"type": "DELETE"}])
    assert (queue.events, key.events, other.events) == ([], [Gone("q/")], [])


@pytest.mark.parametrize(
    ("event", "posted"),
    [
        ({"type": "PUT"}, Changed("~value/x")),
        ({}, Changed("~value/x")),
        ({"type": "DELETE"}, Gone("~value/x")),
    ],
    ids=["put", "put, the default", "deleted"],
)
def test_events_of_a_value_name_it_and_not_its_key(desk: Desk, event: Any, posted: Event) -> None:
    box = Box()
    number, replies, _ = desk.ask(Watch(b"app/~value/x", box, changes=True, queue="~value/x"))
    message = {"key": b"app/~value/x", "watch_id": number}
    assert desk.book.create_message(number) == {"create_request": message}  # type: ignore[arg-type]
    desk.take(watch_id=number, created=True)
    assert desk.take(watch_id=number, events=[{**event, "kv": {}}]) == [number]
    assert (replies, box.events) == ([7], [posted])


def test_watches_of_queues_are_lost_with_their_connection(desk: Desk) -> None:
    confirmed = Box()
    desk.arm_queue(confirmed)
    desk.take(watch_id=1, created=True)
    _, replies, _ = desk.arm_queue(Box(), "q2")
    desk.book.lose([1, 2], LOST)
    desk.do()
    assert (confirmed.events, replies) == ([Disturbed()], [LOST])
    assert desk.arm_queue(confirmed)[0] == 3


class Caller:
    def heard(self, _: object) -> None:
        raise AssertionError("nothing should be told here")


def test_who_was_answered_is_kept_no_longer(desk: Desk) -> None:
    """A watch may stand for hours, beside thousands of others."""
    box, caller = Box(), Caller()
    alive = weakref.ref(caller)
    desk.book.arm(Arming(Watch(b"k", box), caller.heard), "h:1")
    del caller
    assert alive() is not None
    desk.book.take({"header": {"revision": 7}, "watch_id": 1, "created": True})
    desk.book.told = []
    assert alive() is None
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]


def test_the_reply_is_the_revision_of_created(desk: Desk) -> None:
    _, replies, _ = desk.arm(Box())
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=1, created=True)  # twice changes nothing
    assert replies == [7]
    assert desk.book.unanswered() == []


def test_a_deletion_ends_the_watch_and_is_told_once(desk: Desk) -> None:
    box = Box()
    desk.arm(box)
    desk.take(watch_id=1, created=True)
    assert desk.take(watch_id=1, events=[{"kv": {}}, {"type": "DELETE"}, {"type": "DELETE"}]) == [1]
    assert desk.take(watch_id=1, events=[{"type": "DELETE"}]) == []
    assert desk.take(watch_id=1, canceled=True) == []
    assert box.events == [Gone("k")]
    assert len(desk.book) == 0


def test_a_put_is_told_only_to_who_wants_changes(desk: Desk) -> None:
    box, other = Box(), Box()
    desk.arm(box)
    desk.arm(other, changes=True)
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=2, created=True)
    assert desk.take(watch_id=1, events=[{"kv": {}}]) == []
    assert desk.take(watch_id=2, events=[{"type": "PUT", "kv": {}}]) == [2]
    assert (box.events, other.events) == ([], [Changed("k")])


def test_who_watches_the_same_shares_the_watch_and_its_revision(desk: Desk) -> None:
    first, second, third = Box(), Box(), Box()
    assert desk.arm(first)[0] == 1
    number, waiting, _ = desk.arm(second)
    assert number is None
    assert waiting == []
    desk.take(watch_id=1, created=True)
    number, at_once, _ = desk.arm(third)
    assert number is None
    assert (waiting, at_once) == ([7], [7])
    assert desk.take(watch_id=1, events=[{"type": "DELETE"}]) == [1]
    assert first.events == second.events == third.events == [Gone("k")]


def test_who_comes_after_the_event_gets_a_new_watch(desk: Desk) -> None:
    desk.arm(Box())
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert desk.arm(Box())[0] == 2


def test_forgetting_cancels_what_nobody_else_needs(desk: Desk) -> None:
    box, other = Box(), Box()
    desk.arm(box)
    desk.arm(other)
    desk.arm(box, b"l")
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=2, created=True)
    assert desk.do(desk.book.forget(box)) == [2]
    assert desk.do(desk.book.forget(box)) == []
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert (box.events, other.events) == ([], [Gone("k")])
    assert not desk.book._of


def test_forgetting_releases_who_still_waits(desk: Desk) -> None:
    box = Box()
    _, replies, _ = desk.arm(box)
    assert desk.do(desk.book.forget(box)) == [1]
    assert isinstance(replies[0], StoreUnavailable)
    assert desk.take(watch_id=1, created=True) == []  # answered all the same
    assert desk.book.unanswered() == []


def test_dropping_an_arming_leaves_the_other_of_the_same_mailbox(desk: Desk) -> None:
    box = Box()
    desk.arm(box)
    _, _, second = desk.arm(box)
    desk.take(watch_id=1, created=True)
    assert desk.do(desk.book.drop(second)) == []
    assert desk.do(desk.book.drop(second)) == []
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]


def test_a_mailbox_is_told_once_however_often_it_arms(desk: Desk) -> None:
    box = Box()
    replies = [desk.arm(box)[1] for _ in range(2)]
    desk.take(watch_id=1, created=True)
    assert replies == [[7], [7]]
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert box.events == [Gone("k")]
    assert not desk.book._of


@pytest.mark.parametrize("extra", [{"compact_revision": "9"}, {"cancel_reason": "why"}, {}])
def test_a_cancelled_watch_disturbs(desk: Desk, extra: Any) -> None:
    box = Box()
    _, replies, _ = desk.arm(box)
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=1, canceled=True, **extra)
    assert (replies, box.events) == ([7], [Disturbed()])


def test_a_watch_compacted_at_once_is_no_answer(desk: Desk) -> None:
    _, replies, _ = desk.arm(Box())
    desk.take(watch_id=1, canceled=True, compact_revision=9)
    assert "compaction" in str(replies[0])


@pytest.mark.parametrize("only", [None, 2])
def test_a_refusal_without_a_number_is_that_of_the_oldest_or_of_the_only(
    desk: Desk, only: int | None
) -> None:
    _, first, _ = desk.arm(Box(), b"a")
    _, second, _ = desk.arm(Box(), b"b")
    desk.take(only, watch_id=-1, created=True, canceled=True, cancel_reason="permission denied")
    refused, waiting = (first, second) if only is None else (second, first)
    assert isinstance(refused[0], EtcdError)
    assert waiting == []


def test_a_refusal_of_what_was_given_up_is_nobody_elses(desk: Desk) -> None:
    box = Box()
    desk.arm(box, b"a")
    desk.do(desk.book.forget(box))
    _, second, _ = desk.arm(Box(), b"b")
    desk.take(watch_id=-1, created=True, canceled=True, cancel_reason="permission denied")
    assert second == []
    desk.book.abandon(2)
    desk.take(watch_id=-1, created=True, canceled=True)
    assert second == []


def test_a_lost_connection_disturbs_and_answers_who_waits(desk: Desk) -> None:
    confirmed, gone = Box(), Box()
    desk.arm(confirmed, b"a")
    desk.take(watch_id=1, created=True)
    _, replies, _ = desk.arm(Box(), b"b")
    desk.arm(gone, b"c")
    desk.do(desk.book.forget(gone))
    desk.book.lose([1, 2, 99], LOST)
    desk.do()
    assert confirmed.events == [Disturbed()]
    assert replies == [LOST]
    assert len(desk.book) == len(desk.book.unanswered()) == len(desk.book._of) == 0


def test_a_sign_of_life_is_nothing_else(desk: Desk) -> None:
    desk.arm(Box())
    assert desk.take(watch_id=-1) == []
    assert desk.take() == []


def test_a_key_of_any_bytes_has_a_reference(desk: Desk) -> None:
    """Of somebody else's contender: the layout refers to it in the same way."""
    box = Box()
    desk.arm(box, b"x/\xff")
    desk.take(watch_id=1, created=True)
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert box.events == [Gone(ref_of(b"x/\xff"))] == [Gone("x/\udcff")]


def test_a_mailbox_that_arms_again_what_is_confirmed_watches_once(desk: Desk) -> None:
    """As each re-read does: a long wait must not pile up armings."""
    box, other = Box(), Box()
    desk.arm(box)
    desk.take(watch_id=1, created=True)
    for _ in range(3):
        number, replies, again = desk.arm(box)
        assert (number, replies) == (None, [7])
    assert desk.do(desk.book.drop(again)) == [], "and giving it up leaves the first"
    assert desk.arm(other)[1] == [7], "one that looks alike is another"
    assert [len(watches) for watches in desk.book._of.values()] == [1, 1]
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    assert (box.events, other.events) == ([Gone("k")], [Gone("k")])
    assert not desk.book._of


def twice(desk: Desk, box: Box, key: bytes = b"k") -> tuple[int | None, list[Any], Arming]:
    """Watch a key, and then by another watch on the wire; returns what came of that."""
    number, _, _ = desk.arm(box, key)
    desk.take(watch_id=number, created=True)
    return desk.ask(Watch(key, box, again=True))


@pytest.mark.parametrize(("first", "cancelled", "others"), [(1, [1], []), (2, [2, 1], [Gone("k")])])
def test_who_watches_a_second_time_is_told_once_by_the_watch_that_is_first(
    desk: Desk, first: int, cancelled: list[int], others: list[Event]
) -> None:
    box, other = Box(), Box()
    number, replies, _ = twice(desk, box)
    assert (number, replies) == (2, [])
    assert desk.arm(other)[0] is None, "the newer is for all that come"
    desk.take(watch_id=2, created=True, header={"revision": 9})
    assert replies == [9]
    assert desk.ask(Watch(b"k", box, again=True))[:2] == (None, [7]), "and there is no third"
    assert desk.arm(box)[:2] == (None, [7]), "nor does what looks again join another"
    assert desk.take(watch_id=first, events=[{"type": "DELETE"}]) == cancelled
    assert other.events == others
    desk.take(watch_id=3 - first, events=[{"type": "DELETE"}])
    assert box.events == other.events == [Gone("k")]
    assert not desk.book._of
    assert not desk.book.numbers()


def test_a_second_watch_is_that_of_another_mailbox_if_there_is_one(desk: Desk) -> None:
    box, other = Box(), Box()
    twice(desk, other)
    desk.take(watch_id=2, created=True, header={"revision": 9})
    assert desk.arm(box)[:2] == (None, [9])
    assert twice(desk, Box(), b"l")[0] == 4
    number, replies, arming = desk.ask(Watch(b"k", box, again=True))
    assert (number, replies) == (None, [7])
    assert desk.do(desk.book.drop(arming)) == []
    desk.take(watch_id=1, events=[{"type": "DELETE"}])
    desk.take(watch_id=2, events=[{"type": "DELETE"}])
    assert box.events == other.events == [Gone("k")]


def test_however_many_come_and_look_again_the_same_is_watched_twice_at_most(desk: Desk) -> None:
    """Each of many waiters of one client, behind one that holds for long, finds that others have written."""
    boxes = [Box() for _ in range(50)]
    for upto in (10, 20, 50):  # some come, and then all of these look again
        for box in boxes[:upto]:
            for again in (False, True):
                number = desk.ask(Watch(b"k", box, again=again))[0]
                if number is not None:
                    desk.take(watch_id=number, created=True)
    assert desk.book.numbers() == [1, 2]
    assert {len(watches) for watches in desk.book._of.values()} == {2}
    desk.do(desk.book.lose(desk.book.numbers(), LOST))
    assert all(box.events == [Disturbed()] for box in boxes), "one break is one, or each would pause"
    assert not desk.book._of
    assert not desk.book._open


@pytest.mark.parametrize("gone", [True, False])
def test_what_was_told_or_lost_meanwhile_is_not_watched_a_second_time(desk: Desk, gone: bool) -> None:
    box = Box()
    desk.arm(box)
    desk.take(watch_id=1, created=True)
    if gone:
        desk.take(watch_id=1, events=[{"type": "DELETE"}])
    else:
        desk.do(desk.book.lose_all(LOST))
    assert desk.ask(Watch(b"k", box, again=True))[:2] == (None, [0])
    assert not desk.book.numbers()


def test_a_first_event_answers_who_still_waits_for_the_second_watch(desk: Desk) -> None:
    box = Box()
    number, replies, _ = twice(desk, box)
    assert desk.take(watch_id=1, events=[{"type": "DELETE"}]) == [1, number]
    assert (replies, box.events) == ([0], [Gone("k")]), "nothing has failed"
    assert desk.book.unanswered() == [number]


def test_forgetting_cancels_both_watches_of_a_mailbox(desk: Desk) -> None:
    box = Box()
    _, replies, _ = twice(desk, box)
    assert desk.do(desk.book.forget(box)) == [1, 2]
    assert isinstance(replies[0], StoreUnavailable)
    assert not desk.book.numbers()


def test_a_batch_is_split_by_position() -> None:
    watch, post = Watch(b"k", Box()), Post("/kv/put", {})
    assert split((post, watch, post)) == ({1: watch}, {0: post, 2: post})
    with pytest.raises(AssertionError):
        split((Batch(()),))
