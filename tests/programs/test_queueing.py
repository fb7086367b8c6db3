from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Check,
    Checked,
    Confirm,
    Enqueue,
    Entry,
    List,
    Listing,
    Look,
    Probe,
    Queues,
    Rewrite,
    Snapshot,
    Watch,
    Withdraw,
)
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Disturbed, Gone, Granted, HandedOn, LocallyGone
from recipes._programs.hold import CLOSED, NOT_RENEWED, HeldState
from recipes._programs.observing import evict, look_at_all, look_up
from recipes._programs.queueing import (
    REMOVED,
    Attempt,
    acquire,
    at_once,
    calm,
    downgrade,
    open_session,
    release,
    try_acquire,
    verify,
)
from recipes._programs.session import SessionEvent
from recipes._programs.steps import Admit, Allow, Attach, BehindOwn, Emit, Wait
from recipes._rules.exclusive import EVERYBODY, EXCLUSIVE
from recipes._rules.permits import permits as semaphore
from recipes.errors import (
    ClientClosed,
    LockTimeout,
    QueueFull,
    SessionLost,
    StoreRefused,
    StoreUnavailable,
)
from tests.programs.stepping import (
    GONE,
    Played,
    Script,
    admitted,
    entry,
    others,
    play,
    session,
    snapshot,
    ticket,
)
from tests.rules.test_rules import permits

LABELS = {"name": "q", "recipe": "lock", "mode": "exclusive", "store": "memory://"}
TAIL = ["Admit", "Emit", "Now"]


def attempt(rule: Rule = EXCLUSIVE, timeout_s: float | None = None) -> Attempt:
    numbers = iter(range(1, 100))
    return Attempt("q", rule, lambda: f"id-{next(numbers)}", dict(LABELS), timeout_s)


def acquired(rule: Rule = EXCLUSIVE, **answers: Any) -> Played:
    at = session()
    played = play(acquire(attempt(rule)), Script(Attach=at, Admit=admitted(at), **answers))
    assert isinstance(played.result, HeldState), (played.kinds, played.error)
    assert played.abandoned == []
    return played


def middle(played: Played) -> list[str]:
    """What was asked between the enqueue and the grant."""
    assert played.kinds[:3] == ["Now", "Attach", "Enqueue"]
    assert played.kinds[-3:] == TAIL
    return played.kinds[3:-3]


def test_nobody_ahead_is_granted_at_once() -> None:
    played = acquired(Enqueue=snapshot())
    assert middle(played) == []
    assert played.only(Enqueue) == Enqueue(ticket(1), EXCLUSIVE)
    assert played.events == ["lock.acquired"]
    assert played.result.entry == entry()
    assert played.result.labels == {**LABELS, "attempt": 1}


def test_one_ahead_is_watched_and_its_end_is_checked() -> None:
    played = acquired(
        Enqueue=snapshot("a", as_of=3), Watch=True, Wait=Gone("a"), Check=Checked(True, frozenset())
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Check"]
    assert played.events == ["lock.queued", "lock.acquired"]
    assert played.only(Watch) == Watch(entry(), others("a"), as_of=3)
    assert played.only(Check) == Check(entry(), others("a"), Gone("a"))


def test_the_evidence_of_a_local_release_is_passed_on() -> None:
    gone = LocallyGone("a")
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=gone, Check=Checked(True, frozenset()))
    assert played.only(Check).evidence is gone


def test_a_release_of_the_same_client_grants_and_nobody_is_asked() -> None:
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=HandedOn("a"))
    assert middle(played) == ["Emit", "Watch", "Wait"]


def test_those_ahead_of_one_that_was_alone_do_not_count_any_more() -> None:
    played = acquired(
        Enqueue=snapshot("c", "b", complete=False), Watch=True, Wait=[HandedOn("b"), HandedOn("c")]
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Watch", "Wait"]
    assert [op.targets for op in played.ops if isinstance(op, Watch)] == [others("b"), others("c")]


def test_one_of_another_client_that_waits_between_is_watched() -> None:
    played = acquired(
        Enqueue=snapshot("foreign", "a"),
        Watch=True,
        Wait=[HandedOn("a"), Gone("foreign")],
        Check=Checked(True, frozenset()),
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Watch", "Wait", "Check"]
    assert played.only(Check).targets == others("foreign")


def test_a_release_of_what_was_left_out_before_is_nothing() -> None:
    played = acquired(
        Enqueue=snapshot("b", "a"), Watch=True, Wait=[HandedOn("a"), HandedOn("a"), HandedOn("b")]
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Watch", "Wait", "Wait"]


def test_a_writer_waits_for_every_reader_ahead() -> None:
    two = tuple(replace(one, kind="R") for one in others("s", "r"))
    played = acquired(
        Enqueue=replace(snapshot("s", "r"), ahead=two), Watch=True, Wait=[HandedOn("r"), HandedOn("s")]
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Watch", "Wait"]


def test_while_more_may_be_ahead_the_deletion_is_waited_for() -> None:
    two = tuple(replace(one, kind="R") for one in others("s", "r"))
    seen = replace(snapshot("s", "r", complete=False), ahead=two, position=3)
    told = list[int]()
    asked = attempt()
    asked.on_position = told.append
    at = session()
    script = Script(
        Attach=at,
        Admit=admitted(at),
        Enqueue=seen,
        Watch=True,
        Wait=[HandedOn("r"), HandedOn("s"), Gone("s")],
        Look=snapshot(),
    )
    played = play(acquire(asked), script)
    assert middle(played) == ["Emit", "Watch", "Wait", "Watch", "Wait", "Wait", "Look"]
    assert told == [3, 2]


def test_deep_in_the_queue_the_second_ahead_is_watched_then_the_nearest() -> None:
    played = acquired(
        Enqueue=snapshot("b", "a"),
        Watch=True,
        Wait=[Gone("a"), Gone("b")],
        Look=snapshot("b"),
        Check=Checked(True, frozenset()),
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Look", "Wait", "Check"]
    assert played.only(Watch).targets == others("a")
    assert played.only(Look) == Look(entry(), EXCLUSIVE, others("b"))


def test_where_a_look_is_cheap_the_nearest_is_watched_and_the_look_is_the_proof() -> None:
    played = acquired(
        Enqueue=replace(snapshot("b", "a", complete=False), cheap=True),
        Watch=True,
        Wait=[Gone("b"), Gone("a")],
        Look=[replace(snapshot("a"), cheap=True), replace(snapshot(), cheap=True)],
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Look", "Watch", "Wait", "Look"]
    assert [op.targets for op in played.ops if isinstance(op, Watch)] == [others("b"), others("a")]
    assert all(op.targets == () for op in played.ops if isinstance(op, Look))


def test_who_is_told_its_place_moves_up_where_a_look_is_cheap_too() -> None:
    at, told = session(), list[int]()
    asked = attempt()
    asked.on_position = told.append
    script = Script(
        Attach=at,
        Admit=admitted(at),
        Enqueue=replace(snapshot("b", "a"), cheap=True),
        Watch=True,
        Wait=[Gone("a"), Gone("b")],
        Look=replace(snapshot("b"), cheap=True),
        Check=Checked(True, frozenset()),
    )
    played = play(acquire(asked), script)
    assert middle(played) == ["Emit", "Watch", "Wait", "Look", "Wait", "Check"]
    assert told == [2, 1]


def test_moving_up_to_where_a_look_is_cheap_watches_the_nearest() -> None:
    played = acquired(
        Enqueue=snapshot("c", "b", complete=False),
        Watch=True,
        Wait=[Gone("b"), Gone("c")],
        Look=[replace(snapshot("c", "a"), cheap=True), replace(snapshot(), cheap=True)],
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Look", "Wait", "Look"]


def test_moving_up_finds_another_to_watch_than_it_armed() -> None:
    played = acquired(
        Enqueue=snapshot("c", "b", complete=False),
        Watch=True,
        Wait=[Gone("b"), Gone("a"), Gone("c")],
        Look=[snapshot("c", "a"), snapshot("c")],
        Check=Checked(True, frozenset()),
    )
    # After the first look the second ahead is "a" and not the armed "c".
    assert middle(played) == ["Emit", "Watch", "Wait", "Look", "Watch", "Wait", "Look", "Wait", "Check"]


def test_moving_up_to_find_nobody_is_granted() -> None:
    played = acquired(Enqueue=snapshot("b", "a"), Watch=True, Wait=Gone("a"), Look=snapshot())
    assert middle(played) == ["Emit", "Watch", "Wait", "Look"]


def test_a_blocker_gone_between_listing_and_watching_is_not_waited_for() -> None:
    played = acquired(Enqueue=snapshot("a"), Watch=False, Look=snapshot())
    assert middle(played) == ["Emit", "Watch", "Look"]
    assert played.only(Look).targets == ()


def test_gone_before_it_was_watched_but_another_blocks() -> None:
    played = acquired(
        Enqueue=snapshot("a"),
        Watch=[False, True],
        Look=snapshot("x"),
        Wait=Gone("x"),
        Check=Checked(True, frozenset()),
    )
    assert middle(played) == ["Emit", "Watch", "Look", "Watch", "Wait", "Check"]


@pytest.mark.parametrize(
    "checked", [Checked(True, frozenset({"a"})), Checked(False, frozenset())], ids=["back", "own gone"]
)
def test_what_the_event_said_is_not_so(checked: Any) -> None:
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=Gone("a"), Check=checked, Look=snapshot())
    assert middle(played) == ["Emit", "Watch", "Wait", "Check", "Look"]


@pytest.mark.parametrize("event", [Gone("elsewhere"), Changed("elsewhere")])
def test_an_event_about_somebody_watched_earlier_costs_nothing(event: Any) -> None:
    played = acquired(
        Enqueue=snapshot("a"), Watch=True, Wait=[event, Gone("a")], Check=Checked(True, frozenset())
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Wait", "Check"]


@pytest.mark.parametrize("event", [None, Disturbed(), SessionEvent()])
def test_without_a_telling_event_the_own_and_the_watched_are_read_again(event: Any) -> None:
    still, free = Checked(True, frozenset({"a"})), Checked(True, frozenset())
    played = acquired(
        Enqueue=snapshot("a"), Watch=True, Wait=[event, None], Check=[still, free], Look=snapshot()
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Check", "Wait", "Check", "Look"]
    first = next(op for op in played.ops if isinstance(op, Check))
    assert first == Check(entry(), others("a"), None)


def test_a_way_that_breaks_again_and_again_is_not_hurried() -> None:
    still, free = Checked(True, frozenset({"a"})), Checked(True, frozenset())
    break_ = Disturbed()
    pause = [None] * 8
    waits = [break_, *(e for p in pause for e in (break_, p)), None, break_, Gone("a")]
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=waits, Check=[*[still] * 11, free])
    asked = [op.at_most_s for op in played.ops if isinstance(op, Wait)]
    pauses = [0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]
    expected = [None, *(at_most for p in pauses for at_most in (None, p)), None, None, None]
    assert asked == expected, "none before the first re-read, and none once it was quiet"
    assert middle(played)[:8] == ["Emit", "Watch", "Wait", "Check", "Wait", "Wait", "Check", "Wait"]


def test_a_way_that_breaks_for_hours_is_waited_for() -> None:
    """It ended with an OverflowError, after some 1,000 breaks: a connection that is cut every 5 s, say."""
    played = play(calm(Disturbed(), 5000), Script(Wait=None))
    assert (played.ops, played.result) == ([Wait(1.0)], 5001)


def test_reread_without_the_own_contender_looks() -> None:
    played = acquired(
        Enqueue=snapshot("a"), Watch=True, Wait=None, Check=Checked(False, frozenset({"a"})), Look=snapshot()
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Check", "Look"]


def test_a_blocker_with_other_data_has_the_queue_looked_at() -> None:
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=Changed("a"), Look=snapshot())
    assert middle(played) == ["Emit", "Watch", "Wait", "Look"]


def test_an_incomplete_view_grants_nothing() -> None:
    """Shared behind writers of which the bounded read showed a part."""
    shared = Rule("R", lambda ahead: tuple(c for c in ahead if c.ref == "a"), depth=1)
    played = acquired(
        shared, Enqueue=snapshot("a", complete=False), Watch=True, Wait=Gone("a"), Look=snapshot()
    )
    assert middle(played) == ["Emit", "Watch", "Wait", "Look"]
    assert played.only(Look).targets == ()


def test_several_targets_any_one_of_them_frees() -> None:
    played = acquired(
        permits(2),
        Enqueue=snapshot("b", "a"),
        Watch=True,
        Wait=Gone("a"),
        Check=Checked(True, frozenset()),
    )
    assert played.only(Watch).targets == others("b", "a")
    assert played.only(Check).targets == others("a"), "the one that went, and no other"


def test_queued_is_told_once_with_the_position() -> None:
    played = acquired(
        Enqueue=snapshot("b", "a"),
        Watch=True,
        Wait=[Gone("a"), Gone("b")],
        Look=snapshot("b"),
        Check=Checked(True, frozenset()),
    )
    queued = next(op.transition for op in played.ops if isinstance(op, Emit))
    assert (queued.event, queued.position, queued.attempt) == ("lock.queued", 2, 1)


# What the store itself says, and when it wants to be asked.


def test_the_stores_word_of_the_own_grant_is_the_grant() -> None:
    played = acquired(Enqueue=snapshot("b", "a"), Watch=True, Wait=Granted(entry().ref))
    assert middle(played) == ["Emit", "Watch", "Wait"]
    assert played.result.entry == entry()


def test_the_stores_word_of_another_grant_costs_nothing_and_grants_nothing() -> None:
    """It may be of an earlier attempt of the same call, whose mailbox it is."""
    waits = [Granted("q/id-0"), Granted("a"), Gone("a")]
    played = acquired(Enqueue=snapshot("a"), Watch=True, Wait=waits, Check=Checked(True, frozenset()))
    assert middle(played) == ["Emit", "Watch", "Wait", "Wait", "Wait", "Check"]


def test_a_grant_that_a_renewal_contradicts_has_it_queue_again() -> None:
    at = session()
    script = Script(
        Attach=at,
        Admit=[SessionLost(REMOVED), admitted(at)],
        Enqueue=[snapshot("a"), snapshot()],
        Watch=True,
        Wait=Granted(entry().ref),
    )
    played = play(acquire(attempt()), script)
    assert played.abandoned == [ticket(1)]
    assert played.events == ["lock.queued", "lock.requeued", "lock.acquired"]
    assert played.result.labels["attempt"] == 2


def test_one_that_queues_again_is_told_its_place_again_also_if_it_is_the_same() -> None:
    told = list[int]()
    played = play(
        acquire(replace(attempt(), on_position=told.append)),
        Script(Attach=session(), Enqueue=snapshot("a"), Watch=True, Wait=[SessionLost(REMOVED), Expired()]),
    )
    assert played.events == ["lock.queued", "lock.requeued", "lock.queued", "lock.timeout"]
    assert told == [1, 1]


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_a_grant_that_has_to_be_confirmed_is_none_before(waits: bool) -> None:
    first = replace(snapshot("a") if waits else snapshot(), to_confirm=True)
    answers = {"Watch": True, "Wait": Granted(entry().ref)} if waits else {}
    played = acquired(Enqueue=first, Confirm=snapshot(), **answers)
    assert middle(played) == [*(["Emit", "Watch", "Wait"] if waits else []), "Confirm"]
    assert played.only(Confirm) == Confirm(entry(), EXCLUSIVE)


def test_one_that_is_gone_when_it_is_confirmed_queues_again() -> None:
    at, first = session(), replace(snapshot(), to_confirm=True)
    gone = Snapshot(None, (), complete=True, position=0)
    script = Script(Attach=at, Enqueue=first, Confirm=[gone, snapshot()], Admit=admitted(at))
    played = play(acquire(attempt()), script)
    assert played.events == ["lock.requeued", "lock.acquired"]
    assert played.abandoned == [ticket(1)]


def test_one_behind_somebody_where_it_is_confirmed_waits_on() -> None:
    """Another server has taken over, where what seemed to have ended is renewed."""
    played = acquired(
        Enqueue=replace(snapshot(), to_confirm=True),
        Confirm=[snapshot("a"), snapshot()],
        Watch=True,
        Wait=Gone("a"),
        Check=Checked(mine=True, present=frozenset()),
    )
    assert middle(played) == ["Confirm", "Emit", "Watch", "Wait", "Check", "Confirm"]


def test_of_a_semaphore_what_somebody_blocks_where_it_is_confirmed_gets_no_mark() -> None:
    """By the mark those behind would take it for one that holds."""
    rule, first = semaphore(1, 1), replace(snapshot(), to_confirm=True)
    ahead = tuple(Contender(f"q/{name}", name, rule.kind) for name in "ba")
    blocked = Snapshot(entry(), ahead, complete=True, position=2)
    script = Script(Attach=session(), Enqueue=first, Confirm=blocked, Watch=True, Wait=Expired())
    played = play(acquire(attempt(rule, 1.0)), script)
    assert isinstance(played.error, LockTimeout)
    assert played.kinds[2:6] == ["Enqueue", "Confirm", "Emit", "Watch"]
    played = acquired(rule, Enqueue=first, Confirm=snapshot(), Rewrite=1)
    assert middle(played) == ["Confirm", "Rewrite"]


def test_one_that_does_not_queue_confirms_what_it_has_too() -> None:
    at, first = session(), replace(snapshot(), to_confirm=True)
    script = Script(Attach=at, Probe=first, Confirm=snapshot(), Admit=admitted(at))
    played = play(try_acquire(attempt()), script)
    assert played.kinds == ["Now", "Attach", "Probe", "Confirm", *TAIL]


def test_one_that_does_not_queue_leaves_if_somebody_blocks_where_it_is_confirmed() -> None:
    first = replace(snapshot(), to_confirm=True)
    script = Script(Attach=session(), Probe=first, Confirm=snapshot("a"), Withdraw=True)
    played = play(try_acquire(attempt()), script)
    assert played.kinds == ["Now", "Attach", "Probe", "Confirm", "Withdraw"]
    assert played.result is None


def test_a_view_that_is_due_is_looked_at_again_then_and_what_is_watched_stays_so() -> None:
    """The blocker may be there still, and not count any more: reading it alone would not show that."""
    played = acquired(
        Enqueue=replace(snapshot("a"), due_s=3.0),
        Watch=True,
        Wait=None,
        Look=[replace(snapshot("a"), due_s=2.0), replace(snapshot("a"), due_s=None), snapshot()],
        Check=Checked(False, frozenset()),
        Now=[100.0, 101.0, 104.0, 110.0],
    )
    looks = ["Wait", "Look", "Now", "Wait", "Look", "Wait", "Check", "Look"]
    assert middle(played) == ["Now", "Emit", "Watch", *looks]
    assert [op.due_at for op in played.ops if isinstance(op, Wait)] == [104.0, 106.0, None]
    assert [op.targets for op in played.ops if isinstance(op, Look)] == [others("a"), others("a"), ()]


def test_what_concerns_nobody_watched_does_not_put_off_the_next_look() -> None:
    played = acquired(
        Enqueue=replace(snapshot("a"), due_s=3.0),
        Watch=True,
        Wait=[Gone("x"), Changed("y"), None],
        Look=snapshot(),
    )
    assert [op.due_at for op in played.ops if isinstance(op, Wait)] == [103.0, 103.0, 103.0]
    assert middle(played) == ["Now", "Emit", "Watch", "Wait", "Wait", "Wait", "Look"]


def test_behind_its_own_client_it_waits_for_that_and_then_looks_when_it_is_due() -> None:
    played = acquired(
        Enqueue=replace(snapshot("a"), due_s=3.0, by_time=True),
        Watch=True,
        BehindOwn=[True, False],
        Wait=[LocallyGone("own"), None],
        Look=snapshot(),
    )
    assert [op.due_at for op in played.ops if isinstance(op, Wait)] == [None, 103.0]
    asked = [op for op in played.ops if isinstance(op, BehindOwn)]
    assert asked == [BehindOwn(entry(), EXCLUSIVE, others("a"))] * 2


def test_one_that_tells_its_position_looks_by_time_all_the_same() -> None:
    asked, at = attempt(), session()
    asked.on_position = [].append
    script = Script(
        Attach=at,
        Admit=admitted(at),
        Enqueue=replace(snapshot("a"), due_s=3.0, by_time=True),
        Watch=True,
        Wait=None,
        Look=snapshot(),
    )
    played = play(acquire(asked), script)
    assert middle(played) == ["Now", "Emit", "Watch", "Wait", "Look"]


def test_a_due_look_that_finds_another_ahead_watches_that() -> None:
    played = acquired(
        Enqueue=replace(snapshot("a"), due_s=3.0),
        Watch=True,
        Wait=[None, Gone("b")],
        Look=replace(snapshot("b"), due_s=5.0),
        Check=Checked(True, frozenset()),
    )
    assert middle(played) == ["Now", "Emit", "Watch", "Wait", "Look", "Now", "Watch", "Wait", "Check"]
    assert [op.targets for op in played.ops if isinstance(op, Watch)] == [others("a"), others("b")]


# The session goes: again from the tail.


@pytest.mark.parametrize(
    "answers",
    [
        {"Enqueue": [SessionLost("gone"), snapshot()]},
        {"Enqueue": [GONE, snapshot()]},
        {"Enqueue": [snapshot("a"), snapshot()], "Watch": SessionLost("gone")},
        {"Enqueue": [snapshot("a"), snapshot()], "Watch": False, "Look": GONE},
        {"Enqueue": [snapshot("a"), snapshot()], "Watch": True, "Wait": SessionLost("gone")},
        {
            "Enqueue": [snapshot("a"), snapshot()],
            "Watch": True,
            "Wait": Gone("a"),
            "Check": SessionLost("gone"),
        },
        {
            "Enqueue": [snapshot("a"), snapshot()],
            "Watch": True,
            "Wait": None,
            "Check": Checked(False, frozenset()),
            "Look": GONE,
        },
    ],
    ids=["enqueue", "not there", "watch", "look", "wait", "check", "removed"],
)
def test_queued_again_under_a_new_name(answers: Any) -> None:
    at = session()
    played = play(acquire(attempt()), Script(Attach=at, Admit=admitted(at), **answers))
    assert played.result.entry == entry()
    assert played.abandoned == [ticket(1)]
    assert [op.ticket for op in played.ops if isinstance(op, Enqueue)] == [ticket(1), ticket(2)]
    requeued = next(
        op.transition for op in played.ops if isinstance(op, Emit) and "requeued" in op.transition.event
    )
    assert requeued.reason in ("gone", REMOVED)
    assert requeued.attempt == 1
    assert played.result.labels["attempt"] == 2
    assert played.events[-1] == "lock.acquired"


def test_one_that_queues_again_may_have_another_rule() -> None:
    """A member under an id of its own: from then on its contender of the session before may stand ahead."""
    at = session()
    answers = Script(Attach=at, Enqueue=[GONE, GONE, snapshot()], Admit=admitted(at))
    played = play(acquire(replace(attempt(), rule_again=EVERYBODY)), answers)
    rules = [op.rule for op in played.ops if isinstance(op, Enqueue)]
    assert rules == [EXCLUSIVE, EVERYBODY, EVERYBODY]


def test_a_grant_that_came_too_late_is_none() -> None:
    at = session()
    grant = admitted(at)
    answers = [SessionLost("not renewed"), grant]
    played = play(acquire(attempt()), Script(Attach=at, Enqueue=snapshot(), Admit=answers))
    assert played.abandoned == [ticket(1)]
    assert played.events == ["lock.requeued", "lock.acquired"]


def test_a_log_that_blocks_for_longer_than_the_session_lasts_grants_nothing() -> None:
    """The record of the grant is written before the caller has it."""
    at, later = session(), session(sent_at=200.0)
    holds: list[HeldState] = []

    def admit(op: Any) -> HeldState:
        holds.append(admitted(later if holds else at, now=200.0 if holds else 100.0)(op))
        return holds[-1]

    played = play(
        acquire(attempt()),
        Script(Attach=[at, later], Enqueue=snapshot(), Admit=admit, Now=[100.0, 113.5, 200.0]),
    )
    assert played.events == ["lock.acquired", "lock.lost", "lock.requeued", "lock.acquired"]
    assert played.abandoned == [ticket(1)]
    assert (holds[0].reason, at.ended, at.holds) == (NOT_RENEWED, NOT_RENEWED, {})
    assert played.result is holds[1]
    assert played.result.reason is None


def test_the_wait_for_a_session_is_part_of_the_call() -> None:
    at = session()
    played = play(
        acquire(attempt()), Script(Attach=[SessionLost("closed"), at], Enqueue=snapshot(), Admit=admitted(at))
    )
    assert played.kinds == ["Now", "Attach", "Abandon", "Emit", "Attach", "Enqueue", *TAIL]


def test_queueing_again_may_be_forbidden() -> None:
    at = session()
    script = {"Enqueue": [SessionLost("earlier"), snapshot("a")], "Watch": True, "Wait": SessionLost("gone")}
    wanted = replace(attempt(), requeues=False)
    played = play(acquire(wanted), Script(Attach=at, **script))
    assert isinstance(played.error, SessionLost)
    assert (played.error.reason, played.error.lock) == ("gone", "q")
    assert played.abandoned == [ticket(1), ticket(2)]
    assert played.events == ["lock.requeued", "lock.queued", "lock.cancelled"]  # no place was lost at first


@pytest.mark.parametrize("requeues", [True, False])
@pytest.mark.parametrize("reason", [CLOSED, REMOVED, "expired"])
@pytest.mark.parametrize("asked", ["Enqueue", "Watch", "Wait", "Look"])
def test_one_whose_client_is_closed_amid_a_request_does_not_queue_again(
    asked: str, reason: str, requeues: bool
) -> None:
    """Whatever the store says then of a session that is being ended."""
    at = session()

    def close(op: Any) -> SessionLost:
        at.ended = CLOSED
        return SessionLost(reason)

    answers = {"Enqueue": snapshot("a"), "Watch": True, "Wait": Changed("a"), asked: close}
    played = play(acquire(replace(attempt(), requeues=requeues)), Script(Attach=at, **answers))
    assert isinstance(played.error, ClientClosed)
    assert played.abandoned == [ticket(1)]
    assert played.events == [*([] if asked == "Enqueue" else ["lock.queued"]), "lock.cancelled"]
    assert played.told[-1].reason == "ClientClosed"


def test_one_whose_client_is_closed_as_its_grant_is_reported_does_not_queue_again() -> None:
    at = session()
    grant = admitted(at)
    holds: list[HeldState] = []
    played = play(
        acquire(attempt()),
        Script(
            Attach=at,
            Enqueue=snapshot(),
            Admit=lambda op: (holds.append(grant(op)), holds[0])[1],
            Emit=lambda op: holds[0].release(100.0) and None,
        ),
    )
    assert isinstance(played.error, ClientClosed)
    assert played.events == ["lock.acquired", "lock.cancelled"]


def test_what_did_not_have_to_wait_has_lost_no_place() -> None:
    """Where a session's end shows only as its grant is confirmed, the next finds the same queue."""
    at, first = session(), replace(snapshot(), to_confirm=True)
    script = Script(Attach=at, Enqueue=first, Confirm=[SessionLost("gone"), snapshot()], Admit=admitted(at))
    played = play(acquire(replace(attempt(), requeues=False)), script)
    assert played.events == ["lock.requeued", "lock.acquired"]
    assert played.abandoned == [ticket(1)]


def test_a_place_that_was_waited_in_is_lost_where_its_grant_is_confirmed() -> None:
    script = Script(
        Attach=session(),
        Enqueue=replace(snapshot("a"), to_confirm=True),
        Watch=True,
        Wait=Granted(entry().ref),
        Confirm=SessionLost("gone"),
    )
    played = play(acquire(replace(attempt(), requeues=False)), script)
    assert isinstance(played.error, SessionLost)
    assert played.events == ["lock.queued", "lock.cancelled"]
    assert played.abandoned == [ticket(1)]


# The bound on waiters.


def bounded(max_waiters: int, look: Snapshot, **answers: Any) -> Played:
    at = session()
    script = {"Enqueue": snapshot("b", "a", complete=False), "Watch": True, "Look": look, **answers}
    wanted = replace(attempt(), max_waiters=max_waiters)
    return play(acquire(wanted), Script(Attach=at, Admit=admitted(at), **script))


def test_as_many_wait_as_may_and_it_leaves() -> None:
    played = bounded(2, snapshot("c", "b", "a"), Withdraw=True)
    assert isinstance(played.error, QueueFull)
    assert (played.error.lock, played.error.max_waiters, played.error.position) == ("q", 2, 3)
    assert played.only(Withdraw) == Withdraw(ticket(1), entry())
    assert played.only(Look) == Look(entry(), EVERYBODY, ())
    assert played.abandoned == []
    assert played.events == ["lock.queued", "lock.cancelled"]


def test_what_cannot_be_withdrawn_is_left_to_the_cleaner() -> None:
    played = bounded(1, snapshot("b", "a"), Withdraw=StoreRefused("s", "no"))
    assert isinstance(played.error, StoreRefused)
    assert played.abandoned == [ticket(1)]


def test_with_room_it_looks_once_and_waits() -> None:
    gone = {"Wait": [None, Gone("a")], "Check": [Checked(True, frozenset("a")), Checked(True, frozenset())]}
    played = bounded(2, snapshot("b", "a"), Enqueue=snapshot("a"), **gone)
    assert middle(played) == ["Emit", "Watch", "Look", "Wait", "Check", "Wait", "Check"]


def test_one_that_is_not_there_any_more_queues_again() -> None:
    played = bounded(2, GONE, Enqueue=[snapshot("a"), snapshot()])
    assert played.events == ["lock.queued", "lock.requeued", "lock.acquired"]


def test_who_need_not_wait_does_not_ask_how_many_do() -> None:
    assert middle(bounded(0, GONE, Enqueue=snapshot())) == []


# Out of time.


def test_timeout_says_how_long_and_how_far() -> None:
    cause = StoreUnavailable("db:1", "silent")
    expired = Expired()
    expired.__cause__ = cause
    played = play(
        acquire(attempt(timeout_s=2.5)),
        Script(Attach=session(), Enqueue=snapshot("a"), Watch=True, Wait=expired),
    )
    assert isinstance(played.error, LockTimeout)
    assert (played.error.lock, played.error.timeout_s, played.error.position) == ("q", 2.5, 1)
    assert played.error.__cause__ is cause
    assert played.events == ["lock.queued", "lock.timeout"]
    assert played.abandoned == [ticket(1)]


def test_events_say_how_long_it_waited_since_it_began() -> None:
    at, times = session(), [100.0, 103.0]
    answers: dict[str, Any] = {"Attach": at, "Enqueue": snapshot("a"), "Watch": True, "Wait": Expired()}
    over = play(acquire(attempt(timeout_s=2.5)), Script(Now=times, **answers))
    assert (over.events[-1], over.told[-1].waited_s) == ("lock.timeout", 3.0)
    granted = Script(Attach=at, Enqueue=snapshot(), Admit=admitted(at, now=101.5))
    done = play(acquire(attempt()), granted)
    assert (done.events[-1], done.told[-1].waited_s) == ("lock.acquired", 1.5)


def test_timeout_before_the_store_ever_answered() -> None:
    played = play(acquire(attempt(timeout_s=1)), Script(Attach=Expired()))
    assert isinstance(played.error, LockTimeout)
    assert played.error.position is None
    assert played.abandoned == [ticket(1)]


# Try.


def tried(**answers: Any) -> Played:
    at = session()
    return play(try_acquire(attempt()), Script(Attach=at, Admit=admitted(at), **answers))


def test_try_takes_what_is_free() -> None:
    played = tried(Probe=snapshot())
    assert played.kinds == ["Now", "Attach", "Probe", *TAIL]
    assert played.only(Probe) == Probe(ticket(1), EXCLUSIVE)
    assert played.result.entry == entry()


def test_try_leaves_what_is_held_without_a_trace() -> None:
    played = tried(Probe=None)
    assert played.kinds == ["Now", "Attach", "Probe"]
    assert (played.result, played.error, played.events) == (None, None, [])


@pytest.mark.parametrize("seen", [snapshot("a"), GONE], ids=["too late", "not there"])
def test_try_withdraws_what_did_not_grant(seen: Any) -> None:
    played = tried(Probe=seen, Withdraw=True)
    assert played.result is None
    assert played.only(Withdraw) == Withdraw(ticket(1), seen.mine)


@pytest.mark.parametrize("seen", [snapshot("a"), GONE], ids=["too late", "not there"])
def test_try_that_cannot_withdraw_is_no_grant_and_leaves_it_to_the_cleaner(seen: Any) -> None:
    silent = StoreUnavailable("db:1", "silent")
    played = tried(Probe=seen, Withdraw=silent)
    assert played.kinds == ["Now", "Attach", "Probe", "Withdraw", "Abandon"]
    assert (played.result, played.error) == (None, silent)
    assert played.abandoned == [ticket(1)]


def test_try_is_shared_beside_readers() -> None:
    rule = Rule("R", depth=1, exclusive_only=True)
    at = session()
    reader = Snapshot(entry(), (Contender("r", kind="R"),), complete=True, position=1)
    played = play(try_acquire(attempt(rule)), Script(Attach=at, Probe=reader, Admit=admitted(at)))
    assert played.result.entry == entry()


def test_try_out_of_time_names_the_last_lost_answer() -> None:
    expired = Expired()
    expired.__cause__ = StoreUnavailable("db:1", "silent")
    played = tried(Probe=expired)
    assert played.error is expired.__cause__
    assert played.abandoned == [ticket(1)]
    assert isinstance(tried(Probe=Expired()).error, StoreUnavailable)


# Release, verify, open.


def hold() -> HeldState:
    return HeldState(entry(), session(), "owner", 90.0, {**LABELS, "attempt": 1})


def released() -> HeldState:
    """One that its caller has ended, as `release` assumes."""
    held = hold()
    assert held.release(100.0)
    return held


def test_release_deletes_the_own_contender() -> None:
    played = play(release(released()), Script(Withdraw=True))
    assert played.kinds == ["Withdraw", "Now", "Emit"]
    assert played.only(Withdraw) == Withdraw(ticket(1), entry())
    assert (played.result, played.events) == (True, ["lock.released"])
    assert played.only(Emit).transition.held_s == 10.0


@pytest.mark.parametrize(
    ("answer", "reason"), [(False, REMOVED), (SessionLost("expired"), "expired")], ids=["removed", "session"]
)
def test_release_of_what_was_lost_before_is_a_loss(answer: Any, reason: str) -> None:
    held = hold()
    assert held.release(100.0)
    played = play(release(held), Script(Withdraw=answer))
    assert played.kinds == ["Withdraw", "Emit"]
    told = played.only(Emit).transition
    assert (told.event, told.reason, told.token) == ("lock.lost", reason, 7)
    assert (played.result, held.released, held.reason, held.lost(100.0)) == (False, False, reason, reason)


@pytest.mark.parametrize("reason", [CLOSED, NOT_RENEWED])
@pytest.mark.parametrize("answers", ["removed", "session"])
def test_release_in_time_stands_where_this_client_ends_the_session_then(answers: str, reason: str) -> None:
    held = released()
    held.session.ended = reason  # while the store was asked
    played = play(release(held), Script(Withdraw=False if answers == "removed" else SessionLost(reason)))
    assert (played.kinds, played.events) == (["Withdraw", "Now", "Emit"], ["lock.released"])
    assert (played.result, held.released, held.reason) == (True, True, None)


@pytest.mark.parametrize(
    ("error", "result"),
    [(StoreUnavailable("s", "x"), True), (StoreRefused("s", "x"), True), (Expired(), True)],
)
def test_release_leaves_to_the_cleaner_what_it_cannot_settle(error: Any, result: Any) -> None:
    played = play(release(released()), Script(Withdraw=error))
    assert played.kinds == ["Withdraw", "Abandon", "Now", "Emit"]
    assert played.abandoned == [ticket(1)]
    assert played.result is result


def test_verify_is_the_stores_word() -> None:
    played = play(verify(hold()), Script(Check=Checked(True, frozenset())))
    assert played.ops == [Check(entry())]
    assert played.result is True


def test_verify_of_a_contender_that_is_gone_is_a_loss() -> None:
    held = hold()
    played = play(verify(held), Script(Check=Checked(False, frozenset())))
    assert played.kinds == ["Check", "Emit", "Abandon"]
    assert (played.events, played.abandoned) == (["lock.lost"], [ticket(1)])
    assert (played.result, held.reason) == (False, REMOVED)


def test_verify_while_another_thread_released() -> None:
    held = hold()
    held.release(100.0)
    played = play(verify(held), Script(Check=Checked(False, frozenset())))
    assert (played.kinds, played.result, held.reason) == (["Check"], False, None)


def test_verify_with_the_session_gone() -> None:
    assert play(verify(hold()), Script(Check=SessionLost("x"))).result is False


def test_verify_without_an_answer_raises_an_error_of_the_package() -> None:
    assert isinstance(play(verify(hold()), Script(Check=Expired())).error, StoreUnavailable)
    unavailable = StoreUnavailable("s", "x")
    assert play(verify(hold()), Script(Check=unavailable)).error is unavailable


def test_open_waits_for_a_session() -> None:
    played = play(open_session(), Script(Attach=session()))
    assert (played.kinds, played.result) == (["Attach"], None)
    assert isinstance(play(open_session(), Script(Attach=Expired())).error, StoreUnavailable)


def test_places_are_what_the_store_confirmed() -> None:
    other = Entry(ticket(1), "elsewhere", 9)
    assert acquired(Enqueue=snapshot(mine=other)).result.entry is other


# Downgrade.


def test_downgrade_is_the_stores_word() -> None:
    held = hold()
    played = play(downgrade(held), Script(Rewrite=1))
    assert played.ops[0] == Rewrite(entry(), DOWNGRADED)
    assert (played.kinds, played.events) == (["Rewrite", "Now", "Emit"], ["lock.downgraded"])
    told = played.only(Emit).transition
    assert (told.token, told.mode, told.held_s) == (7, "shared", 10.0)
    assert (played.result, held.mark, held.mode, held.ended) == (True, DOWNGRADED, "shared", False)


def test_downgrade_of_a_contender_that_is_gone_is_a_loss() -> None:
    held = hold()
    played = play(downgrade(held), Script(Rewrite=None))
    assert (played.result, played.events, held.reason) == (False, ["lock.lost"], REMOVED)
    assert played.abandoned == [ticket(1)]
    assert not held.mark


def test_downgrade_while_another_thread_released() -> None:
    held = hold()
    held.release(100.0)
    played = play(downgrade(held), Script(Rewrite=None))
    assert (played.kinds, played.result, held.reason) == (["Rewrite"], False, None)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Expired(), StoreUnavailable),
        (StoreUnavailable("s", "x"), StoreUnavailable),
        (StoreRefused("s", "x"), StoreRefused),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_downgrade_without_an_answer_counts_as_shared_and_may_be_asked_again(error: Any, raised: Any) -> None:
    held = hold()
    played = play(downgrade(held), Script(Rewrite=error))
    assert isinstance(played.error, raised)
    assert (held.mode, held.mark, held.ended) == ("shared", "", False)
    assert played.abandoned == []
    assert play(downgrade(held), Script(Rewrite=1)).result is True


def test_downgrade_with_the_session_gone() -> None:
    held = hold()
    assert play(downgrade(held), Script(Rewrite=SessionLost("x"))).result is False
    assert not held.mark


# Looking from outside.


def test_each_queue_has_a_time_of_its_own() -> None:
    there, nobody = Listing(others("b")), Listing(())
    script = Script(Attach=session(), Queues=("x", "no%name", "y%20z"), Allow=None, List=[there, nobody])
    played = play(look_at_all(5, 7, 2.0), script)
    assert played.result == {"x": there, "y z": nobody}
    assert [op for op in played.ops if not isinstance(op, Attach)] == [
        Queues(5),
        *(step for queue in ("x", "y%20z") for step in (Allow(2.0), List(queue, 7))),
    ]


def test_the_names_alone_are_one_request() -> None:
    played = play(look_at_all(5, 0, 2.0), Script(Attach=session(), Queues=("x", "no%name", "y%20z")))
    assert played.result == {"x": Listing(()), "y z": Listing(())}
    assert played.kinds == ["Attach", "Queues"]


def test_a_look_is_asked_again_on_the_next_session() -> None:
    played = play(look_up(List("q", 5)), Script(Attach=session(), List=[SessionLost("revoked"), Listing(())]))
    assert played.kinds == ["Attach", "List", "Attach", "List"]
    assert played.result == Listing(())


def evicting(*answers: Any, lists: int = 1) -> Played:
    found = [Listing((Contender("q/4", token=4), Contender("q/5", token=5)))] * lists
    return play(evict("q", 5, 9), Script(Attach=session(), List=found, Evict=list(answers)))


def test_the_contender_with_the_token_is_evicted() -> None:
    played = evicting(True)
    assert played.kinds == ["Attach", "List", "Evict"]
    assert played.result is True
    assert play(evict("q", 6, 9), Script(Attach=session(), List=[Listing(())])).result is False


def test_an_eviction_is_asked_again_on_the_next_session() -> None:
    played = evicting(SessionLost("revoked"), False, lists=2)
    assert played.kinds == ["Attach", "List", "Evict"] * 2
    assert played.result is False


def test_an_eviction_without_an_answer_is_unavailable() -> None:
    assert isinstance(evicting(Expired()).error, StoreUnavailable)


def test_a_look_without_an_answer_is_unavailable() -> None:
    played = play(look_up(List("q", 5)), Script(Attach=session(), List=Expired()))
    assert isinstance(played.error, StoreUnavailable)


def test_a_release_that_does_not_wait_is_the_cleaners() -> None:
    at = session()
    hold = admitted(at)(Admit(entry(), {"name": "q", "recipe": "rwlock", "mode": "exclusive"}))
    hold.release(101.0)
    played = play(release(hold, wait=False), Script())
    assert played.kinds == ["Abandon", "Now", "Emit"]
    assert played.events == ["lock.released"]
    assert played.result is True


def test_a_downgrade_waits_for_what_its_client_released_before() -> None:
    at = session()
    before, mine = entry(9, token=5), entry()
    at.waiters.stand(before.ticket.id)
    at.waiters.freed(before)
    hold = admitted(at)(Admit(mine, {"name": "q", "recipe": "rwlock", "mode": "exclusive"}))

    def gone(op: Any) -> LocallyGone:
        at.waiters.gone(before.ticket.id)
        return LocallyGone(before.ref)

    played = play(downgrade(hold), Script(Watch=True, Wait=[HandedOn(before.ref), gone], Rewrite=1))
    assert played.kinds == ["Watch", "Wait", "Wait", "Rewrite", "Now", "Emit"]
    assert played.only(Watch).targets == (Contender(before.ref, before.ticket.id),)
    assert played.result is True


def test_a_trial_that_is_dropped_says_nothing_of_its_end() -> None:
    ends: list[str] = []

    def tell_end(what: str, **_: Any) -> Any:
        ends.append(what)
        yield from ()

    dropped = at_once(try_acquire(attempt()), tell_end)
    next(dropped)
    dropped.close()
    assert ends == []
