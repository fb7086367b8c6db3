"""The protocol of cell stores, step by step, and what it makes of answers that are lost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from recipes._contract import operations as ops
from recipes._contract.contenders import Contender
from recipes._contract.protocol import RequestContext
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost, StoreDenied, StoreError, StoreFull, StoreUnavailable
from recipes.stores._kit.cell import Cell, CellProtocol, Drop, Keep, Peek, Take, shown, value_of
from recipes.stores._kit.session import NOBODY

X = ops.Ticket("x", "lock", "one")
Y = ops.Ticket("y", "lock", "two")
MINE, THEIRS = "s/one", "other/three"
ONCE, AGAIN = RequestContext(NOBODY), RequestContext(NOBODY, again=True)
GONE = StoreUnavailable("model", "no answer")
DENIED, FULL = StoreDenied("model", "not permitted"), StoreFull("model", "no room")
SHORTEST_S, LONGEST_S = 0.0075, 0.2


def asked(steps: Generator[Any, Any, Any], *replies: Any) -> tuple[list[Any], Any]:
    """Return the acts that are asked for, with these replies, and what comes of it; None: it goes on."""
    acts: list[Any] = []
    waiting, reply = list(replies), None
    try:
        while True:
            command = steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
            acts.append(command.op)
            if not waiting:
                return acts, None
            reply = waiting.pop(0)
    except StopIteration as stop:
        return acts, stop.value


def protocol(poll_s: float | None = LONGEST_S) -> CellProtocol:
    """Return one whose session has begun."""
    one = CellProtocol("s", lambda: 0.0, longest_poll_s=poll_s)
    acts, opened = asked(one.open(ops.Open(4.0), ONCE), ops.Opened("s", 4.0))
    assert (acts, opened.ttl_s) == ([ops.Open(4.0)], 4.0)
    return one


def renewed(one: CellProtocol, *replies: Any, entries: tuple[Any, ...] = (), waiting: Any = ()) -> Any:
    return asked(one.renew(ops.Renew(entries, 1.0, waiting), ONCE), *replies)


def taken(one: CellProtocol, ticket: ops.Ticket = X, token: int = 7) -> ops.Entry:
    """Have a free cell taken."""
    value = value_of("s", ticket.id)
    acts, snapshot = asked(one.enqueue(ops.Enqueue(ticket, EXCLUSIVE), ONCE), Cell(value, token, 4.0))
    assert acts == [Take(ticket.queue, value, 4.0)]
    assert (snapshot.ahead, snapshot.mine.token) == ((), token)
    entry: ops.Entry = snapshot.mine
    return entry


def lost(one: CellProtocol, context: RequestContext = ONCE, error: Exception = GONE) -> None:
    """Have the answer to a take lost, or be an error."""
    with pytest.raises(type(error)):
        asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), context), error)


def test_a_free_cell_is_taken_renewed_and_dropped() -> None:
    one = protocol()
    entry = taken(one)
    acts, renewal = renewed(one, (True,), entries=(entry,))
    assert (acts, renewal) == ([Keep((("x", MINE),), 4.0)], ops.Renewal(4.0))
    acts, removed = asked(one.withdraw(ops.Withdraw(X, entry), ONCE), (True,))
    assert (acts, removed) == ([Drop((("x", MINE),))], True)
    assert renewed(one, ())[0] == [Keep((), 4.0)]
    assert asked(one.end(ops.End(), ONCE)) == ([], None)


def test_a_snapshot_is_never_complete_and_its_holder_is_the_cell() -> None:
    one = protocol()
    _, snapshot = asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE), Cell(THEIRS, 3, 2.0))
    assert snapshot.mine == ops.Entry(X, "x", 0)
    assert snapshot.ahead == (Contender("x", "three", session="other", token=3),)
    assert (snapshot.complete, snapshot.position) == (False, 1)
    assert not taken(protocol()).ref.startswith("other")


def test_it_looks_again_less_and_less_often_and_when_the_lease_ends() -> None:
    one, due = protocol(), []
    for _ in range(30):
        _, snapshot = asked(one.look(ops.Look(ops.Entry(X, "x", 0), EXCLUSIVE, ()), ONCE), Cell(THEIRS))
        due.append(snapshot.due_s)
        assert snapshot.by_time
    assert due[0] == pytest.approx(SHORTEST_S)
    assert due == sorted(due)
    assert due[-1] == LONGEST_S / 2  # with no jitter; all of it doubles this
    for left_s, due_s in ((0.05, 0.05), (-1.0, 0.001)):
        _, snapshot = asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE), Cell(THEIRS, 0, left_s))
        assert snapshot.due_s == due_s


def test_where_the_store_notifies_only_the_end_of_the_lease_is_looked_for() -> None:
    one = protocol(None)
    for left_s in (None, 2.0):
        _, snapshot = asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE), Cell(THEIRS, 0, left_s))
        assert (snapshot.due_s, snapshot.by_time) == (left_s, False)
    assert asked(one.watch(ops.Watch(ops.Entry(X, "x", 0), shown("x", Cell(THEIRS))), ONCE)) == ([], True)


def test_what_was_never_taken_is_not_dropped_or_renewed() -> None:
    one = protocol()
    asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE), Cell(THEIRS))
    assert renewed(one, ())[0] == [Keep((), 4.0)]
    assert asked(one.withdraw(ops.Withdraw(X), ONCE)) == ([], True)


def test_a_renewal_names_a_take_that_is_on_its_way() -> None:
    """Else its lease would be shorter than what the session's clock counts for it."""
    one = protocol()
    steps = one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE)
    next(steps)
    acts, renewal = renewed(one, (False,), waiting=(ops.Entry(X, "x", 0),))
    assert acts == [Keep((("x", MINE),), 4.0)]
    assert renewal.missing == ()  # it may land after the renewal
    with pytest.raises(StopIteration):
        steps.send(Cell(MINE, 1))
    assert renewed(one, (False,), waiting=(ops.Entry(X, "x", 0),))[1].missing == (ops.Entry(X, "x", 0),)


def test_a_take_that_is_found_again_is_adopted_with_its_token() -> None:
    one = protocol()
    lost(one)
    acts, snapshot = asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), AGAIN), Cell(MINE, 5))
    assert (acts, snapshot.mine.token) == ([Take("x", MINE, 4.0)], 5)
    assert renewed(one, (True,), entries=(snapshot.mine,))[1].missing == ()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("error", [GONE, StoreDenied("store", "no permission")], ids=["silent", "denied"])
def test_what_may_land_late_is_dropped_by_the_next_renewals(first: bool, error: StoreError) -> None:
    one = protocol()
    lost(one)
    if first:  # it was given up at once; else it was found not to have landed, or not yet
        asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), AGAIN), Cell(THEIRS))
    assert renewed(one, (False,))[0] == [Keep((("x", MINE),), 4.0)]
    acts, removed = asked(one.withdraw(ops.Withdraw(X), ONCE), (False,))
    assert (acts, removed) == ([Drop((("x", MINE),))], False)
    acts, renewal = renewed(one, (), error)
    assert (acts, renewal) == (
        [Keep((), 4.0), Drop((("x", MINE),), of_session=True)],
        ops.Renewal(4.0),
    )  # it counts all the same
    for _ in range(3 if error is GONE else 2):  # one that is refused each time has its end, too
        assert renewed(one, (), (False,))[0] == acts
    assert renewed(one, ())[0] == [Keep((), 4.0)]


@pytest.mark.parametrize("error", [DENIED, FULL])
def test_what_was_refused_is_not_renewed_and_not_dropped(error: Exception) -> None:
    """Each renewal would be refused with it, and with that all that the session holds be lost."""
    one = protocol()
    y = taken(one, Y)
    lost(one, error=error)
    assert renewed(one, (True,), entries=(y,))[0] == [Keep((("y", "s/two"),), 4.0)]
    assert asked(one.withdraw(ops.Withdraw(X), ONCE)) == ([], True)
    assert renewed(one, (True,), entries=(y,))[0] == [Keep((("y", "s/two"),), 4.0)]


def test_what_is_refused_when_it_is_asked_again_is_dropped_by_the_next_renewals() -> None:
    one = protocol()
    lost(one)
    lost(one, AGAIN, DENIED)
    assert renewed(one, (), (False,))[0] == [Keep((), 4.0), Drop((("x", MINE),), of_session=True)]


def test_what_finds_no_room_when_it_is_asked_again_is_kept_until_it_is_dropped() -> None:
    one = protocol()
    lost(one)
    lost(one, AGAIN, FULL)
    assert renewed(one, (False,))[0] == [Keep((("x", MINE),), 4.0)]
    assert asked(one.withdraw(ops.Withdraw(X), ONCE), (True,))[0] == [Drop((("x", MINE),))]


def test_a_renewal_counts_for_what_is_held_while_what_is_being_taken_is_refused() -> None:
    one = protocol()
    y = taken(one, Y)
    taking = one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE)
    next(taking)
    both, held = Keep((("y", "s/two"), ("x", MINE)), 4.0), Keep((("y", "s/two"),), 4.0)
    acts, renewal = renewed(one, DENIED, (True,), entries=(y,))
    assert (acts, renewal) == ([both, held], ops.Renewal(4.0))
    # The session counts from a renewal that does not name it: its lease has to begin anew.
    assert taking.send(Cell(MINE, 7)).op == Take("x", MINE, 4.0)
    with pytest.raises(StopIteration) as done:
        taking.send(Cell(MINE, 8))
    assert done.value.value.mine.token == 8
    with pytest.raises(StoreDenied):
        renewed(one, DENIED, entries=(y, done.value.value.mine))


def test_a_renewal_that_is_refused_to_what_was_taken_meanwhile_does_not_count() -> None:
    one = protocol()
    taking, renewing = one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE), one.renew(ops.Renew((), 1.0), ONCE)
    next(taking)
    next(renewing)
    with pytest.raises(StopIteration):
        taking.send(Cell(MINE, 7))
    with pytest.raises(StoreDenied):
        renewing.throw(DENIED)


def test_what_was_asked_twice_may_land_again_after_its_release() -> None:
    one = protocol()
    lost(one)
    asked(one.enqueue(ops.Enqueue(X, EXCLUSIVE), AGAIN), Cell(MINE, 5))
    asked(one.withdraw(ops.Withdraw(X), ONCE), (True,))
    assert asked(one.end(ops.End(), ONCE), (False,))[0] == [Drop((("x", MINE),))]


def test_the_end_of_a_session_drops_all_that_it_has() -> None:
    one = protocol()
    taken(one)
    taken(one, Y)
    assert asked(one.end(ops.End(), ONCE), (True, True))[0] == [Drop((("x", MINE), ("y", "s/two")))]


def test_a_cell_that_is_not_there_any_more_is_missing() -> None:
    one = protocol()
    x, y = taken(one), taken(one, Y)
    assert renewed(one, (True, False), entries=(x, y))[1].missing == (y,)
    assert asked(one.withdraw(ops.Withdraw(Y, y), AGAIN), (False,))[1]  # an earlier try may have dropped it


def test_a_probe_takes_what_is_free_and_leaves_nothing_else() -> None:
    one, probe = protocol(), ops.Probe(X, EXCLUSIVE)
    assert asked(one.probe(probe, ONCE), Cell(MINE, 2))[1].mine.token == 2
    one = protocol()
    assert asked(one.probe(probe, ONCE), Cell(THEIRS))[1] is None
    assert not one._looks
    with pytest.raises(StoreUnavailable):
        asked(one.probe(probe, ONCE), GONE)
    _, snapshot = asked(one.probe(probe, AGAIN), Cell(THEIRS))
    assert snapshot.mine is None  # the earlier try may land yet: it is withdrawn


def test_whether_it_stands_is_looked_up() -> None:
    one, holder = protocol(), shown("x", Cell(THEIRS))
    entry = taken(one)
    for cell, stands in ((Cell(MINE, 7), True), (Cell(THEIRS), False), (Cell(), False)):
        acts, checked = asked(one.check(ops.Check(entry), ONCE), cell)
        assert (acts, checked.mine) == ([Peek("x", surely=True)], stands)
    waiting = ops.Entry(X, "x", 0)
    for cell, present in ((Cell(THEIRS), {"x"}), (Cell("another/four"), set()), (Cell(), set())):
        _, checked = asked(one.check(ops.Check(waiting, holder), ONCE), cell)
        assert (checked.mine, checked.present) == (True, present)


@pytest.mark.parametrize("value", ["", "theirs", "/theirs", "theirs/"])
def test_what_others_wrote_is_shown_as_theirs(value: str) -> None:
    one = protocol()
    acts, listing = asked(one.listing(ops.List("x", 1), ONCE), Cell(value))
    assert (acts, listing.due_s) == ([Peek("x")], None)
    assert listing.contenders == ((Contender("x"),) if value else ())
    assert asked(one.listing(ops.List("x", 1, watch=True), ONCE), Cell(value))[1].due_s == LONGEST_S / 2


def test_what_has_no_place_in_a_cell_was_to_be_refused_before() -> None:
    with pytest.raises(AssertionError, match="Queues should have been refused"):
        protocol().queues(ops.Queues(1), ONCE)


def test_what_lands_after_the_session_was_ended_is_dropped_by_its_own_call() -> None:
    one = protocol()
    taking = one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE)
    assert next(taking).op == Take(
        "x", MINE, 4.0
    )  # which is on its way as a signal handler closes the client
    assert asked(one.end(ops.End(), ONCE), (False,)) == ([Drop((("x", MINE),))], None)
    dropping = taking.send(Cell(MINE, 7, 4.0))
    assert dropping.op == Drop((("x", MINE),))
    with pytest.raises(SessionLost):
        taking.send((True,))


def test_what_another_holds_after_the_session_was_ended_is_left_alone() -> None:
    one = protocol()
    taking = one.enqueue(ops.Enqueue(X, EXCLUSIVE), ONCE)
    next(taking)
    asked(one.end(ops.End(), ONCE), (False,))
    with pytest.raises(StopIteration):
        taking.send(Cell(THEIRS, 7, 4.0))
