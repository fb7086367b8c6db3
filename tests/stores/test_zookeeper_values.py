"""Values in ZooKeeper: what is asked, and what is made of each reply."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.operations import (
    Enqueue,
    Entry,
    Guard,
    Open,
    Read,
    Settle,
    Stored,
    Ticket,
    Write,
    Written,
)
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.receipts import Exchange
from recipes.stores.zookeeper.codec import encoded
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.protocol_values import MOST_NODES, NODE_TRIES
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Check,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionInfo,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, Asked, feed

KEY = "~value/x"
NODE = "/app/~value/x"
RECEIPT = f"{NODE}/~fffffffffffffffd"
CZXID = 7
GUARD = Entry(Ticket("l", "lock", "1"), "/app/l/_c_1-lock-0000000000", 70)
BOTH = Batch((Sync("/"), Get(NODE), Get(RECEIPT)))
BEGIN = Batch((Create(RECEIPT, b"", ephemeral=True), Get(NODE), Get(RECEIPT)))
CUT = StoreUnavailable("zookeeper://z", "cut")


def stat(version: int, czxid: int = CZXID) -> Stat:
    return Stat(czxid, 0, version)


def shown(version: int, czxid: int = CZXID) -> int:
    """The version of a value whose data has this one."""
    return czxid << 32 | version


def failed(part: int, error: ZooKeeperError) -> MultiFailed:
    return MultiFailed(part, error)


def write(data: bytes | None = b"x", number: int = 1, **conditions: Any) -> Write:
    return Write(KEY, data, number, **conditions)


@pytest.fixture
def protocol() -> ZooKeeperProtocol:
    protocol = ZooKeeperProtocol("zookeeper://z", Layout("app"))
    feed(protocol.open(Open(12), CONTEXT), SessionInfo(-3, 12.0))
    return protocol


def read(protocol: ZooKeeperProtocol, found: Any) -> Stored:
    """Read the value: ``found`` is what is there."""
    asked = feed(protocol.read(Read(KEY), CONTEXT), (None, found))
    assert asked == [Batch((Sync("/"), Get(NODE)))]
    stored: Stored = asked.result
    return stored


def written(protocol: ZooKeeperProtocol, version: int = 1) -> None:
    """Write it without a condition, where it was written before: the receipt has version 1 then."""
    asked = feed(protocol.write(write(b"first", 90), CONTEXT), (("", stat(version)),))
    assert asked.result == Written(done=True, stored=Stored(b"first", shown(version)))


def begun(found: Any) -> tuple[Any, ...]:
    """The replies to `BEGIN` where ``found`` is what is there."""
    return (RECEIPT, stat(0)), found, (b"", stat(0))


def tried(protocol: ZooKeeperProtocol, op: Write, *replies: Any, again: bool = False) -> Asked:
    return feed(protocol.write(op, AGAIN if again else CONTEXT), *replies)


# Reading.


@pytest.mark.parametrize(
    ("found", "stored"),
    [
        (NoNode(), Stored()),
        ((None, stat(3)), Stored()),  # deleted
        ((None, stat(0)), Stored()),  # made for a receipt
        ((b"", stat(0)), Stored()),  # made for contenders
        ((b"", stat(1)), Stored(b"", shown(1))),
        ((b"by hand", stat(0)), Stored(b"by hand", shown(0))),
        ((b"late", stat(-2)), Stored(b"late", CZXID << 32 | 2**32 - 2)),
    ],
)
def test_a_value_is_what_was_written(protocol: ZooKeeperProtocol, found: Any, stored: Stored) -> None:
    assert read(protocol, found) == stored


def test_a_watch_is_set_before_the_node_is_read_whether_or_not_there_is_one(
    protocol: ZooKeeperProtocol,
) -> None:
    asked = feed(protocol.read(Read(KEY, watch=True), CONTEXT), (None, None, NoNode()))
    assert asked == [Batch((Sync("/"), Exists(NODE, MAILBOX, KEY), Get(NODE)))]
    assert asked.result == Stored()


@pytest.mark.parametrize(("error", "raised"), [(SessionExpired(), SessionLost), (CUT, StoreUnavailable)])
def test_a_read_that_fails_says_so(
    protocol: ZooKeeperProtocol, error: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        feed(protocol.read(Read(KEY), CONTEXT), (error, error))


# Writing, and what is made for it.


def test_the_first_write_makes_the_receipt_and_the_next_replaces_it(protocol: ZooKeeperProtocol) -> None:
    first = tried(protocol, write(b"1"), (("", stat(1)),))
    assert first == [Batch((Multi((Create(RECEIPT, b"1", ephemeral=True), SetData(NODE, b"1", -1))),))]
    assert first.result == Written(done=True, stored=Stored(b"1", shown(1)))
    second = tried(protocol, write(b"2", 2), ((stat(1), stat(2)),))
    assert second == [Batch((Multi((SetData(RECEIPT, b"2", 0), SetData(NODE, b"2", -1))),))]
    assert second.result == Written(done=True, stored=Stored(b"2", shown(2)))


def test_to_delete_is_to_write_null_data(protocol: ZooKeeperProtocol) -> None:
    asked = tried(protocol, write(None), (("", stat(4)),))
    assert asked == [Batch((Multi((Create(RECEIPT, b"1", ephemeral=True), SetData(NODE, None, -1))),))]
    assert asked.result == Written(done=True, stored=Stored())


MAKING = (Create(NODE, None), Create(RECEIPT, b"1", ephemeral=True), SetData(NODE, b"x", -1))


def test_a_node_that_is_missing_is_made_in_the_same_step(protocol: ZooKeeperProtocol) -> None:
    """Two round trips; one where a read has said that it is missing."""
    asked = tried(protocol, write(), (failed(0, NoNode()),), (("", "", stat(1)),))
    assert asked[1:] == [Batch((Multi(MAKING),))]
    assert asked.result == Written(done=True, stored=Stored(b"x", shown(1)))


def test_parents_that_are_missing_are_made_before(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(
        protocol,
        write(),
        (failed(0, NoNode()),),
        (NodeExists(), ("/app/~value", stat(0))),
        (("", "", stat(1)),),
    )
    making = Batch((Multi(MAKING),))
    assert asked == [making, Batch((Create("/app"), Create("/app/~value"))), making]
    assert asked.result.done


def test_a_node_that_another_made_meanwhile_is_written(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(protocol, write(), (failed(0, NodeExists()),), (("", stat(2)),))
    assert asked[1] == Batch((Multi((Create(RECEIPT, b"1", ephemeral=True), SetData(NODE, b"x", -1))),))
    assert asked.result.done


def test_a_node_that_comes_and_goes_is_not_waited_for_for_ever(protocol: ZooKeeperProtocol) -> None:
    """Every try was answered, so it is known that nothing was done."""
    replies = [(failed(0, NoNode() if turn % 2 == 0 else NodeExists()),) for turn in range(NODE_TRIES)]
    with pytest.raises(StoreUnavailable, match="over and over") as raised:
        tried(protocol, write(), *replies)
    assert raised.value.unsent


# Conditions.


def test_a_condition_is_compared_and_the_node_read_behind(protocol: ZooKeeperProtocol) -> None:
    before = read(protocol, (b"old", stat(3)))
    asked = tried(
        protocol,
        write(if_version=before.version),
        begun((b"old", stat(3))),
        ((stat(1), stat(4)), (b"x", stat(4))),
    )
    parts = (SetData(RECEIPT, b"1", 0), SetData(NODE, b"x", 3))
    assert asked == [BEGIN, Batch((Multi(parts), Get(NODE)))]
    assert asked.result == Written(done=True, stored=Stored(b"x", shown(4)))
    again = tried(protocol, write(if_version=shown(4), number=2), ((stat(2), stat(5)), (b"x", stat(5))))
    assert again == [Batch((Multi((SetData(RECEIPT, b"2", 1), SetData(NODE, b"x", 4))), Get(NODE)))]


@pytest.mark.parametrize("found", [(b"anew", stat(3, 9)), (b"anew", stat(1, 9)), NoNode()])
def test_a_node_that_an_operator_has_made_anew_has_no_version_of_the_one_before(
    protocol: ZooKeeperProtocol, found: Any
) -> None:
    """Its data version may be the same. A receipt goes with its node, so the first is made before."""
    before = read(protocol, (b"old", stat(3)))
    receipt = found if isinstance(found, NoNode) else (b"", stat(0))
    replies = [(NoNode() if receipt is found else (RECEIPT, stat(0)), found, receipt)]
    if receipt is not found:  # and it is settled by what the receipt is known to be
        replies.append((None, found, receipt))
    asked = tried(protocol, write(if_version=before.version), *replies)
    assert asked == [BEGIN, BOTH][: len(replies)]
    stored = Stored() if receipt is found else Stored(found[0], shown(found[1].version, 9))
    assert asked.result == Written(done=False, stored=stored)


def test_a_receipt_that_another_thread_has_made_is_used(protocol: ZooKeeperProtocol) -> None:
    before = read(protocol, (b"old", stat(3)))
    asked = tried(
        protocol,
        write(if_version=before.version),
        (NodeExists(), (b"old", stat(3)), (b"8", stat(4))),
        ((stat(5), stat(4)), (b"x", stat(4))),
    )
    assert asked[1].parts[0] == Multi((SetData(RECEIPT, b"1", 4), SetData(NODE, b"x", 3)))
    assert asked.result.done


def test_a_node_that_came_and_went_is_begun_anew(protocol: ZooKeeperProtocol) -> None:
    read(protocol, (None, stat(2)))
    asked = tried(
        protocol,
        write(if_version=0),
        (NoNode(), NoNode(), NoNode()),
        (("", "", stat(1, 9)), None, None),
    )
    assert asked == [BEGIN, Batch((Multi(MAKING), Get(NODE), Get(RECEIPT)))]
    assert asked.result.done


def test_a_lost_race_is_one_round_trip_and_brings_the_next_value(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    before = read(protocol, (b"old", stat(3)))
    asked = tried(protocol, write(if_version=before.version), (failed(1, BadVersion()), (b"other", stat(4))))
    assert len(asked) == 1
    assert asked.result == Written(done=False, stored=Stored(b"other", shown(4)))
    then = tried(protocol, write(if_version=shown(4)), ((stat(1), stat(5)), (b"x", stat(5))))
    assert len(then) == 1
    assert then.result.done


def test_versions_near_the_end_of_the_counter_are_compared_as_the_server_counts(
    protocol: ZooKeeperProtocol,
) -> None:
    written(protocol)
    before = read(protocol, (b"old", stat(-7)))
    asked = tried(protocol, write(if_version=before.version), ((stat(1), stat(-6)), (b"x", stat(-6))))
    assert asked[0].parts[0].parts[1] == SetData(NODE, b"x", -7)
    assert asked.result.stored.version == before.version + 1


@pytest.mark.parametrize("last", [True, False])
def test_a_version_that_has_come_to_minus_one_is_compared(protocol: ZooKeeperProtocol, *, last: bool) -> None:
    """To name that is to name any: a second write in the same step names the version behind it."""
    written(protocol)
    before = read(protocol, (b"old", stat(-1)))
    reply = (stat(1), stat(0), stat(1)) if last else failed(2, BadVersion())
    asked = tried(protocol, write(if_version=before.version), (reply, (b"x", stat(1))))
    parts = SetData(RECEIPT, b"1", 0), SetData(NODE, b"x", -1), SetData(NODE, b"x", 0)
    assert asked == [Batch((Multi(parts), Get(NODE)))]
    assert asked.result == Written(done=last, stored=Stored(b"x", shown(1)))


@pytest.mark.parametrize(
    ("found", "stored"),
    [
        (NoNode(), Stored()),
        ((b"made anew", stat(3, CZXID + 1)), Stored(b"made anew", shown(3, CZXID + 1))),
        ((b"other", stat(4)), Stored(b"other", shown(4))),
    ],
    ids=["gone", "anew", "other"],
)
def test_a_version_that_was_not_seen_is_read_first(
    protocol: ZooKeeperProtocol, found: Any, stored: Stored
) -> None:
    """A data version says nothing of which node it is of: one that an operator made anew counts from 0."""
    asked = tried(protocol, write(if_version=shown(3)), (None, found, NoNode()))
    assert asked == [BOTH]
    assert asked.result == Written(done=False, stored=stored)


def test_what_another_thread_finds_meanwhile_refuses_nothing(protocol: ZooKeeperProtocol) -> None:
    """It has settled a write of its own, by a receipt below a node that it made; there is no value yet."""
    read(protocol, NoNode())
    steps = protocol.write(write(if_version=0), CONTEXT)
    assert next(steps) == Batch((Multi(MAKING), Get(NODE), Get(RECEIPT)))
    steps.send((failed(0, NoNode()), NoNode(), NoNode()))  # has the nodes above made
    settled = feed(protocol.settle(Settle(write(number=2)), CONTEXT), ((("", stat(0)), ("", stat(0))),))
    assert settled.result is False
    assert steps.send((NodeExists(), NodeExists())) == BOTH
    again = steps.send((None, (None, stat(0)), (b"", stat(0))))
    assert again.parts[0] == Multi((SetData(RECEIPT, b"1", 0), SetData(NODE, b"x", 0)))
    with pytest.raises(StopIteration) as done:
        steps.send(((stat(1), stat(1)), (b"x", stat(1))))
    assert done.value.value == Written(done=True, stored=Stored(b"x", shown(1)))


def test_a_number_that_is_no_version_is_none_of_a_node_that_is_missing(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(protocol, write(if_version=5), (None, NoNode(), NoNode()))
    assert asked == [BOTH]
    assert asked.result == Written(done=False, stored=Stored())


def test_what_must_not_be_there_is_made(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(protocol, write(if_version=0), (("", "", stat(1)), (b"x", stat(1)), (b"1", stat(0))))
    assert asked == [Batch((Multi(MAKING), Get(NODE), Get(RECEIPT)))]
    assert asked.result.done


@pytest.mark.parametrize("data", [None, b""])
def test_what_must_not_be_there_is_written_over_what_is_no_value(
    protocol: ZooKeeperProtocol, data: bytes | None
) -> None:
    version = 0 if data == b"" else 6
    read(protocol, (data, stat(version)))
    begins = begun((data, stat(version)))
    asked = tried(protocol, write(if_version=0), begins, ((stat(1), stat(7)), (b"x", stat(7))))
    assert asked[1].parts[0].parts[1] == SetData(NODE, b"x", version)
    assert asked.result.done


def test_what_must_not_be_there_and_was_never_read_is_read_first(protocol: ZooKeeperProtocol) -> None:
    asked = tried(protocol, write(if_version=0), (None, (b"there", stat(2)), NoNode()))
    assert asked == [BOTH]
    assert asked.result == Written(done=False, stored=Stored(b"there", shown(2)))


def test_a_value_that_is_known_to_be_there_is_read_anyhow(protocol: ZooKeeperProtocol) -> None:
    """What this session knows may be old: it was deleted since."""
    read(protocol, (b"there", stat(2)))
    asked = tried(
        protocol,
        write(if_version=0),
        (None, (None, stat(3)), NoNode()),
        begun((None, stat(3))),
        ((stat(1), stat(4)), (b"x", stat(4))),
    )
    assert asked[0] == BOTH
    assert asked.result.done


def test_one_that_another_made_meanwhile_is_shown_at_once(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(protocol, write(if_version=0), (failed(0, NodeExists()), (b"theirs", stat(1)), NoNode()))
    assert len(asked) == 1
    assert asked.result == Written(done=False, stored=Stored(b"theirs", shown(1)))


def test_one_that_another_made_and_deleted_meanwhile_is_written(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    asked = tried(
        protocol,
        write(if_version=0),
        (failed(0, NodeExists()), (None, stat(2)), NoNode()),
        begun((None, stat(2))),
        ((stat(1), stat(3)), (b"x", stat(3))),
    )
    assert asked[2].parts[0].parts[1] == SetData(NODE, b"x", 2)
    assert asked.result.done


def test_a_deletion_in_between_is_no_value_either(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    read(protocol, (None, stat(2)))
    asked = tried(
        protocol,
        write(if_version=0),
        (failed(1, BadVersion()), (None, stat(4))),
        ((stat(1), stat(5)), (b"x", stat(5))),
    )
    assert asked[1].parts[0].parts[1] == SetData(NODE, b"x", 4)
    assert asked.result.done


# Receipts.


def test_a_receipt_that_has_the_number_means_it_was_done(protocol: ZooKeeperProtocol) -> None:
    asked = tried(
        protocol, write(), (failed(0, NodeExists()),), (None, (b"x", stat(1)), (b"1", stat(0))), again=True
    )
    assert asked[1:] == [BOTH]
    assert asked.result == Written(done=True)


def test_a_receipt_that_rose_is_compared_anew(protocol: ZooKeeperProtocol) -> None:
    """Another thread of the session was quicker, or one that was asked before."""
    written(protocol)
    asked = tried(
        protocol,
        write(),
        (failed(0, BadVersion()),),
        (None, (b"y", stat(3)), (b"8", stat(4))),
        ((stat(5), stat(4)),),
    )
    assert asked[0].parts[0].parts[0] == SetData(RECEIPT, b"1", 0)
    assert asked[2].parts[0].parts[0] == SetData(RECEIPT, b"1", 4)
    assert asked.result.done


def test_a_receipt_is_compared_as_the_server_counts(protocol: ZooKeeperProtocol) -> None:
    """In 32 bits with a sign: no request was made of what is beyond the last number."""
    written(protocol)
    rose: list[Any] = [(failed(0, BadVersion()),), (None, (b"y", stat(1)), (b"8", stat(2**31 - 1)))]
    asked = tried(protocol, write(), *rose, ((stat(-(2**31)), stat(1)),))
    assert asked[-1].parts[0].parts[0] == SetData(RECEIPT, b"1", 2**31 - 1)
    asked = tried(protocol, write(number=2), ((stat(-(2**31) + 1), stat(1)),))
    assert asked[-1].parts[0].parts[0] == SetData(RECEIPT, b"2", -(2**31))
    assert encoded(asked[-1].parts[0], b"")


def test_a_receipt_whose_count_is_at_its_end_is_there(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    rose: list[Any] = [(failed(0, BadVersion()),), (None, (b"y", stat(1)), (b"8", stat(-1)))]
    asked = tried(protocol, write(), *rose, ((stat(0), stat(1)),))
    assert asked[-1].parts[0].parts[0] == SetData(RECEIPT, b"1", -1)
    asked = tried(protocol, write(number=2), ((stat(1), stat(1)),))
    assert asked[-1].parts[0].parts[0] == SetData(RECEIPT, b"2", 0)


def test_a_receipt_that_went_with_its_node_is_made_anew(protocol: ZooKeeperProtocol) -> None:
    """An operator deleted the node of the value."""
    written(protocol)
    asked = tried(
        protocol,
        write(),
        (failed(0, NoNode()),),
        (None, NoNode(), NoNode()),
        (("", "", stat(1, 9)),),
    )
    assert asked[2] == Batch((Multi(MAKING),))
    assert asked.result.stored == Stored(b"x", shown(1, 9))


def test_a_receipt_of_a_node_that_is_said_to_be_missing_is_looked_for(protocol: ZooKeeperProtocol) -> None:
    """It may be there by now, with a value in it: nothing is written without a comparison."""
    written(protocol)
    read(protocol, NoNode())
    asked = tried(
        protocol,
        write(if_version=0),
        (None, (b"theirs", stat(1, 9)), NoNode()),
        (None, (b"theirs", stat(1, 9)), NoNode()),
    )
    assert asked == [BOTH, BOTH]
    assert asked.result == Written(done=False, stored=Stored(b"theirs", shown(1, 9)))


def test_a_receipt_of_no_data_lists_nothing(protocol: ZooKeeperProtocol) -> None:
    asked = tried(
        protocol,
        write(),
        (failed(0, NodeExists()),),
        (None, NoNode(), (None, stat(0))),
        ((stat(1), stat(1)),),
    )
    assert asked.result.done


# Guards.


def test_guards_are_checked_behind_the_receipt(protocol: ZooKeeperProtocol) -> None:
    asked = tried(protocol, write(guards=(Guard(GUARD),)), (("", None, stat(1)), (b"x", stat(1))))
    parts = (Create(RECEIPT, b"1", ephemeral=True), Check(GUARD.ref), SetData(NODE, b"x", -1))
    assert asked == [Batch((Multi(parts), Get(NODE)))]
    assert asked.result == Written(done=True, stored=Stored(b"x", shown(1)))


def test_a_guard_that_is_gone_says_so_and_nothing_is_written(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    asked = tried(protocol, write(guards=(Guard(GUARD),)), (failed(1, NoNode()), (b"old", stat(1))))
    assert len(asked) == 1
    assert asked.result == Written(done=False, stored=Stored(b"old", shown(1)), guarded=False)


def test_a_guard_that_must_not_change_is_checked_by_its_version(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    op = write(guards=(Guard(GUARD, unchanged=True),))
    asked = tried(protocol, op, (failed(1, BadVersion()), (b"old", stat(1))))
    assert asked[0].parts[0].parts[1] == Check(GUARD.ref, 0)
    assert asked.result == Written(done=False, stored=Stored(b"old", shown(1)), guarded=False)


def test_a_guard_of_a_value_that_must_not_be_there(protocol: ZooKeeperProtocol) -> None:
    read(protocol, NoNode())
    op = write(guards=(Guard(GUARD),), if_version=0)
    asked = tried(protocol, op, (failed(2, NoNode()), NoNode(), NoNode()))
    assert asked.result == Written(done=False, stored=Stored(), guarded=False)


def test_what_is_asked_again_after_a_guard_has_gone_is_settled(protocol: ZooKeeperProtocol) -> None:
    """The first try may be on its way yet."""
    written(protocol)
    asked = tried(
        protocol,
        write(guards=(Guard(GUARD),)),
        (failed(1, NoNode()), (b"old", stat(1))),
        ((stat(1),),),
        again=True,
    )
    assert asked[1] == Batch((Multi((SetData(RECEIPT, b"", 0),)),))
    assert not asked.result.done
    assert not asked.result.guarded


def test_a_guard_is_gone_while_another_thread_writes(protocol: ZooKeeperProtocol) -> None:
    """What the receipt says is known of the version that was compared, and of no other."""
    op = write(guards=(Guard(GUARD),))
    steps = protocol.write(op, CONTEXT)
    steps.send(None)
    written(protocol)
    assert steps.send((failed(1, NoNode()), (b"first", stat(1)))) == BOTH
    again: Any = steps.send((None, (b"first", stat(1)), (b"90", stat(0))))
    assert again.parts[0].parts[0] == SetData(RECEIPT, b"1", 0)
    with pytest.raises(StopIteration) as stop:
        steps.send((failed(1, NoNode()), (b"first", stat(1))))
    assert stop.value.value == Written(done=False, stored=Stored(b"first", shown(1)), guarded=False)


# Receipts.


def test_the_oldest_receipts_are_deleted_beside_a_write(
    protocol: ZooKeeperProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 2)
    for number in range(5):
        op = Write(f"~value/{number}", b"x", number)
        asked = feed(protocol.write(op, CONTEXT), (("", stat(1)), None, None)[: 3 if number == 4 else 1])
    spent = [part for part in asked[0].parts if isinstance(part, Delete)]
    assert spent == [Delete(f"/app/~value/{number}/~fffffffffffffffd", 0) for number in (0, 1)]


def test_the_oldest_receipts_are_deleted_also_beside_one_that_is_made_alone(
    protocol: ZooKeeperProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come to nothing else: then no write deletes any."""
    for number in range(3):
        feed(protocol.write(Write(f"~value/{number}", b"x", number), CONTEXT), (("", stat(1)),))
    before = read(protocol, (b"old", stat(3)))
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 0)
    found, receipt = (b"new", stat(3, 9)), (b"", stat(0))
    replies = ((RECEIPT, stat(0)), found, receipt, None), (None, found, receipt)
    asked = tried(protocol, write(if_version=before.version), *replies)
    assert asked[0].parts[:4] == (*BEGIN.parts, Delete("/app/~value/0/~fffffffffffffffd", 0))
    assert asked[1:] == [BOTH]
    assert not asked.result.done


def test_receipts_leave_less_room_for_contenders(
    protocol: ZooKeeperProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that ends the session lists both."""
    ticket, own = Ticket("x", "lock", "1"), "_c_1-lock-0000000000"
    queueing = Enqueue(ticket, EXCLUSIVE)
    created = ((f"/app/x/{own}", Stat(CZXID, -3, 0)), (own,))

    def written_to(number: int, *deleted: None) -> None:
        key = f"~value/{number:04d}".ljust(1024, "n")
        for again in (1, 2):  # a receipt is written again, and stays one
            op = Write(key, b"x", again)
            feed(protocol.write(op, CONTEXT), (("" if again == 1 else stat(1), stat(1)), *deleted))

    for number in range(870):
        written_to(number)
    with pytest.raises(StoreFull):
        feed(protocol.enqueue(queueing, CONTEXT))
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 0)
    for number in range(870, 890):
        written_to(number, None, None)
    assert feed(protocol.enqueue(queueing, CONTEXT), created).result.mine.ticket == ticket


def test_the_oldest_receipt_is_deleted_by_the_number_that_the_server_has(
    protocol: ZooKeeperProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(protocol)
    tried(protocol, write(), (failed(0, BadVersion()),), (None, (b"x", stat(1)), (b"1", stat(-5))))
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 0)
    for number in range(2):
        replies: Any = (("", stat(1)), None, None)[: 1 + 2 * number]
        asked = feed(protocol.write(Write(f"~value/{number}", b"", 8), CONTEXT), replies)
    assert asked[0].parts[1] == Delete(RECEIPT, -5)


# Settling.


def test_to_settle_is_to_write_the_receipt_alone(protocol: ZooKeeperProtocol) -> None:
    written(protocol)
    asked = feed(protocol.settle(Settle(write(if_version=0, guards=(Guard(GUARD),))), CONTEXT), ((stat(1),),))
    assert asked == [Batch((Multi((SetData(RECEIPT, b"", 0),)),))]
    assert asked.result is False


def test_a_receipt_is_made_to_settle_what_may_yet_make_the_node(protocol: ZooKeeperProtocol) -> None:
    asked = feed(protocol.settle(Settle(write()), CONTEXT), (failed(0, NoNode()),), (("", ""),))
    assert asked[1] == Batch((Multi((Create(NODE, None), Create(RECEIPT, b"", ephemeral=True))),))
    assert asked.result is False
    late = tried(
        protocol,
        write(number=2, if_version=0),
        (None, (None, stat(0)), (b"", stat(0))),
        ((stat(1), stat(1)), None),
    )
    assert late[0] == BOTH  # which transaction made the node was not said
    assert late.result.done


def test_what_was_done_before_it_was_settled_is_said(protocol: ZooKeeperProtocol) -> None:
    asked = feed(
        protocol.settle(Settle(write()), CONTEXT),
        (failed(0, NodeExists()),),
        (None, (b"x", stat(1)), (b"1", stat(0))),
    )
    assert asked.result is True


# Errors.


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (SessionExpired(), SessionLost),
        (CUT, StoreUnavailable),
        (StoreDenied("zookeeper://z", "no"), StoreDenied),
        (ZooKeeperError("a bug"), StoreUnavailable),  # of the whole: it may have been done
        (failed(1, ZooKeeperError("odd")), StoreRefused),  # of a part: nothing was done
    ],
)
def test_a_write_that_fails_says_so(
    protocol: ZooKeeperProtocol, error: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised) as caught:
        tried(protocol, write(), (error,))
    assert not getattr(caught.value, "unsent", False)


def test_a_write_that_a_session_which_had_ended_did_not_send_was_not_done(
    protocol: ZooKeeperProtocol,
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        tried(protocol, write(), (SessionExpired("the session was closed", unsent=True),))
    assert caught.value.unsent


def test_a_write_that_was_done_needs_no_answer_to_the_read_behind(protocol: ZooKeeperProtocol) -> None:
    written(protocol, 3)
    assert tried(protocol, write(if_version=shown(3)), ((stat(1), stat(4)), CUT)).result.done
    with pytest.raises(StoreUnavailable):
        tried(protocol, write(if_version=shown(4), number=2), (failed(1, BadVersion()), CUT))


def test_that_the_session_has_ended_says_nothing_of_a_write() -> None:
    assert not ZooKeeperProtocol.ended_is_no


def test_so_many_nodes_are_remembered(protocol: ZooKeeperProtocol) -> None:
    written(protocol, 5)
    for number in range(3 * MOST_NODES):
        feed(protocol.read(Read(f"~value/{number}"), CONTEXT), (None, NoNode()))
        if number == MOST_NODES // 2:
            assert len(tried(protocol, write(if_version=shown(5)), ((stat(1), stat(6)), None))) == 1
    assert len(protocol._nodes) <= MOST_NODES
    assert (
        tried(
            protocol,
            write(if_version=shown(6), number=2),
            (None, NoNode(), NoNode()),
            (None, NoNode(), NoNode()),
        )[0]
        == BOTH
    )


def test_an_exchange_of_an_older_receipt_is_not_taken_for_the_newest(protocol: ZooKeeperProtocol) -> None:
    """As two threads of a session may note it."""
    written(protocol)
    asked = feed(
        protocol._exchange(Exchange(write(guards=(Guard(GUARD),)), 0, b"1")),
        (failed(0, NodeExists()), (b"first", stat(1))),
        (None, (b"first", stat(1)), (b"90", stat(0))),
    )
    assert asked.result.version == 1
    assert not asked.result.done
