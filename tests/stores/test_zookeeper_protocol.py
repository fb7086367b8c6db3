from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from recipes._contract.connection import Batch
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.operations import (
    Check,
    Checked,
    End,
    Enqueue,
    Entry,
    Evict,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Renew,
    Renewal,
    Rewrite,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.protocol import MOST_TOLD
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Gone, LocallyGone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.readwrite import SHARED
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.layout import NO_CONTENDER, Layout
from recipes.stores.zookeeper.protocol import PARENT_TRIES, ZooKeeperProtocol
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
    SessionInfo,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.rules.test_rules import permits
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, Asked, feed

SESSION = -3  # signed, as on the wire
ID, OTHER, THIRD = (f"{n}0000000-0000-4000-8000-000000000000" for n in "123")
TICKET = Ticket("x", "lock", ID)
QUEUE = "/app/x"


def node(seq: int, identity: str = ID, side: str = "") -> str:
    return f"_c_{identity}-{side}lock-{seq:010d}"


OWN = f"{QUEUE}/{node(5)}"
MINE = Entry(TICKET, OWN, 500)
STAT = Stat(czxid=500, owner=SESSION, version=0)
FOREIGN_STAT = Stat(czxid=400, owner=99, version=0)
CREATE = Create(f"{QUEUE}/_c_{ID}-lock-", ephemeral=True, sequence=True)
LISTING = Children(QUEUE)
CUT = StoreUnavailable("zookeeper://z", "cut")
NO_AUTH = StoreRefused("zookeeper://z", "no permission")
EVERY_ERROR = [
    (SessionExpired(), SessionLost),
    (CUT, StoreUnavailable),
    (NO_AUTH, StoreRefused),
    (BadVersion(), StoreRefused),
]


@pytest.fixture
def zk() -> ZooKeeperProtocol:
    made = ZooKeeperProtocol("zookeeper://z", Layout("app"))
    feed(made.open(Open(15.0), CONTEXT), SessionInfo(SESSION, 10.0))
    return made


def contender(name: str) -> Contender:
    return Layout("app").parse("x", name)


# The session.


def test_open_takes_what_the_server_grants() -> None:
    zk = ZooKeeperProtocol("zookeeper://z", Layout("app"))
    assert zk.session_id == ""
    steps = feed(zk.open(Open(15.0), CONTEXT), SessionInfo(SESSION, 10.0))
    assert steps == [Connect(15.0)]
    assert steps.result == Opened("fffffffffffffffd", 10.0)
    assert zk.session_id == "fffffffffffffffd"
    assert (zk.renewals_per_ttl, zk.renewal_lag) == (7, 1.1 / 4)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_open_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.open(Open(15.0), CONTEXT), error)


def test_renew_has_the_leader_answer_and_reads_behind_it(zk: ZooKeeperProtocol) -> None:
    steps = feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, STAT))
    assert steps == [Batch((Sync("/"), Exists(OWN)))]
    assert steps.result == Renewal(10.0, ())
    assert feed(zk.renew(Renew((), 5.0), CONTEXT), (None,)).result == Renewal(10.0, ())


@pytest.mark.parametrize(
    "stat", [None, Stat(501, SESSION, 0), Stat(500, 99, 0)], ids=["deleted", "made again", "another's"]
)
def test_renew_reports_what_is_missing(zk: ZooKeeperProtocol, stat: Any) -> None:
    assert feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, stat)).result.missing == (MINE,)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_renew_fails_in_part(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, error))
    with pytest.raises(raised):
        feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (error, error))


def test_renew_of_a_node_that_an_error_says_is_not_there(zk: ZooKeeperProtocol) -> None:
    assert feed(zk.renew(Renew((MINE,), 5.0), CONTEXT), (None, NoNode())).result.missing == (MINE,)


def test_end(zk: ZooKeeperProtocol) -> None:
    for confirmed in (False, True):
        assert feed(zk.end(End(), CONTEXT), confirmed) == [Close()]
        assert zk.lives_on is not confirmed
    assert feed(zk.end(End(), CONTEXT), SessionExpired()).result is None, "it has ended already"
    with pytest.raises(StoreUnavailable):
        feed(zk.end(End(), CONTEXT), CUT)
    with pytest.raises(StoreRefused, match="ZooKeeper error -103 \\(BadVersion\\)"):
        feed(zk.end(End(), CONTEXT), BadVersion())


# Enqueue.


def enqueue(
    zk: ZooKeeperProtocol,
    *replies: Any,
    context: Any = CONTEXT,
    rule: Rule = EXCLUSIVE,
    ticket: Ticket = TICKET,
) -> Asked:
    return feed(zk.enqueue(Enqueue(ticket, rule), context), *replies)


def test_enqueue_alone_is_one_round_trip(zk: ZooKeeperProtocol) -> None:
    steps = enqueue(zk, ((OWN, STAT), (node(5),)))
    assert steps == [Batch((CREATE, LISTING))]
    assert steps.result == Snapshot(MINE, (), complete=True, position=0)


def test_enqueue_sees_who_is_ahead_and_not_who_came_later(zk: ZooKeeperProtocol) -> None:
    names = (node(9, OTHER), node(2, OTHER), "notes", node(5), node(3, THIRD), node(1, THIRD))
    snapshot = enqueue(zk, ((OWN, STAT), names)).result
    assert snapshot.ahead == (contender(node(3, THIRD)), contender(node(2, OTHER)))
    assert (snapshot.complete, snapshot.position) == (False, 3)


def test_enqueue_behind_one_is_complete(zk: ZooKeeperProtocol) -> None:
    snapshot = enqueue(zk, ((OWN, STAT), (node(2, OTHER), node(5)))).result
    assert (snapshot.ahead, snapshot.complete) == ((contender(node(2, OTHER)),), True)


def test_enqueue_as_a_reader_sees_writers_of_every_make(zk: ZooKeeperProtocol) -> None:
    ticket = Ticket("x", "R", ID)
    own = node(9, side="R-")
    names = (own, node(8, OTHER, "R-"), "x__rlock__0000000007", "x__lock__0000000006", node(4, OTHER, "W-"))
    snapshot = enqueue(zk, ((f"{QUEUE}/{own}", STAT), names), ticket=ticket, rule=SHARED).result
    assert snapshot.ahead == (contender("x__lock__0000000006"), contender(node(4, OTHER, "W-")))
    assert snapshot.position == 2


def test_enqueue_makes_missing_parents(zk: ZooKeeperProtocol) -> None:
    parents = Batch((Create("/app"), Create("/app/x")))
    steps = enqueue(zk, (NoNode(), NoNode()), (NodeExists(), None), ((OWN, STAT), (node(5),)))
    assert steps == [Batch((CREATE, LISTING)), parents, Batch((CREATE, LISTING))]
    assert steps.result.mine == MINE


def test_enqueue_when_others_make_and_delete_the_parents(zk: ZooKeeperProtocol) -> None:
    steps = enqueue(
        zk,
        (NoNode(), NoNode()),
        (NodeExists(), NodeExists()),  # somebody else was faster
        (NoNode(), NoNode()),  # and it was deleted again
        (NoNode(), NoNode()),  # so was the one above
        ((OWN, STAT), (node(5),)),
    )
    assert steps.result.mine == MINE


def test_enqueue_below_a_node_that_may_not_be_written(zk: ZooKeeperProtocol) -> None:
    """A node above that is there need not be writable."""
    steps = enqueue(zk, (NoNode(), NoNode()), (NO_AUTH, None), ((OWN, STAT), (node(5),)))
    assert steps.result.mine == MINE


def test_enqueue_where_the_root_is_missing_and_may_not_be_made_says_so(zk: ZooKeeperProtocol) -> None:
    with pytest.raises(StoreRefused, match="no permission"):
        enqueue(zk, (NoNode(), NoNode()), (NO_AUTH, NoNode()))


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_enqueue_cannot_make_the_parents(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        enqueue(zk, (NoNode(), NoNode()), (None, error))


def test_enqueue_gives_up_on_a_node_that_is_deleted_over_and_over(zk: ZooKeeperProtocol) -> None:
    again = [(NoNode(), NoNode()), (None, None)] * PARENT_TRIES
    with pytest.raises(StoreUnavailable, match="over and over"):
        enqueue(zk, *again)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_enqueue_fails_in_part(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        enqueue(zk, (error, CUT))
    with pytest.raises(raised):
        enqueue(zk, ((OWN, STAT), error), *[None] * isinstance(error, StoreRefused))
    with pytest.raises(StoreUnavailable):
        enqueue(zk, CUT)


@pytest.mark.parametrize("gone", [None, NoNode()])
def test_one_that_is_made_where_nothing_may_be_listed_is_taken_back(zk: ZooKeeperProtocol, gone: Any) -> None:
    """Without its name, which only a listing shows, nobody could withdraw it."""
    asking = zk.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    assert asking.send(None) == Batch((CREATE, LISTING))
    assert asking.send(((OWN, STAT), NO_AUTH)) == Delete(OWN)
    with pytest.raises(StoreRefused, match="no permission"):
        asking.throw(gone) if gone else asking.send(None)


REFUSALS: dict[str, list[Any]] = {
    "the node": [(NO_AUTH, NO_AUTH)],
    "the node above": [(NoNode(), NoNode()), (None, NO_AUTH)],
    "the listing": [((OWN, STAT), NO_AUTH), None],
}


@pytest.mark.parametrize("refused", REFUSALS)
def test_what_was_refused_leaves_nothing_to_withdraw(zk: ZooKeeperProtocol, refused: str) -> None:
    """Each was withdrawn, and that refused, once a second for as long as the session lasted."""
    with pytest.raises(StoreRefused):
        enqueue(zk, *REFUSALS[refused])
    assert (steps := feed(zk.withdraw(Withdraw(TICKET), CONTEXT))) == []
    assert steps.result is False
    assert not zk._unmade


def test_a_probe_that_was_refused_leaves_nothing_to_withdraw(zk: ZooKeeperProtocol) -> None:
    with pytest.raises(StoreRefused):
        probe(zk, (NO_AUTH,))
    assert feed(zk.withdraw(Withdraw(TICKET), CONTEXT)) == []
    assert not zk._unmade


@pytest.mark.parametrize("refused", REFUSALS)
def test_what_was_refused_as_it_was_asked_again_may_stand(zk: ZooKeeperProtocol, refused: str) -> None:
    with pytest.raises(StoreRefused):
        enqueue(zk, (None, ()), *REFUSALS[refused], context=AGAIN)
    assert feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, (node(5),)), None).result is True


@pytest.mark.parametrize("refused", REFUSALS)
def test_what_stands_in_the_end_is_withdrawn(zk: ZooKeeperProtocol, refused: str) -> None:
    with pytest.raises(StoreRefused):
        enqueue(zk, *REFUSALS[refused])
    with pytest.raises(StoreUnavailable):
        enqueue(zk, CUT)
    assert feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, (node(5),)), None).result is True


def test_what_cannot_be_sent_behind_a_create_was_sent(zk: ZooKeeperProtocol) -> None:
    """Asked again as if it was not, it made another node, and waited behind its own."""
    parked = StoreUnavailable("zookeeper://z", "no connection", unsent=True)
    with pytest.raises(StoreUnavailable) as raised:
        probe(zk, parked)
    assert raised.value.unsent
    created = ((READER.ref, STAT), (SHARED_OWN, WRITER))
    asking = zk.probe(Probe(SHARED_TICKET, SHARED), CONTEXT)
    with pytest.raises(StoreUnavailable) as raised:
        feed(asking, ((),), created, StoreUnavailable("zookeeper://z", "no connection", unsent=True))
    assert not raised.value.unsent
    with pytest.raises(StoreUnavailable) as raised:
        enqueue(zk, ((OWN, STAT), NO_AUTH), StoreUnavailable("zookeeper://z", "no connection", unsent=True))
    assert not raised.value.unsent


LONGEST = "n" * 1024
MAX_BUFFER = 0xFFFFF  # jute.maxbuffer as servers have it


def long_ticket(number: int) -> Ticket:
    return Ticket(LONGEST, "lock", str(UUID(int=number)))


def long_node(number: int) -> str:
    return f"_c_{UUID(int=number)}-lock-{number:010d}"


def joined(zk: ZooKeeperProtocol, number: int, context: Any = CONTEXT) -> Entry:
    """Have one more contender stand in the queue with the longest name."""
    created = (f"/app/{LONGEST}/{long_node(number)}", Stat(number, SESSION, 0)), (long_node(number),)
    looking = [(None, ())] if context is AGAIN else []
    entry: Entry = enqueue(zk, *looking, created, context=context, ticket=long_ticket(number)).result.mine
    return entry


def test_a_session_has_no_more_than_the_servers_can_read_as_it_ends(zk: ZooKeeperProtocol) -> None:
    """The transaction that ends it lists every path: what is too long stopped the whole ensemble for good."""
    entries: list[Entry] = []
    with pytest.raises(StoreFull, match=r"jute.maxbuffer.*use several clients"):
        entries.extend(joined(zk, number) for number in range(1000))
    assert 890_000 < sum(len(entry.ref) + 4 for entry in entries) < MAX_BUFFER
    number = len(entries)
    looks = ((),)  # nobody is there
    with pytest.raises(StoreFull):
        feed(zk.probe(Probe(long_ticket(number), EXCLUSIVE), CONTEXT), looks)
    assert feed(zk.withdraw(Withdraw(long_ticket(number)), CONTEXT)) == [], "it was not asked for"
    with pytest.raises(StoreFull):
        joined(zk, number, AGAIN)
    assert joined(zk, number - 1, AGAIN), "the last may be asked again"
    feed(zk.withdraw(Withdraw(long_ticket(0), entries[0]), CONTEXT), None)
    assert joined(zk, number)
    with pytest.raises(StoreFull):
        joined(zk, number + 1)
    feed(zk.withdraw(Withdraw(long_ticket(1)), CONTEXT), (None, (long_node(1),)), None)
    assert joined(zk, number + 1)


def test_it_has_no_more_if_many_are_asked_for_at_once(zk: ZooKeeperProtocol) -> None:
    asking = [zk.enqueue(Enqueue(long_ticket(number), EXCLUSIVE), CONTEXT) for number in range(1000)]
    asked: list[Any] = []
    with pytest.raises(StoreFull):
        asked.extend(steps.send(None) for steps in asking)
    assert len(asked) < 900
    with pytest.raises(StoreRefused):
        asking[0].send((NO_AUTH, NO_AUTH))
    assert feed(zk.withdraw(Withdraw(long_ticket(0)), CONTEXT)) == []
    assert joined(zk, 1000), "one that was refused takes no room"


def test_however_often_one_comes_and_goes_there_is_room(zk: ZooKeeperProtocol) -> None:
    for number in range(2000):
        entry = joined(zk, number)
        feed(zk.withdraw(Withdraw(entry.ticket, entry), CONTEXT), None)
    assert not zk._sizes


def test_a_reply_to_another_create_is_none(zk: ZooKeeperProtocol) -> None:
    """One that the session asked on a connection before may be committed late, with the same number."""
    another = node(4, OTHER)
    with pytest.raises(StoreUnavailable, match=f"{another}, which was not asked for") as raised:
        enqueue(zk, ((f"{QUEUE}/{another}", FOREIGN_STAT), (another, node(5))))
    assert not raised.value.unsent


def test_enqueue_in_a_session_that_is_not_this_one(zk: ZooKeeperProtocol) -> None:
    with pytest.raises(SessionLost, match="earlier session"):
        enqueue(zk, ((OWN, Stat(500, 99, 0)), (node(5),)))


def test_enqueue_not_in_its_own_listing(zk: ZooKeeperProtocol) -> None:
    """Deleted by an operator between the two."""
    assert enqueue(zk, ((OWN, STAT), (node(2, OTHER),))).result.mine is None


# ... again, after a lost reply.

FIND = Batch((Sync("/"), LISTING))


def test_enqueue_again_finds_the_own_node_behind_a_sync(zk: ZooKeeperProtocol) -> None:
    steps = enqueue(zk, (None, (node(2, OTHER), node(5))), (STAT,), context=AGAIN)
    assert steps == [FIND, Batch((Exists(OWN),))]
    assert steps.result == Snapshot(MINE, (contender(node(2, OTHER)),), complete=True, position=1)


@pytest.mark.parametrize("names", [(node(2, OTHER),), (), NoNode()], ids=["others", "empty", "no queue"])
def test_enqueue_again_finds_nothing_and_creates(zk: ZooKeeperProtocol, names: Any) -> None:
    steps = enqueue(zk, (None, names), ((OWN, STAT), (node(5),)), context=AGAIN)
    assert steps == [FIND, Batch((CREATE, LISTING))]
    assert steps.result.mine == MINE


def test_enqueue_again_finds_a_node_that_is_gone_at_once(zk: ZooKeeperProtocol) -> None:
    steps = enqueue(
        zk, (None, (node(5),)), (None,), ((f"{QUEUE}/{node(6)}", STAT), (node(6),)), context=AGAIN
    )
    assert steps.result.mine.ref == f"{QUEUE}/{node(6)}"


def test_enqueue_again_finds_one_of_an_earlier_session(zk: ZooKeeperProtocol) -> None:
    """CURATOR-604: it will go with that session, and must not be believed in."""
    with pytest.raises(SessionLost, match="earlier session"):
        enqueue(zk, (None, (node(5),)), (Stat(500, 99, 0),), context=AGAIN)


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_enqueue_again_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        enqueue(zk, (error, CUT), context=AGAIN)
    with pytest.raises(raised):
        enqueue(zk, (None, (node(5),)), (error,), context=AGAIN)


# The counter at its end.

LAST = 2**31 - 1


def test_a_sticking_counter_is_ordered_by_czxid(zk: ZooKeeperProtocol) -> None:
    mine, other, third = (node(LAST, identity) for identity in (ID, OTHER, THIRD))
    own = f"{QUEUE}/{mine}"
    names = (other, mine, third)
    stats = {mine: STAT, other: Stat(600, 99, 0), third: Stat(400, 99, 0)}
    listed = [name for _, name in Layout("app").children(names)]
    steps = enqueue(zk, ((own, STAT), names), tuple(stats[name] for name in listed))
    assert steps[1] == Batch(tuple(Exists(f"{QUEUE}/{name}") for name in listed))
    assert steps.result.ahead == (replace(contender(third), token=400),), "only what was created before"
    assert (steps.result.position, steps.result.mine.token) == (1, 500)


def test_a_wrapped_counter_is_ordered_by_czxid(zk: ZooKeeperProtocol) -> None:
    mine, other = f"_c_{ID}-lock--{LAST + 1}", node(LAST, OTHER)
    names = (mine, other)
    snapshot = enqueue(zk, ((f"{QUEUE}/{mine}", STAT), names), (FOREIGN_STAT, STAT)).result
    assert snapshot.ahead == (replace(contender(other), token=400),), "the negative number is the later one"


ANEW = (b"", Stat(650, 99, 0))


def test_where_the_counter_sticks_one_that_was_made_again_is_another(zk: ZooKeeperProtocol) -> None:
    """Removed by hand before its owner knew its name, and created again, behind mine, with the same name."""
    seen = replace(contender(node(LAST, OTHER)), token=400)
    assert feed(zk.watch(Watch(MINE, (seen,)), CONTEXT), ((b"", FOREIGN_STAT),)).result is True
    assert feed(zk.watch(Watch(MINE, (seen,)), CONTEXT), (ANEW,)).result is False
    asked = Check(MINE, (seen,))
    assert feed(zk.check(asked, CONTEXT), (None, STAT, (b"", FOREIGN_STAT))).result.present == {seen.ref}
    assert feed(zk.check(asked, CONTEXT), (None, STAT, ANEW)).result.present == frozenset()


@pytest.mark.parametrize(
    ("found", "blocked"), [((b"", FOREIGN_STAT), True), (ANEW, False), (NoNode(), False)]
)
def test_a_writer_made_again_is_not_the_one_whose_state_is_asked_for(
    zk: ZooKeeperProtocol, found: Any, *, blocked: bool
) -> None:
    writer, reader = node(LAST, OTHER, "W-"), node(LAST, ID, "R-")
    stats = {writer: FOREIGN_STAT, reader: STAT}
    listed = [name for _, name in Layout("app").children((writer, reader))]
    dated = tuple(stats[name] for name in listed)
    entry = Entry(replace(TICKET, kind="R"), f"{QUEUE}/{reader}", 500)
    steps = feed(zk.look(Look(entry, SHARED, ()), CONTEXT), ((writer, reader),), dated, (found,))
    assert bool(steps.result.ahead) is blocked


def test_one_that_goes_while_the_order_is_read_is_nobody(zk: ZooKeeperProtocol) -> None:
    names = (node(LAST, OTHER), node(LAST - 1), node(LAST - 2, THIRD))
    own = f"{QUEUE}/{node(LAST - 1)}"
    snapshot = enqueue(zk, ((own, STAT), names), (None, STAT, NoNode())).result
    assert (snapshot.ahead, snapshot.position) == ((), 0)


# Probe.


def probe(zk: ZooKeeperProtocol, *replies: Any, context: Any = CONTEXT, rule: Rule = EXCLUSIVE) -> Asked:
    return feed(zk.probe(Probe(TICKET, rule), context), *replies)


def test_probe_of_a_held_lock_is_a_listing_and_no_write(zk: ZooKeeperProtocol) -> None:
    steps = probe(zk, ((node(2, OTHER),),))
    assert (steps, steps.result) == ([Batch((LISTING,))], None)


@pytest.mark.parametrize("names", [(), ("notes",), NoNode()], ids=["empty", "no contender", "no queue"])
def test_probe_of_a_free_lock_joins(zk: ZooKeeperProtocol, names: Any) -> None:
    steps = probe(zk, (names,), ((OWN, STAT), (node(5),)))
    assert steps == [Batch((LISTING,)), Batch((CREATE, LISTING))]
    assert steps.result.mine == MINE


def test_probe_too_late_says_who_was_faster(zk: ZooKeeperProtocol) -> None:
    steps = probe(zk, ((),), ((OWN, STAT), (node(4, OTHER), node(5))))
    assert steps.result.ahead == (contender(node(4, OTHER)),)


def test_probe_again_looks_for_its_own_node(zk: ZooKeeperProtocol) -> None:
    steps = probe(zk, (None, (node(4, OTHER), node(5))), (STAT,), context=AGAIN)
    assert steps[0] == FIND
    assert steps.result.mine == MINE


def test_probe_with_the_counter_at_its_end(zk: ZooKeeperProtocol) -> None:
    names = (node(LAST, OTHER), node(LAST - 1, THIRD))
    steps = probe(zk, (names,), (FOREIGN_STAT, FOREIGN_STAT))
    assert steps.result is None
    steps = probe(zk, (names,), (FOREIGN_STAT, FOREIGN_STAT), rule=permits(2))
    assert steps.result is None
    steps = probe(zk, (names,), (None, None), ((OWN, STAT), (node(5),)))
    assert steps.result.mine == MINE


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_probe_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        probe(zk, (error,))


# Foreign contenders.

KAZOO = f"{'0' * 32}__lock__0000000003"


def test_who_may_not_wait_for_ours_is_told_once_a_lock(zk: ZooKeeperProtocol) -> None:
    enqueue(zk, ((OWN, STAT), (KAZOO, node(5))))
    (told,) = zk.noticed()
    assert told.startswith(f"{QUEUE}/{KAZOO} is of kazoo, which waits for ours only with extra_lock_patterns")
    later = f"{'1' * 32}__rlock__0000000009"
    assert probe(zk, ((KAZOO, later),)).result is None
    assert zk.noticed() == []


def test_what_is_no_contender_is_told_each(zk: ZooKeeperProtocol) -> None:
    assert probe(zk, (("notes", "more", node(2, OTHER)),)).result is None
    feed(zk.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), (("notes", node(5)),))
    assert [told.split(" is ")[0] for told in zk.noticed()] == [f"{QUEUE}/notes", f"{QUEUE}/more"]


def test_nobody_odd_is_nothing_to_tell(zk: ZooKeeperProtocol) -> None:
    enqueue(zk, ((OWN, STAT), (node(2, OTHER), node(3, THIRD, "R-"), node(5))))
    assert zk.noticed() == []


# Watch, look, check.

A, B = contender(node(2, OTHER)), contender(node(3, THIRD))
GETS = (Get(A.ref, MAILBOX), Get(B.ref, MAILBOX))
THERE = (b"", FOREIGN_STAT)
OWN_DATA = (b"", Stat(400, SESSION, 0))


@pytest.mark.parametrize(("second", "result"), [(THERE, True), (NoNode(), False)])
def test_watch_gets_each_target(zk: ZooKeeperProtocol, second: Any, result: Any) -> None:
    steps = feed(zk.watch(Watch(MINE, (A, B)), CONTEXT), (THERE, second))
    assert steps == [Batch(GETS)]
    assert steps.result is result


def test_who_is_bound_to_no_session_is_told_once(zk: ZooKeeperProtocol) -> None:
    for _ in range(2):
        feed(zk.watch(Watch(MINE, (A,)), CONTEXT), ((b"", Stat(400, 0, 0)),))
    assert zk.noticed() == [f"{A.ref} is bound to no session; it stands in the way until somebody deletes it"]


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_watch_fails_in_part(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.watch(Watch(MINE, (A, B)), CONTEXT), (THERE, error))


def test_look_arms_before_it_lists(zk: ZooKeeperProtocol) -> None:
    steps = feed(
        zk.look(Look(MINE, EXCLUSIVE, (A, B)), CONTEXT), (THERE, NoNode(), (node(2, OTHER), node(5)))
    )
    assert steps == [Batch((*GETS, LISTING))]
    assert steps.result == Snapshot(MINE, (A,), complete=True, position=1)


def test_look_without_targets(zk: ZooKeeperProtocol) -> None:
    steps = feed(zk.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), ((node(5),),))
    assert steps.result == Snapshot(MINE, (), complete=True, position=0)


@pytest.mark.parametrize("names", [(), NoNode(), (node(6, OTHER),)])
def test_look_without_the_own_node(zk: ZooKeeperProtocol, names: Any) -> None:
    assert feed(zk.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), (names,)).result.mine is None


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_look_fails_in_part(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.look(Look(MINE, EXCLUSIVE, (A,)), CONTEXT), (error, ()))
    with pytest.raises(raised):
        feed(zk.look(Look(MINE, EXCLUSIVE, (A,)), CONTEXT), (THERE, error))


def check(zk: ZooKeeperProtocol, op: Check, *replies: Any) -> Asked:
    return feed(zk.check(op, CONTEXT), *replies)


def test_the_deletion_of_anothers_node_is_a_proof(zk: ZooKeeperProtocol) -> None:
    steps = check(zk, Check(MINE, (A,), Gone(A.ref)))
    assert (steps, steps.result) == ([], Checked(mine=True, present=frozenset()))


def test_a_local_release_has_the_own_node_read(zk: ZooKeeperProtocol) -> None:
    steps = check(zk, Check(MINE, (A,), LocallyGone(A.ref)), (STAT,))
    assert steps == [Batch((Exists(OWN),))]
    assert steps.result == Checked(True, frozenset())
    assert check(zk, Check(MINE, (A,), LocallyGone(A.ref)), (None,)).result.mine is False


def test_the_deletion_of_a_foreign_layouts_node_is_none(zk: ZooKeeperProtocol) -> None:
    foreign = contender("x__lock__0000000002")
    steps = check(zk, Check(MINE, (foreign,), Gone(foreign.ref)), (None, STAT, NoNode()))
    assert steps == [Batch((Sync("/"), Exists(OWN), Get(foreign.ref, MAILBOX)))]
    assert steps.result == Checked(True, frozenset())


@pytest.mark.parametrize("armed_by", ["watch", "look", "check"])
def test_the_deletion_of_an_own_sessions_node_is_none(zk: ZooKeeperProtocol, armed_by: Any) -> None:
    """A dying session may tell of the end of its own nodes."""
    if armed_by == "watch":
        feed(zk.watch(Watch(MINE, (A,)), CONTEXT), (OWN_DATA,))
    elif armed_by == "look":
        feed(zk.look(Look(MINE, EXCLUSIVE, (A,)), CONTEXT), (OWN_DATA, (node(2, OTHER), node(5))))
    else:
        check(zk, Check(MINE, (A,)), (None, STAT, OWN_DATA))
    steps = check(zk, Check(MINE, (A,), Gone(A.ref)), (None, None, NoNode()))
    assert len(steps) == 1
    assert steps.result == Checked(False, frozenset())


def test_without_evidence_the_own_and_the_others_are_read_behind_a_sync(zk: ZooKeeperProtocol) -> None:
    steps = check(zk, Check(MINE, (A, B)), (None, STAT, THERE, NoNode()))
    assert steps == [Batch((Sync("/"), Exists(OWN), *GETS))]
    assert steps.result == Checked(True, frozenset({A.ref}))


@pytest.mark.parametrize("stat", [None, Stat(501, SESSION, 0), Stat(500, 99, 0)])
def test_check_of_an_own_node_that_is_not_what_was_granted(zk: ZooKeeperProtocol, stat: Any) -> None:
    assert check(zk, Check(MINE), (None, stat)).result.mine is False


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_check_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        check(zk, Check(MINE, (A,)), (None, STAT, error))
    with pytest.raises(raised):
        check(zk, Check(MINE, (A,), LocallyGone(A.ref)), (error,))


# Withdraw.


def test_withdraw_deletes_the_exact_node(zk: ZooKeeperProtocol) -> None:
    steps = feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), None)
    assert (steps, steps.result) == ([Delete(OWN)], True)
    assert feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), NoNode()).result is False
    assert feed(zk.withdraw(Withdraw(TICKET, MINE), AGAIN), NoNode()).result is True, (
        "it was I who deleted it"
    )


def test_withdraw_of_an_unknown_node_finds_all_of_its_attempts(zk: ZooKeeperProtocol) -> None:
    names = (node(5), node(2, OTHER), node(6))
    steps = feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, names), None, NoNode())
    assert steps == [FIND, Delete(OWN), Delete(f"{QUEUE}/{node(6)}")]
    assert steps.result is True


@pytest.mark.parametrize("names", [(), (node(2, OTHER),), NoNode()])
def test_withdraw_of_what_never_came_to_be(zk: ZooKeeperProtocol, names: Any) -> None:
    assert feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, names)).result is False
    assert feed(zk.withdraw(Withdraw(TICKET), AGAIN), (None, names)).result is True


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_withdraw_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), error)
    with pytest.raises(raised):
        feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, error))
    with pytest.raises(raised):
        feed(zk.withdraw(Withdraw(TICKET), CONTEXT), (None, (node(5),)), error)


def test_an_unknown_error_is_a_refusal_with_its_number(zk: ZooKeeperProtocol) -> None:
    odd = ZooKeeperError("odd")
    odd.code = -999
    with pytest.raises(StoreRefused, match="ZooKeeper error -999 \\(odd\\)") as raised:
        feed(zk.withdraw(Withdraw(TICKET, MINE), CONTEXT), odd)
    assert raised.value.__cause__ is odd


def test_nothing_asked_is_nothing_sent(zk: ZooKeeperProtocol) -> None:
    steps = feed(zk.watch(Watch(MINE, ()), CONTEXT))
    assert (steps, steps.result) == ([], True)


# Rewrite.


DOWNGRADED = b"downgraded\n{me}"
AS_BEFORE = b"downgraded{me}"  # as versions wrote it that had no line end
MARK = SetData(OWN, b"downgraded\n", version=-1)
MARKED = Stat(czxid=500, owner=SESSION, version=1)
SHARED_TICKET = Ticket("x", "R", ID, minds_marks=True)
SHARED_OWN = node(9, side="R-")
READER = Entry(SHARED_TICKET, f"{QUEUE}/{SHARED_OWN}", 500)
WRITER = node(4, OTHER, "W-")
WRITER_STAT = Stat(czxid=400, owner=99, version=1)


@pytest.mark.parametrize("context", [CONTEXT, AGAIN])
def test_rewrite_replaces_whatever_is_there(zk: ZooKeeperProtocol, context: Any) -> None:
    steps = feed(zk.rewrite(Rewrite(MINE, "downgraded"), context), (MARKED,))
    assert steps == [Batch((MARK,))]
    assert steps.result == 1
    assert feed(zk.rewrite(Rewrite(MINE, ""), context), (replace(MARKED, version=7),)).result == 7


def test_rewrite_keeps_the_owner_and_writes_what_the_queue_has_room_for(zk: ZooKeeperProtocol) -> None:
    values = {"x": b"ready\n{me}", "~group/x": b"ready\n{me}\ndata", "~election/x": b"data"}
    for queue, value in values.items():
        entry = replace(MINE, ticket=replace(TICKET, queue=queue, owner="{me}", data=b"before"))
        steps = feed(zk.rewrite(Rewrite(entry, "ready", b"data"), CONTEXT), (MARKED,))
        assert steps == [Batch((SetData(OWN, value, version=-1),))]


def test_rewrite_of_one_version(zk: ZooKeeperProtocol) -> None:
    op = Rewrite(MINE, "", b"", version=0)
    steps = feed(zk.rewrite(op, CONTEXT), (MARKED,))
    assert steps == [Batch((SetData(OWN, b"", version=0),))]
    assert steps.result == 1
    assert feed(zk.rewrite(op, AGAIN), (BadVersion(),)).result is None, "it may be done, and a list tells"


@pytest.mark.parametrize("found", [NoNode(), Stat(500, 99, 1), Stat(501, SESSION, 1)])
def test_rewrite_of_a_node_that_is_gone_or_not_mine(zk: ZooKeeperProtocol, found: Any) -> None:
    assert feed(zk.rewrite(Rewrite(MINE, "downgraded"), CONTEXT), (found,)).result is None


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR[:3])
def test_rewrite_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.rewrite(Rewrite(MINE, "downgraded"), CONTEXT), (error,))


def test_what_is_created_says_who_made_it(zk: ZooKeeperProtocol) -> None:
    for queue, value in (("x", b"\n{me}"), ("~group/x", b"\n{me}\ndata"), ("~election/x", b"data")):
        ticket = Ticket(queue, "M7", ID, "{me}", b"data")
        path = f"/app/{queue}/_c_{ID}-M7-lock-"
        created = ((f"{path}0000000005", STAT), (node(5, ID, "M7-"),))
        steps = enqueue(zk, created, ticket=ticket)
        assert steps == [
            Batch((Create(path, value, ephemeral=True, sequence=True), Children(f"/app/{queue}")))
        ]
        assert steps.result.mine == Entry(ticket, f"{path}0000000005", 500)


# Marks of those ahead.


@pytest.mark.parametrize("data", [b"", DOWNGRADED, AS_BEFORE])
def test_probe_as_a_reader_asks_whether_the_one_writer_downgraded(zk: ZooKeeperProtocol, data: bytes) -> None:
    read = Batch((Get(f"{QUEUE}/{WRITER}"),))
    found = ((data, WRITER_STAT),)
    created = ((READER.ref, STAT), (SHARED_OWN, WRITER))
    steps = feed(
        zk.probe(Probe(SHARED_TICKET, SHARED), CONTEXT),
        (((WRITER,)),),
        found,
        *([created, found] if data else []),
    )
    assert steps[1] == read
    if not data:
        assert (len(steps), steps.result) == (2, None)
        return
    assert steps[3] == read, "and again, behind the own node"
    assert steps.result.mine == READER
    assert SHARED.blockers(steps.result.ahead) == ()


def test_probe_as_a_reader_asks_nothing_of_several_writers(zk: ZooKeeperProtocol) -> None:
    names = (WRITER, node(6, THIRD, "W-"))
    steps = feed(zk.probe(Probe(SHARED_TICKET, SHARED), CONTEXT), (names,))
    assert (len(steps), steps.result) == (1, None)


@pytest.mark.parametrize("data", [DOWNGRADED, AS_BEFORE])
def test_enqueue_as_a_reader_leaves_the_writers_state_to_the_watch(zk: ZooKeeperProtocol, data: Any) -> None:
    replies = ((READER.ref, STAT), (SHARED_OWN, WRITER))
    steps = enqueue(zk, replies, ticket=SHARED_TICKET, rule=SHARED)
    assert len(steps) == 1
    (writer,) = steps.result.ahead
    assert not writer.downgraded
    found = ((data, WRITER_STAT),)
    assert feed(zk.watch(Watch(READER, (writer,)), CONTEXT), found).result is False
    assert feed(zk.watch(Watch(MINE, (writer,)), CONTEXT), found).result is True, "no matter to others"
    checked = feed(zk.check(Check(READER, (writer,)), CONTEXT), (None, STAT, *found)).result
    assert checked == Checked(mine=True, present=frozenset())


@pytest.mark.parametrize("found", [(DOWNGRADED, WRITER_STAT), NoNode()])
def test_look_as_a_reader_reads_the_state(zk: ZooKeeperProtocol, found: Any) -> None:
    steps = feed(zk.look(Look(READER, SHARED, ()), CONTEXT), ((SHARED_OWN, WRITER),), (found,))
    assert steps[1] == Batch((Get(f"{QUEUE}/{WRITER}"),))
    assert steps.result.mine == READER
    assert SHARED.blockers(steps.result.ahead) == ()


def test_what_another_client_writes_into_its_node_means_nothing(zk: ZooKeeperProtocol) -> None:
    """kazoo's lock writes the identifier that its user chose; a reader waits, and does not look for ever."""
    name = "x__lock__0000000004"
    snapshot = enqueue(zk, ((READER.ref, STAT), (SHARED_OWN, name)), ticket=SHARED_TICKET, rule=SHARED).result
    found = ((DOWNGRADED, WRITER_STAT),)
    assert feed(zk.watch(Watch(READER, snapshot.ahead), CONTEXT), found).result is True


def _two_ahead(ahead: Ahead) -> Ahead:
    return () if len(ahead) < 2 or ahead[0].mark == "granted" else ahead[:2]


MINDS = Rule("S1.2", _two_ahead, depth=2, minds_marks=True)
SEMAPHORE = "~semaphore/x"
OURS = node(7, ID, "S1.2-")
AHEAD = tuple(node(number, OTHER, "S1.2-") for number in (4, 3, 2, 1))
WAITS = Entry(Ticket(SEMAPHORE, "S1.2", ID, minds_marks=True), f"/app/{SEMAPHORE}/{OURS}", 500)
GRANTED = (b"granted\n{me}\n", WRITER_STAT)
MARK_OF_NEAREST = Batch((Get(f"/app/{SEMAPHORE}/{AHEAD[0]}"),))


def minding(zk: ZooKeeperProtocol, ahead: int, *replies: Any, rule: Rule = MINDS) -> Asked:
    return feed(zk.look(Look(WAITS, rule, ()), CONTEXT), ((OURS, *AHEAD[:ahead]),), *replies)


def seen(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(one.ref.rpartition("/")[2], one.mark) for one in snapshot.ahead]


@pytest.mark.parametrize(("data", "mark"), [(GRANTED[0], "granted"), (b"", "")])
def test_the_mark_of_the_nearest_is_read_however_many_block(
    zk: ZooKeeperProtocol, data: bytes, mark: str
) -> None:
    steps = minding(zk, 4, ((data, WRITER_STAT),))
    assert steps[1:] == [MARK_OF_NEAREST]
    assert seen(steps.result) == [(AHEAD[0], mark), (AHEAD[1], ""), (AHEAD[2], "")]
    assert bool(MINDS.blockers(steps.result.ahead)) is not bool(mark)
    assert feed(zk.watch(Watch(WAITS, steps.result.ahead[:1]), CONTEXT), ((data, WRITER_STAT),)).result


def test_no_mark_is_read_where_it_changes_nothing(zk: ZooKeeperProtocol) -> None:
    assert len(minding(zk, 4, rule=EXCLUSIVE)) == 1
    assert len(minding(zk, 1)) == len(minding(zk, 0)) == 1, "it is free anyway"


def test_a_nearest_that_is_gone_is_left_out_where_all_are_seen(zk: ZooKeeperProtocol) -> None:
    assert seen(minding(zk, 2, (NoNode(),)).result) == [(AHEAD[1], "")]


def test_a_nearest_that_is_gone_stays_where_more_may_stand_ahead(zk: ZooKeeperProtocol) -> None:
    """Without it the rule would see fewer than it has to; the watch finds it gone."""
    snapshot = minding(zk, 4, (NoNode(),)).result
    assert (seen(snapshot), snapshot.complete) == ([(name, "") for name in AHEAD[:3]], False)


def test_it_tells_of_so_many_foreign_contenders_and_no_more(zk: ZooKeeperProtocol) -> None:
    names = tuple(f"note {n}" for n in range(MOST_TOLD + 5))
    enqueue(zk, ((OWN, STAT), (node(5), *names)))
    assert len(zk.noticed()) == MOST_TOLD


def test_two_underscores_alone_make_nobody_a_foreign_contender(zk: ZooKeeperProtocol) -> None:
    enqueue(zk, ((OWN, STAT), (node(5), "some__thing-0000000003")))
    assert zk.noticed() == []


# Looking from outside.


@pytest.mark.parametrize("says", [b"downgraded\n{me}", b"downgraded{me}"])
def test_a_listing_reads_the_nodes_at_the_head(zk: ZooKeeperProtocol, says: bytes) -> None:
    first, second, third = node(1, side="W-"), node(2, OTHER), "x-lock-0000000003"
    replies = [
        (None, (third, "config", second, first, node(4, THIRD))),
        ((says, Stat(5, SESSION, 1)), (b"{you}", Stat(6, 8, 0)), (b"downgraded", Stat(9, 7, 2))),
    ]
    asked = feed(zk.listing(List("x", 3), CONTEXT), *replies)
    assert asked == [
        Batch((Sync("/"), Children(QUEUE))),
        Batch(tuple(Get(f"{QUEUE}/{name}") for name in (first, second, third))),
    ]
    session = f"{SESSION & (2**64 - 1):x}"
    assert asked.result == Listing(
        (
            Contender(f"{QUEUE}/{first}", ID, "W", session, "downgraded", 5, "{me}", b"", 1),
            Contender(f"{QUEUE}/{second}", OTHER, "W", "8", "", 6, "{you}", b"", 0),
            Contender(f"{QUEUE}/{third}", "", "W", "7", "", 9, "downgraded", b"downgraded", 2),
        )
    )


def test_a_listing_of_another_recipe_has_data_and_of_an_election_nothing_else(zk: ZooKeeperProtocol) -> None:
    member, leader = node(1, side="M7-"), node(1)
    found = ((b"ready\n{me}\ntwo\nlines", Stat(5, SESSION, 3)),)
    (one,) = feed(zk.listing(List("~group/x", 9), CONTEXT), (None, (member,)), found).result.contenders
    assert (one.kind, one.mark, one.owner, one.data, one.version) == ("M7", "ready", "{me}", b"two\nlines", 3)
    found = ((b"10.0.0.1\nx", Stat(5, SESSION, 0)),)
    (one,) = feed(zk.listing(List("~election/x", 9), CONTEXT), (None, (leader,)), found).result.contenders
    assert (one.kind, one.mark, one.owner, one.data) == ("W", "", "", b"10.0.0.1\nx")


def test_a_listing_of_a_queue_whose_numbers_say_nothing(zk: ZooKeeperProtocol) -> None:
    one, other = node(2147483647), node(2147483647, OTHER)
    stats = (Stat(9, 1, 0), Stat(5, 1, 0))
    replies = [(None, (one, other)), stats, ((b"", Stat(5, 1, 0)), (b"", Stat(9, 1, 0)))]
    asked = feed(zk.listing(List("x", 2), CONTEXT), *replies)
    assert [contender.token for contender in asked.result.contenders] == [5, 9]
    assert {part.path for part in asked[1].parts} == {part.path for part in asked[2].parts}


def test_a_listing_begins_anew_while_one_is_gone_or_another(zk: ZooKeeperProtocol) -> None:
    stuck = (None, (node(2147483647),))
    dated = (Stat(5, 1, 0),)
    replies = [stuck, dated, ((b"", Stat(6, 1, 0)),), stuck, (Stat(6, 1, 0),), ((b"", Stat(6, 1, 0)),)]
    assert [one.token for one in feed(zk.listing(List("x", 1), CONTEXT), *replies).result.contenders] == [6]
    gone = [stuck, (NoNode(),)]
    asked = feed(zk.listing(List("x", 1), CONTEXT), *gone, *gone, *replies[:2], ((b"", Stat(5, 1, 0)),))
    assert [one.token for one in asked.result.contenders] == [5]


def test_a_listing_of_a_busy_queue_shows_it_as_it_was_at_some_moment(zk: ZooKeeperProtocol) -> None:
    """Without those that went in between, it would lack those that came before that."""
    leaders = [node(number, ident) for number, ident in enumerate((ID, OTHER, THIRD))]
    busy = [reply for one in leaders[:2] for reply in ((None, (one,)), (NoNode(),))]
    asked = feed(zk.listing(List("x", 1), CONTEXT), *busy, (None, leaders[2:]), ((b"", Stat(7, 1, 0)),))
    assert [one.id for one in asked.result.contenders] == [THIRD]


def test_a_listing_that_begins_anew_reads_no_node_twice(zk: ZooKeeperProtocol) -> None:
    first, second, third = node(1), node(2, OTHER), node(3, THIRD)
    replies = [
        (None, (first, second)),
        ((b"", Stat(5, 1, 0)), NoNode()),
        (None, (first, third)),
        ((b"", Stat(7, 1, 0)),),
    ]
    asked = feed(zk.listing(List("x", 3), CONTEXT), *replies)
    assert asked[3] == Batch((Get(f"{QUEUE}/{third}"),))
    assert [one.id for one in asked.result.contenders] == [ID, THIRD]


def test_a_listing_tells_of_what_is_no_contender(zk: ZooKeeperProtocol) -> None:
    feed(zk.listing(List("x", 3), CONTEXT), (None, ("config", OWN)), ((b"", STAT),))
    assert zk.noticed() == [f"{QUEUE}/config is {NO_CONTENDER}"]


def test_a_listing_of_nothing(zk: ZooKeeperProtocol) -> None:
    assert feed(zk.listing(List("x", 2), CONTEXT), (None, NoNode())).result == Listing(())
    assert feed(zk.listing(List("x", 2), CONTEXT), (None, ())).result == Listing(())


@pytest.mark.parametrize(("error", "raised"), EVERY_ERROR)
def test_a_listing_fails(zk: ZooKeeperProtocol, error: Any, raised: Any) -> None:
    with pytest.raises(raised):
        feed(zk.listing(List("x", 2, watch=True), CONTEXT), (error, ()))
    with pytest.raises(raised):
        feed(zk.listing(List("x", 2, watch=True), CONTEXT), (None, (node(1),)), (error,))
    with pytest.raises(raised):
        feed(zk.listing(List("x", 2, watch=True), CONTEXT), (None, NoNode()), (error,))


# ... and watching it.

WATCHING = Batch((Sync("/"), Children(QUEUE, MAILBOX, "x")))
COMING = Batch((Exists(QUEUE, MAILBOX, "x"),))


def test_a_watched_listing_watches_the_names_first_and_then_each_node(zk: ZooKeeperProtocol) -> None:
    replies = [(None, (node(5), node(2, OTHER))), (THERE, (b"", STAT))]
    asked = feed(zk.listing(List("x", 5, watch=True), CONTEXT), *replies)
    assert asked == [WATCHING, Batch((Get(A.ref, MAILBOX, "x"), Get(OWN, MAILBOX, "x")))]
    assert [one.id for one in asked.result.contenders] == [OTHER, ID]


def test_a_watched_listing_watches_none_but_those_asked_for(zk: ZooKeeperProtocol) -> None:
    asked = feed(zk.listing(List("x", 1, watch=True), CONTEXT), (None, (node(5), node(2, OTHER))), (THERE,))
    assert asked[1] == Batch((Get(A.ref, MAILBOX, "x"),))


def test_a_watched_listing_of_what_is_not_there_watches_its_coming(zk: ZooKeeperProtocol) -> None:
    asked = feed(zk.listing(List("x", 5, watch=True), CONTEXT), (None, NoNode()), (None,))
    assert (asked, asked.result) == ([WATCHING, COMING], Listing(()))


def test_a_watched_listing_of_what_comes_in_between_begins_anew(zk: ZooKeeperProtocol) -> None:
    there = Stat(3, 0, 0)
    replies = [(None, NoNode()), (there,), (None, (node(2, OTHER),)), (THERE,)]
    asked = feed(zk.listing(List("x", 5, watch=True), CONTEXT), *replies)
    assert asked[:3] == [WATCHING, COMING, WATCHING]
    assert [one.id for one in asked.result.contenders] == [OTHER]
    comes_and_goes = [(None, NoNode()), (there,)] * 3
    asked = feed(zk.listing(List("x", 5, watch=True), CONTEXT), *comes_and_goes, (None, NoNode()), (None,))
    assert asked.result == Listing(())


@pytest.mark.parametrize("watch", [True, False])
def test_kinds_alone_are_one_read_and_no_sync(zk: ZooKeeperProtocol, *, watch: bool) -> None:
    names = (node(5, ID, "S2.10-"), node(2, OTHER, "S1.10-"), node(7, THIRD))
    asked = feed(zk.listing(List("x", 2, watch=watch, kinds_only=True), CONTEXT), (names,))
    assert asked == [Batch((Children(QUEUE, MAILBOX, "x") if watch else Children(QUEUE),))]
    listed = [(one.id, one.kind, one.ref) for one in asked.result.contenders]
    assert listed == [(OTHER, "S1.10", f"{QUEUE}/{names[1]}"), (ID, "S2.10", f"{QUEUE}/{names[0]}")]


def test_kinds_alone_of_a_queue_whose_numbers_say_nothing(zk: ZooKeeperProtocol) -> None:
    names = (node(LAST), node(LAST, OTHER))
    asked = feed(zk.listing(List("x", 2, kinds_only=True), CONTEXT), (names,), (Stat(9, 1, 0), Stat(5, 1, 0)))
    listed = asked.result.contenders
    assert [one.token for one in listed] == [5, 9]


def test_an_eviction_is_guarded_by_the_token(zk: ZooKeeperProtocol) -> None:
    op = Evict("x", f"{QUEUE}/{OWN}", 500)
    asked = feed(zk.evict(op, CONTEXT), (None, STAT), None)
    assert [type(part).__name__ for part in asked[0].parts] == ["Sync", "Exists"]
    assert (asked[1], asked.result) == (Delete(op.ref), True)
    for there in (NoNode(), FOREIGN_STAT):
        for context in (CONTEXT, AGAIN):
            asked = feed(zk.evict(op, context), (None, there))
            assert (len(asked), asked.result) == (1, context.again)


def test_queues_are_those_in_which_somebody_stands(zk: ZooKeeperProtocol) -> None:
    replies = [(("c", "~recipe", "a", "b"),), ((node(1),), (), NoNode())]
    asked = feed(zk.queues(Queues(5), CONTEXT), *replies)
    assert [part.path for part in asked[1].parts] == ["/app/a", "/app/b", "/app/c"]
    assert asked.result == ("a",)
    assert feed(zk.queues(Queues(5), CONTEXT), (NoNode(),)).result == ()


def test_a_queue_that_may_not_be_listed_hides_no_other(zk: ZooKeeperProtocol) -> None:
    denied = StoreDenied("zookeeper://z", "no permission")
    asked = feed(zk.queues(Queues(5), CONTEXT), (("a", "b"),), (denied, (node(1),)))
    assert asked.result == ("b",)
    with pytest.raises(StoreDenied):
        feed(zk.queues(Queues(5), CONTEXT), (denied,))


def test_what_was_watched_of_its_own_is_remembered_within_bounds(
    zk: ZooKeeperProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.zookeeper.protocol.MOST_OWN", 10)
    stays = contender(node(99, OTHER))
    for number in range(50):
        for one in (contender(node(number, OTHER)), stays):
            feed(zk.watch(Watch(MINE, (one,)), CONTEXT), ((b"", STAT),))
    assert len(zk._own_watched | zk._own_before) <= 20
    for one in (contender(node(49, OTHER)), stays):
        assert len(feed(zk.check(Check(MINE, (one,), Gone(one.ref)), CONTEXT), (None, STAT, NoNode()))) == 1


def test_queues_are_listed_until_there_are_enough(zk: ZooKeeperProtocol) -> None:
    names = tuple(f"{number:03}" for number in range(150))
    asked = feed(zk.queues(Queues(2), CONTEXT), (names,), ((node(1),),) * 100)
    assert asked.result == ("000", "001")


def test_the_root_of_all() -> None:
    assert Layout("").root == "/"
    assert Layout("app/x").root == "/app/x"
