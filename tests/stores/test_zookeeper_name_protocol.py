"""The protocol of ``layout="name"``, request by request."""

from __future__ import annotations

from typing import Any

import pytest

from recipes import TooWeak, connect
from recipes._contract.connection import Batch
from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Check,
    End,
    Enqueue,
    Entry,
    List,
    Look,
    Open,
    Opened,
    Probe,
    Renew,
    Ticket,
    Withdraw,
)
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores.registry import from_url
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import PARENT_TRIES, ZooKeeperProtocol
from recipes.stores.zookeeper.protocol_name import NameProtocol
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionInfo,
    Stat,
    Sync,
)
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, feed

SESSION = -3  # signed, as on the wire
ID = "10000000-0000-4000-8000-000000000000"
VALUE = f"fffffffffffffffd/{ID}"
TICKET = Ticket("x", "lock", ID)
NODE = "/app/x/lock"
MINE = Entry(TICKET, "x", 500)
OURS = VALUE.encode(), Stat(czxid=500, owner=SESSION, version=0)
THEIRS = b"host-7", Stat(czxid=400, owner=99, version=0)
CREATE = Batch((Create(NODE, VALUE.encode(), ephemeral=True),))
MADE, TAKEN, MISSING = ((NODE, OURS[1]),), (NodeExists(),), (NoNode(),)
LOOKING = Batch((Exists(NODE, MAILBOX, "x"), Get(NODE)))
SEEN = Batch((Sync("/"), Exists(NODE, MAILBOX, "x"), Get(NODE)))
READ = Batch((Sync("/"), Get(NODE)))
CUT = StoreUnavailable("zookeeper://z", "cut")
DENIED = StoreDenied("zookeeper://z", "no permission")
HOLDER = Contender("x", "", session="", token=400)


@pytest.fixture
def zk() -> NameProtocol:
    made = NameProtocol("zookeeper://z", Layout("app"))
    steps = feed(made.open(Open(15.0), CONTEXT), SessionInfo(SESSION, 10.0))
    assert steps == [Connect(15.0)]
    assert steps.result == Opened("fffffffffffffffd", 10.0)
    return made


def taken(zk: NameProtocol, *replies: Any, context: Any = CONTEXT) -> Any:
    return feed(zk.enqueue(Enqueue(TICKET, EXCLUSIVE), context), *replies)


def test_a_renewal_counts_as_with_the_queue() -> None:
    assert NameProtocol.renewals_per_ttl == ZooKeeperProtocol.renewals_per_ttl == 7
    assert NameProtocol.renewal_lag == ZooKeeperProtocol.renewal_lag


def test_a_free_name_is_taken_in_one_request(zk: NameProtocol) -> None:
    steps = taken(zk, MADE)
    assert steps == [CREATE]
    assert (steps.result.mine, steps.result.ahead) == (MINE, ())


def test_a_name_that_another_has_is_watched(zk: NameProtocol) -> None:
    steps = taken(zk, TAKEN, (THEIRS[1], THEIRS))
    assert steps == [CREATE, LOOKING]
    assert steps.result.ahead == (HOLDER,)
    assert steps.result.due_s is None  # the watch says it
    steps = feed(zk.look(Look(steps.result.mine, EXCLUSIVE, ()), CONTEXT), MADE)
    assert (steps, steps.result.mine) == ([CREATE], MINE)


def test_a_name_that_is_free_again_as_it_is_read_is_looked_at_at_once(zk: NameProtocol) -> None:
    steps = taken(zk, TAKEN, (NoNode(), NoNode()))
    assert steps == [CREATE, LOOKING]
    assert 0 < steps.result.due_s < 0.01
    assert feed(zk.probe(Probe(TICKET, EXCLUSIVE), CONTEXT), TAKEN, (None, NoNode())).result is None


def test_the_node_above_is_made_where_it_is_missing(zk: NameProtocol) -> None:
    steps = taken(zk, MISSING, (NodeExists(), ("/app/x", OURS[1])), MADE)
    assert steps == [CREATE, Batch((Create("/app"), Create("/app/x"))), CREATE]
    assert steps.result.mine == MINE


def test_a_node_above_that_is_deleted_over_and_over_is_said(zk: NameProtocol) -> None:
    with pytest.raises(StoreUnavailable, match="the node of lock 'x' is deleted over and over"):
        taken(zk, *[MISSING, (NodeExists(), NodeExists())] * PARENT_TRIES)


def test_a_create_whose_reply_was_lost_is_known_by_its_value(zk: NameProtocol) -> None:
    with pytest.raises(StoreUnavailable):
        taken(zk, (CUT,))
    steps = taken(zk, TAKEN, (OURS[1], OURS), context=AGAIN)
    assert steps == [CREATE, LOOKING]
    assert (steps.result.mine, steps.result.ahead) == (MINE, ())
    assert feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, OURS)).result.missing == ()


def test_a_reply_to_another_create_is_none(zk: NameProtocol) -> None:
    with pytest.raises(StoreUnavailable, match="/app/y/lock, which was not asked for"):
        taken(zk, (("/app/y/lock", OURS[1]),))


def test_a_value_that_another_session_copied_is_not_ours(zk: NameProtocol) -> None:
    assert taken(zk, TAKEN, (THEIRS[1], (OURS[0], THEIRS[1]))).result.ahead == (HOLDER,)


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"a/b"])
def test_whatever_another_program_writes_it_holds(zk: NameProtocol, data: bytes | None) -> None:
    assert taken(zk, TAKEN, (THEIRS[1], (data, THEIRS[1]))).result.ahead == (HOLDER,)
    assert list(zk.noticed()) == []


def test_a_node_that_another_user_keeps_closed_is_held(zk: NameProtocol) -> None:
    """What is there, and since when, is said to everybody."""
    steps = taken(zk, TAKEN, (THEIRS[1], DENIED))
    assert (steps, steps.result.ahead, steps.result.due_s) == ([CREATE, LOOKING], (HOLDER,), None)
    assert list(zk.noticed()) == []
    steps = taken(zk, TAKEN, (None, DENIED))  # it went, and came again
    assert steps.result.due_s < 0.01
    steps = feed(zk.listing(List("x", 5, watch=True), CONTEXT), (None, THEIRS[1], DENIED))
    assert steps.result.contenders == (HOLDER,)


def test_a_grant_whose_node_another_user_made_anew_is_lost_and_no_other(zk: NameProtocol) -> None:
    """Refused as a whole, no renewal counted, and the session ended with all that it held."""
    other = Ticket("y", "lock", f"2{ID[1:]}")
    taken(zk, MADE)
    theirs = feed(zk.enqueue(Enqueue(other, EXCLUSIVE), CONTEXT), (("/app/y/lock", OURS[1]),)).result.mine
    renewal = feed(zk.renew(Renew((MINE, theirs), 5.0), CONTEXT), (None, OURS, DENIED), (THEIRS[1],)).result
    assert renewal.missing == (theirs,)
    assert feed(zk.check(Check(theirs, (), None), CONTEXT), (None, DENIED), (NoNode(),)).result.mine is False
    steps = feed(zk.withdraw(Withdraw(other, theirs), CONTEXT), (None, DENIED), (THEIRS[1],))
    assert steps.result is False
    assert feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, OURS)).result.missing == ()


def test_an_own_node_that_may_not_be_read_any_more_ends_with_its_session(zk: NameProtocol) -> None:
    """Taken for another's, it would stand for as long as the session lives, and nobody would delete it."""
    taken(zk, MADE)
    with pytest.raises(StoreDenied):
        feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, DENIED), (OURS[1],))


def test_a_renewal_that_is_refused_is_none(zk: NameProtocol) -> None:
    taken(zk, MADE)
    with pytest.raises(StoreDenied):
        feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (DENIED, DENIED))


def test_a_node_that_is_not_ephemeral_is_reported_once(zk: NameProtocol) -> None:
    stays = b"", Stat(czxid=400, owner=0, version=0)
    for _ in range(2):
        assert taken(zk, TAKEN, (stays[1], stays)).result.ahead == (HOLDER,)
    assert list(zk.noticed()) == [
        f"{NODE} is bound to no session; it stands in the way until somebody deletes it"
    ]


def test_a_session_has_no_more_than_the_servers_can_read_as_it_ends(zk: NameProtocol) -> None:
    names = [f"{number:04d}".rjust(1024, "n") for number in range(1000)]
    tickets = [Ticket(name, "lock", name[-36:]) for name in names]
    entries: list[Entry] = []

    def held(ticket: Ticket) -> Entry:
        made = (f"/app/{ticket.queue}/lock", OURS[1])
        entry: Entry = feed(zk.enqueue(Enqueue(ticket, EXCLUSIVE), CONTEXT), (made,)).result.mine
        return entry

    with pytest.raises(StoreFull, match=r"jute.maxbuffer"):
        entries.extend(held(ticket) for ticket in tickets)
    assert 890_000 < sum(len(f"/app/{entry.ref}/lock") + 4 for entry in entries) < 0xFFFFF
    assert feed(zk.withdraw(Withdraw(tickets[len(entries)]), CONTEXT)) == [], "nothing was asked"
    with pytest.raises(StoreFull):
        taken(zk)
    mine = entries[0]
    ours = f"{zk.session_id}/{mine.ticket.id}".encode(), OURS[1]
    feed(zk.withdraw(Withdraw(mine.ticket, mine), CONTEXT), (None, ours), (None,))
    assert taken(zk, MADE).result.mine == MINE


@pytest.mark.parametrize("found", [NoNode(), THEIRS])
def test_a_renewal_names_what_is_gone(zk: NameProtocol, found: Any) -> None:
    taken(zk, MADE)
    steps = feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, found))
    assert steps == [READ]
    assert (steps.result.ttl_s, steps.result.missing) == (10.0, (MINE,))


def test_a_renewal_without_a_lock_has_the_leader_answer(zk: NameProtocol) -> None:
    assert feed(zk.renew(Renew((), 5.0), CONTEXT), (None,)) == [Batch((Sync("/"),))]


def test_only_the_own_node_is_deleted(zk: NameProtocol) -> None:
    taken(zk, MADE)
    steps = feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), (None, OURS), (None,))
    assert (steps, steps.result) == ([READ, Batch((Delete(NODE),))], True)
    taken(zk, MADE)
    steps = feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), (None, THEIRS))
    assert (steps, steps.result) == ([READ], False)


def test_check_and_listing_read_behind_a_sync(zk: NameProtocol) -> None:
    taken(zk, MADE)
    steps = feed(zk.check(Check(MINE, (), None), CONTEXT), (None, OURS))
    assert (steps, steps.result.mine) == ([READ], True)
    steps = feed(zk.listing(List("x", 5), CONTEXT), (None, OURS[1], OURS))
    assert steps == [Batch((Sync("/"), Exists(NODE, None, "x"), Get(NODE)))]
    assert [one.id for one in steps.result.contenders] == [ID]


def test_a_watch_is_set_where_it_was_asked_for(zk: NameProtocol) -> None:
    """On what is not there it would stay for as long as the connection."""
    waits = Entry(TICKET, "x", 0)
    steps = feed(zk.check(Check(waits, (HOLDER,), None), CONTEXT), (None, THEIRS[1], THEIRS))
    assert (steps, steps.result.mine) == ([SEEN], True)
    assert feed(zk.check(Check(waits, (), None), CONTEXT), (None, THEIRS)).result.mine is True
    steps = feed(zk.listing(List("x", 5, watch=True), CONTEXT), (None, None, NoNode()))
    assert (steps, steps.result.contenders, steps.result.due_s) == ([SEEN], (), None)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(SessionExpired(), SessionLost), (CUT, StoreUnavailable), (BadVersion(), StoreRefused)],
)
def test_errors_are_what_they_mean(zk: NameProtocol, error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised):
        taken(zk, (error,))
    with pytest.raises(raised):
        feed(zk.renew(Renew((), 5.0), CONTEXT), (error,))


@pytest.mark.parametrize("reply", [True, SessionExpired()])
def test_the_end_closes_the_session(zk: NameProtocol, reply: Any) -> None:
    assert feed(zk.end(End(), CONTEXT), reply) == [Close()]


def test_only_acts_are_carried_out(zk: NameProtocol) -> None:
    with pytest.raises(AssertionError, match="should be an act"):
        feed(zk.act(End(), CONTEXT))


def test_the_option_makes_the_backend_of_this_layout() -> None:
    backend = from_url("zookeeper://h/app", {"layout": "name"})
    assert type(backend.protocol()) is NameProtocol
    assert type(from_url("zookeeper://h/app", {}).protocol()) is ZooKeeperProtocol
    given, queued = backend.guarantees, STORES["zookeeper"]
    assert (given.order, given.shared, given.values) == ("none", False, False)
    assert (given.fencing, given.proven, given.survives) == (True, True, queued.survives)


def test_what_a_name_cannot_be_is_refused_before_any_request() -> None:
    client = connect("zookeeper://h/app", layout="name")
    with pytest.raises(TooWeak):
        client.rwlock("x")
    with pytest.raises(TooWeak):
        connect("zookeeper://h/app", layout="name", require="fair")


@pytest.mark.parametrize(
    ("layout", "error", "says"),
    [
        ("names", ValueError, "layout='names': use 'name', or leave it out"),
        (1, TypeError, "layout= is text, not int"),
    ],
)
def test_an_unknown_layout_is_refused(layout: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        connect("zookeeper://h/app", layout=layout)
