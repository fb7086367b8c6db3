from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.wakeups import Event
from recipes._programs.hold import NOT_RENEWED, HeldState
from recipes._programs.lease import SHORTEST_RENEWAL_S, SessionClock
from recipes._programs.session import OpenFailed, SessionEvent, SessionState
from recipes.errors import ClientClosed, StoreUnavailable
from tests.programs.stepping import entry, session
from tests.programs.test_keep import Mailbox


def times(clock: SessionClock) -> tuple[float, float, float]:
    return clock.due, clock.suspect_at, clock.deadline


@pytest.mark.parametrize(
    ("ttl_s", "per_ttl", "due", "suspect_at", "deadline"),
    [
        (15.0, 3, 105.0, 111.25, 113.5),  # etcd: 10 % of the TTL before its end
        (15.0, 7, 100 + 15 / 7, 100 + 33.75 / 7, 113.5),  # ZooKeeper
        (30.0, 3, 110.0, 122.5, 127.0),
        (2.0, 3, 100 + 2 / 3, 101.5, 101.5),  # at least half a second before
        (4.0, 7, 100 + 4 / 7, 100 + 9 / 7, 103.5),
        (0.3, 3, 100.1, 99.8, 99.8),  # shorter than the margin: never proven
    ],
)
def test_table_of_times(ttl_s: float, per_ttl: Any, due: Any, suspect_at: Any, deadline: Any) -> None:
    clock = SessionClock(ttl_s, 100.0, per_ttl=per_ttl)
    assert times(clock) == pytest.approx((due, suspect_at, deadline))
    assert clock.ttl_s == ttl_s
    assert clock.interval_s == pytest.approx(ttl_s / per_ttl)


@pytest.mark.parametrize(
    ("lag", "deadlines"),
    [
        (0.0, [113.5, 118.5, 123.5, 128.5]),
        (2 / 15, [113.5, 113.5, 118.5, 123.5]),
    ],
    ids=["the last confirmed", "one answered 2 s before it was sent"],
)
def test_deadlines_count_from_the_sending(lag: Any, deadlines: Any) -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3, lag=lag)
    seen = [clock.deadline]
    for sent_at in (105.0, 110.0, 115.0):
        assert clock.on_renewed(sent_at, 15.0, now=sent_at + 3.0)
        seen.append(clock.deadline)
        assert clock.due == sent_at + 5.0
    assert seen == deadlines


def test_a_renewal_is_left_after_twice_what_the_last_answer_took() -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3)
    assert clock.patience_s == SHORTEST_RENEWAL_S
    assert clock.on_renewed(105.0, 15.0, now=106.0)
    assert (clock.patience_s, clock.deadline) == (2.0, 118.5)
    assert clock.cut_at(108.0, wanted_at=108.5) == 110.0
    assert clock.cut_at(108.0, wanted_at=111.0) == 111.0
    assert clock.cut_at(108.0, wanted_at=111.1) == math.inf, "another could not be waited for"
    clock.on_cut(110.0)
    assert (clock.patience_s, clock.due) == (4.0, 110.0)
    assert clock.on_renewed(110.0, 15.0, now=110.01)
    assert clock.patience_s == SHORTEST_RENEWAL_S


def test_after_a_gap_the_last_one_before_it_counts() -> None:
    clock = SessionClock(8.0, 100.0, per_ttl=8, lag=1 / 4)
    for sent_at in (101.0, 102.0, 103.0):
        clock.on_renewed(sent_at, 8.0, sent_at)
    assert clock.counted == 101.0
    clock.on_renewed(106.0, 8.0, 106.0)
    assert clock.counted == 103.0
    assert clock.deadline == 103.0 + 8.0 - 0.8


def test_one_that_is_behind_counts_from_its_answer_not_from_its_sending() -> None:
    """It may have arrived as late as it was answered, and what arrives is passed on later still."""
    clock = SessionClock(8.0, 100.0, per_ttl=8, lag=1 / 4)
    clock.on_renewed(101.0, 8.0, 103.0)
    clock.on_renewed(103.5, 8.0, 103.5)
    assert clock.counted == 100.0, "it was sent 2.5 s before the last, and answered 0.5 s before"
    clock.on_renewed(105.0, 8.0, 105.0)
    assert clock.counted == 101.0


@given(st.floats(2.0, 300.0), st.lists(st.floats(0.0, 0.3), min_size=4, max_size=12))
def test_however_slow_the_answers_the_last_but_two_counts(ttl_s: float, answers: Any) -> None:
    clock = SessionClock(ttl_s, 0.0, per_ttl=7, lag=1.1 / 4)
    sent = [0.0]
    for answer in answers:
        sent_at = clock.due
        assert sent_at >= sent[-1] + clock.interval_s - 1e-9
        if not clock.on_renewed(sent_at, ttl_s, sent_at + answer * ttl_s):
            break
        sent.append(sent_at)
        assert clock.counted >= sent[max(len(sent) - 3, 0)]


def test_on_a_beat_a_renewal_is_sent_up_to_a_quarter_of_an_interval_early() -> None:
    clocks = [SessionClock(15.0, sent_at, per_ttl=3, beat_at=100.3) for sent_at in (100.0, 101.0, 101.5)]
    assert [clock.due for clock in clocks] == pytest.approx([104.05, 105.3, 105.3])
    for clock in clocks:
        assert (clock.suspect_at, clock.deadline) == (clock.counted + 11.25, clock.counted + 13.5)
        clock.on_renewed(clock.due + 0.2, 15.0, clock.due + 0.21)
    assert [clock.due for clock in clocks] == pytest.approx([109.05, 110.3, 110.3])


@given(
    st.floats(2.0, 300.0),
    st.sampled_from([(3, 0.0), (7, 1.1 / 4)]),
    st.floats(0.0, 1000.0),
    st.lists(st.floats(0.0, 0.2), min_size=1, max_size=12),
)
def test_a_beat_hurries_renewals_a_little_and_delays_none(
    ttl_s: float, store: Any, beat_at: float, answers: Any
) -> None:
    per_ttl, lag = store
    clock = SessionClock(ttl_s, 0.0, per_ttl=per_ttl, lag=lag, beat_at=beat_at)
    sent_at = now = 0.0
    for answer in answers:
        latest = max(sent_at + clock.interval_s, now + lag * ttl_s / 2)
        assert latest - clock.interval_s / 4 - 1e-6 <= clock.due <= latest + 1e-6
        assert clock.due >= now + lag * ttl_s / 2 - 1e-6
        sent_at, now = clock.due, clock.due + answer * ttl_s
        if not clock.on_renewed(sent_at, ttl_s, now):
            break


def test_state_by_the_clock() -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3)
    table = [(100.0, "held"), (111.2, "held"), (111.25, "suspect"), (113.4, "suspect"), (113.5, "lost")]
    assert [(now, clock.state(now)) for now, _ in table] == table
    assert clock.state(1e9) == "lost"


@pytest.mark.parametrize("now", [113.5, 113.6, 1e9])
def test_a_late_renewal_is_refused_lost_stays_lost(now: float) -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3)
    before = times(clock)
    assert not clock.on_renewed(105.0, 15.0, now)
    assert times(clock) == before
    assert clock.state(now) == "lost"


def test_a_miss_plans_the_next_try_and_moves_nothing_else() -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3)
    clock.on_missed(106.0)
    assert times(clock) == (107.25, 111.25, 113.5)


def test_the_store_may_change_the_length() -> None:
    clock = SessionClock(15.0, 100.0, per_ttl=3)
    assert clock.on_renewed(105.0, 6.0, 105.1)
    assert times(clock) == pytest.approx((107.0, 109.5, 110.4))


@given(
    st.floats(2.0, 300.0),
    st.sampled_from([3, 7]),
    st.sampled_from([0.0, 1.1 / 4]),
    st.lists(st.floats(0.01, 0.5), max_size=8),
)
def test_the_deadline_never_outlives_what_the_store_promised(
    ttl_s: float, per_ttl: Any, lag: Any, steps: Any
) -> None:
    """With clock rates 10 % apart, the client gives up before the store may (A3)."""
    clock = SessionClock(ttl_s, 0.0, per_ttl=per_ttl, lag=lag)
    confirmed = [(0.0, 0.0)]
    now = 0.0
    for step in steps:
        sent_at, now = now, now + step * ttl_s
        if not clock.on_renewed(sent_at, ttl_s, now):
            break
        confirmed.append((sent_at, now))
    last = confirmed[-1][0]
    counting = [sent_at for sent_at, at in confirmed if at <= last - lag * ttl_s or not lag]
    assert clock.counted == max(counting, default=0.0)
    assert (clock.deadline - clock.counted) <= ttl_s * 0.9 + 1e-9 * max(now, 1)
    assert clock.suspect_at <= clock.deadline or lag


# Epoch.


def test_an_session_begins_with_what_the_store_granted() -> None:
    at = session(ttl_s=None)
    assert (at.remaining(0.0), at.id, at.reason) == (0.0, "", NOT_RENEWED)
    at.begin("abc", 15.0, 100.0)
    assert at.id == "abc"
    assert at.remaining(101.0) == 12.5
    assert at.remaining(113.5) == 0.0
    assert at.remaining(1e9) == 0.0


def test_whoever_sees_it_unproven_ends_it_for_everybody() -> None:
    at = session()
    clock = at.clock
    assert clock is not None
    assert at.remaining(113.4) > 0
    assert at.ended is None
    assert at.remaining(113.5) == 0.0
    assert at.ended == NOT_RENEWED
    assert clock.on_renewed(112.0, 15.0, 113.4), "a thread that read the clock before"
    assert at.remaining(113.4) == 0.0, "what was lost once stays lost"


def test_an_ended_session_proves_nothing() -> None:
    at = session()
    at.ended = "revoked"
    assert (at.remaining(100.0), at.reason) == (0.0, "revoked")


# Board.


def hold(at: Any, number: int = 1) -> HeldState:
    made = HeldState(entry(number), at, None, 100.0, {})
    at.holds[entry(number).ticket.id] = made
    return made


def state() -> tuple[SessionState, Mailbox]:
    made, mailbox = SessionState(), Mailbox()
    made.join(mailbox)
    return made, mailbox


def test_live_is_the_session_that_is_proven() -> None:
    made, _ = state()
    assert made.live(100.0) is None
    assert made.last is None
    at = session()
    made.started(at)
    assert made.live(100.0) is at
    assert made.last is at
    assert made.live(113.5) is None
    made.closed = "closed"
    with pytest.raises(ClientClosed):
        made.live(100.0)


def test_all_calls_are_told_until_they_leave() -> None:
    made, mailbox = state()
    other = Mailbox()
    made.join(other)
    made.join(other)
    made.started(session())
    made.leave(other)
    made.leave(other)
    error = StoreUnavailable("s", "x")
    made.failed(error)
    assert mailbox.events == [SessionEvent(), OpenFailed(error)]
    assert other.events == [SessionEvent()]


def test_a_start_ends_a_refusal() -> None:
    made, _ = state()
    made.refused = StoreUnavailable("s", "x")
    made.started(session())
    assert made.refused is None


def test_the_end_of_a_session_loses_its_grants_once() -> None:
    made, mailbox = state()
    at = session()
    made.started(at)
    one, two = hold(at, 1), hold(at, 2)
    two.release(100.0)
    assert made.ended(at, "why") == [one]
    assert (one.reason, two.reason, made.session, at.ended) == ("why", None, None, "why")
    assert made.ended(at, "again") == []
    assert one.reason == "why"
    assert mailbox.events == [SessionEvent()] * 3


def test_the_end_of_an_earlier_session_leaves_the_present_one() -> None:
    made, _ = state()
    at, later = session(), session()
    made.started(later)
    made.ended(at, "why")
    assert made.session is later
    assert made.last is later
    made.ended(later, "why")
    assert (made.session, made.last) == (None, later), "remembered, to say that it was lost"


def test_the_keepalive_loop_is_told_if_there_is_one() -> None:
    made, _ = state()
    made.wake_keepalive()
    made.keepalive = keepalive = Mailbox()
    made.wake_keepalive()
    assert keepalive.events == [SessionEvent()]


def test_events_are_values() -> None:
    assert SessionEvent() == SessionEvent()
    assert isinstance(OpenFailed(StoreUnavailable("s", "x")), Event)
