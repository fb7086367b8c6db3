"""The program that keeps a session, by a clock that only moves when it waits or asks."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract.deadline import Expired
from recipes._contract.operations import Entry, Open, Opened, Renew, Renewal
from recipes._contract.wakeups import Disturbed
from recipes._programs.hold import NOT_RENEWED, HeldState, StoreSession
from recipes._programs.lease import SHORTEST_RENEWAL_S
from recipes._programs.session import STILLBORN_S, OpenFailed, SessionEvent, SessionState, keep
from recipes._programs.steps import Abandon, Emit, Now, Wait
from recipes.errors import ClientClosed, SessionLost, StoreFull, StoreRefused, StoreUnavailable
from tests.programs.stepping import Played, Script, entry, play, session, ticket

TTL_S = 15.0
LABELS = {"name": "q", "recipe": "lock", "mode": "exclusive", "store": "memory://", "attempt": 1}


class Mailbox:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def post(self, event: Any) -> None:
        self.events.append(event)


class Keeping:
    """A keepalive loop, a board, and a clock; closes the client after so many answered renewals."""

    def __init__(self, renewals: int = 1, *, opened: Any = None, renew: Any = None) -> None:
        self._renewals = renewals
        self._opened = opened
        self._renew = renew
        self.reset()

    def reset(self) -> None:
        self.now = 100.0
        self.state = SessionState()
        self.call = Mailbox()
        self.state.join(self.call)
        self.sessions: list[StoreSession] = []
        self.left = self._renewals
        self.renewed_at: list[float] = []
        self.waits: list[float] = []
        self._opens = list(self._opened or [])
        self._answers = list(self._renew or [])
        self.at: dict[float, Any] = {}

    def program(self) -> Any:
        return keep(self.state, TTL_S, lambda: self.sessions[-1])

    def script(self) -> Script:
        return Script(Now=lambda op: self.now, Open=self.on_open, Renew=self.on_renew, Wait=self.on_wait)

    def run(self) -> Played:
        return play(self.program(), self.script(), most=2000)

    def on_open(self, op: Open) -> Any:
        assert op.ttl_s == TTL_S
        if self._opens:
            error = self._opens.pop(0)
            if error is not None:
                return error
        self.sessions.append(session(ttl_s=None))
        return Opened(f"s{len(self.sessions)}", TTL_S, sent_at=self.now)

    def on_wait(self, op: Wait) -> Any:
        assert op.at_most_s is not None
        assert op.at_most_s >= 0, "a wait is never negative"
        self.waits.append(op.at_most_s)
        self.now += op.at_most_s
        for when in sorted(at for at in self.at if at <= self.now):
            self.at.pop(when)()
        return None

    def on_renew(self, op: Renew) -> Any:
        assert op.within_s > 0
        self.renewed_at.append(self.now)
        if self._answers:
            answer = self._answers.pop(0)
            if isinstance(answer, Expired):
                self.now += op.within_s
                return answer
            if answer is not None:
                return answer(op) if callable(answer) else answer
        self.left -= 1
        if self.left <= 0:
            self.state.closed = "closed"
        return Renewal(TTL_S)

    def grant(self, number: int = 1, max_hold_s: float | None = None) -> HeldState:
        at = self.state.session
        assert at is not None
        held = HeldState(entry(number), at, "owner", self.now, LABELS, max_hold_s=max_hold_s)
        at.holds[ticket(number).id] = held
        return held


def losses(played: Played) -> list[tuple[str, str | None]]:
    return [(op.transition.event, op.transition.reason) for op in played.ops if isinstance(op, Emit)]


def test_it_renews_every_third_of_the_ttl_until_the_client_closes() -> None:
    keeping = Keeping(renewals=4)
    played = keeping.run()
    assert keeping.renewed_at == [105.0, 110.0, 115.0, 120.0]
    assert played.events == ["session.started"]
    assert played.abandoned == [], "whoever closes ends the session"
    assert keeping.state.session is keeping.sessions[0]
    assert keeping.call.events == [SessionEvent()]


def test_the_first_word_is_when_it_was_sent() -> None:
    keeping = Keeping(renewals=1)
    keeping.run()
    clock = keeping.sessions[0].clock
    assert clock is not None
    assert clock.deadline == 105.0 + TTL_S - 1.5


@pytest.mark.parametrize("granted_s", [6.0, 60.0])
def test_what_the_store_granted_last_counts(granted_s: float) -> None:
    keeping = Keeping(renewals=1, renew=[Renewal(granted_s), Renewal(granted_s)])
    keeping.run()
    clock = keeping.sessions[0].clock
    assert clock is not None
    second = 105.0 + granted_s / 3
    assert keeping.renewed_at == [105.0, second, second + granted_s / 3]


def test_the_session_ends_by_what_the_store_granted_last() -> None:
    keeping = Keeping(renewals=2, renew=[Renewal(6.0), *[StoreUnavailable("s", "x")] * 9])
    played = keeping.run()
    assert ("session.lost", NOT_RENEWED) in losses(played)
    assert keeping.renewed_at[1] == 107.0
    clock = keeping.sessions[0].clock
    assert clock is not None
    assert clock.deadline == pytest.approx(105.0 + 6.0 - 0.6)


def test_a_missed_renewal_is_tried_again_soon() -> None:
    keeping = Keeping(renewals=1, renew=[StoreUnavailable("s", "x"), None])
    keeping.run()
    assert keeping.renewed_at == [105.0, 106.25]


def test_doubt_is_told_once_and_again_after_it_was_lifted() -> None:
    misses = [StoreUnavailable("s", "x")] * 6
    keeping = Keeping(renewals=2, renew=[*misses, None, *misses, None])
    keeping.at[101.0] = keeping.grant
    played = keeping.run()
    assert played.events.count("session.suspect") == 2
    assert played.events.count("lock.suspect") == 2
    assert "session.lost" not in played.events


def test_silence_to_the_deadline_is_loss_by_the_local_clock() -> None:
    keeping = Keeping(renewals=1, renew=[Expired(), Expired(), Expired(), Expired(), Expired()])
    held: list[HeldState] = []
    keeping.at[101.0] = lambda: held.append(keeping.grant())
    closing = keeping.script()

    def script(op: Any) -> Any:
        if isinstance(op, Open) and keeping.sessions:
            keeping.state.closed = "closed"
            return ClientClosed()
        return closing(op)

    played = play(keeping.program(), script)
    lost_at = 100.0 + TTL_S - 1.5
    assert keeping.now == lost_at
    assert losses(played) == [
        ("session.started", None),
        ("session.suspect", None),
        ("lock.suspect", None),
        ("session.lost", NOT_RENEWED),
        ("lock.lost", NOT_RENEWED),
    ]
    assert held[0].reason == NOT_RENEWED
    assert keeping.sessions[0].ended == NOT_RENEWED
    assert played.abandoned == [None], "the whole session is to be ended on the store"
    kinds = played.kinds
    assert kinds.index("Abandon") < kinds.index("Emit", kinds.index("Abandon"))


def test_an_answer_that_comes_too_late_renews_nothing() -> None:
    keeping = Keeping(renewals=1)

    def late(op: Renew) -> Renewal:
        keeping.now += 100.0
        return Renewal(TTL_S)

    keeping._answers = [late]
    played = keeping.run()
    assert ("session.lost", NOT_RENEWED) in losses(played)
    assert len(keeping.sessions) == 2, "the next session was started"


def test_a_session_that_the_store_has_ended() -> None:
    keeping = Keeping(renewals=1, renew=[SessionLost("the lease has ended")])
    played = keeping.run()
    assert ("session.lost", "the lease has ended") in losses(played)
    assert played.events == ["session.started", "session.lost", "session.started"]
    assert keeping.state.session is keeping.sessions[1]


def test_the_start_of_a_session_is_told_before_any_call_can_use_it() -> None:
    """So that it comes first in every log, and the end of the session after it."""
    keeping = Keeping()
    script, seen = keeping.script(), []

    def looking(op: Any) -> Any:
        if isinstance(op, Emit) and op.transition.event == "session.started":
            seen.append((keeping.state.session, list(keeping.call.events)))
        return script(op)

    play(keeping.program(), looking)
    assert seen == [(None, [])]
    assert keeping.call.events


def stillborn(keeping: Keeping, lived_s: float = 0.0) -> Played:
    """The first session ends this long after it was asked for."""
    script = keeping.script()

    def end_the_first(op: Any) -> Any:
        if isinstance(op, Emit) and op.transition.event == "session.started" and len(keeping.sessions) == 1:
            keeping.now += lived_s
            keeping.sessions[0].ended = "revoked"
        return script(op)

    return play(keeping.program(), end_the_first, most=2000)


def test_after_a_session_that_hardly_lived_it_waits() -> None:
    keeping = Keeping(renewals=1)
    played = stillborn(keeping, STILLBORN_S / 2)
    assert played.events == ["session.started", "session.lost", "session.started"]
    assert keeping.waits[0] == STILLBORN_S
    assert keeping.renewed_at == [100.0 + STILLBORN_S * 1.5 + 5.0]
    assert played.kinds[:9] == ["Open", "Emit", "Now", "Abandon", "Emit", "Now", "Wait", "Now", "Open"]


def test_what_it_is_told_of_the_last_session_does_not_hurry_the_next() -> None:
    keeping = Keeping(renewals=1)
    wait, events = keeping.on_wait, [SessionEvent(), SessionEvent()]

    def told(op: Wait) -> Any:
        return events.pop() if events else wait(op)

    keeping.on_wait = told  # type: ignore[method-assign]
    stillborn(keeping)
    assert keeping.renewed_at == [100.0 + STILLBORN_S + 5.0]


def test_closed_while_it_waits_after_a_session_that_hardly_lived() -> None:
    keeping = Keeping()
    keeping.at[100.0 + STILLBORN_S] = lambda: setattr(keeping.state, "closed", "closed")
    assert stillborn(keeping).kinds.count("Open") == 1


def test_after_a_session_that_lived_it_starts_the_next_at_once() -> None:
    keeping = Keeping(renewals=1)
    stillborn(keeping, STILLBORN_S)
    assert keeping.renewed_at == [100.0 + STILLBORN_S + 5.0]


def test_a_renewal_that_comes_after_somebody_saw_the_deadline_revives_nothing() -> None:
    keeping = Keeping(renewals=1)

    def seen_meanwhile(op: Renew) -> Renewal:
        assert keeping.sessions[0].remaining(113.5) == 0.0  # by a thread with a later clock
        return Renewal(TTL_S)

    keeping._answers = [seen_meanwhile]
    played = keeping.run()
    assert ("session.lost", NOT_RENEWED) in losses(played)
    assert len(keeping.sessions) == 2


def test_a_session_that_somebody_else_found_ended() -> None:
    keeping = Keeping(renewals=1)
    keeping.at[103.0] = lambda: setattr(keeping.sessions[0], "ended", "expired, said the store")
    played = keeping.run()
    assert ("session.lost", "expired, said the store") in losses(played)


def test_a_held_contender_that_was_removed_is_told_and_withdrawn() -> None:
    keeping = Keeping(renewals=2)
    held: list[HeldState] = []
    keeping.at[101.0] = lambda: held.append(keeping.grant())
    keeping._answers = [lambda op: Renewal(TTL_S, missing=(*op.entries, entry(9)))]
    played = keeping.run()
    assert held[0].reason == "its contender was removed from the store"
    assert losses(played)[1:] == [("lock.lost", held[0].reason)]
    assert [op for op in played.ops if isinstance(op, Abandon)] == [Abandon(ticket(1), entry(1))]
    assert keeping.sessions[0].ended is None, "the session goes on"


def test_a_contender_missing_after_it_was_released_is_no_loss() -> None:
    keeping = Keeping(renewals=2)
    held: list[HeldState] = []
    keeping.at[101.0] = lambda: held.append(keeping.grant())

    def released_meanwhile(op: Renew) -> Renewal:
        found: tuple[Entry, ...] = op.entries
        held[0].release(keeping.now)
        keeping.sessions[0].holds[ticket(1).id] = held[0]  # as seen by a thread that read it before
        return Renewal(TTL_S, missing=found)

    keeping._answers = [released_meanwhile]
    played = keeping.run()
    assert "lock.lost" not in played.events
    assert played.abandoned == []


def test_the_renewal_looks_after_what_is_held() -> None:
    keeping = Keeping(renewals=1)
    keeping.at[101.0] = lambda: keeping.grant(3)
    played = keeping.run()
    assert played.only(Renew) == Renew((entry(3),), within_s=100.0 + 11.25 - 105.0)


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), StoreFull("s", "disk")])
def test_refused_it_waits_until_somebody_wants_a_session(error: Any) -> None:
    keeping = Keeping(renewals=1, opened=[error])
    keeping.at[100.0 + 3600.0] = lambda: None
    keeping.at[100.0 + 7200.0] = lambda: setattr(keeping.state, "refused", None)
    played = keeping.run()
    assert keeping.waits[:2] == [3600.0, 3600.0]
    assert played.events == ["session.started"]
    assert keeping.call.events == [OpenFailed(error), SessionEvent()]


def test_refused_and_closed() -> None:
    keeping = Keeping(opened=[StoreRefused("s", "no")])
    keeping.at[200.0] = lambda: setattr(keeping.state, "closed", "closed")
    played = keeping.run()
    assert played.kinds == ["Open", "Wait"]


def test_closed_before_it_began() -> None:
    keeping = Keeping()
    keeping.state.closed = "closed"
    assert keeping.run().ops == []


def test_closed_while_it_tried_to_open() -> None:
    keeping = Keeping(opened=[ClientClosed()])
    assert keeping.run().kinds == ["Open"]


def test_closed_while_it_waited() -> None:
    keeping = Keeping()
    keeping.at[103.0] = lambda: setattr(keeping.state, "closed", "closed")
    played = keeping.run()
    assert played.kinds == ["Open", "Emit", "Now", "Wait", "Now"]


def test_closed_and_ended_at_once_is_no_loss() -> None:
    keeping = Keeping()

    def close() -> None:
        keeping.state.closed = "closed"
        keeping.state.ended(keeping.sessions[0], "the client was closed")

    keeping.at[103.0] = close
    played = keeping.run()
    assert played.events == ["session.started"]


def test_between_renewals_it_reads_the_clock_and_waits() -> None:
    played = Keeping(renewals=2).run()
    assert played.kinds == ["Open", "Emit", *["Now", "Wait", "Now", "Renew", "Now"] * 2, "Now"]
    assert all(isinstance(op, Now | Wait | Renew | Open | Emit) for op in played.ops)


def test_a_holder_that_hangs_is_told_and_withdrawn_when_its_time_is_over() -> None:
    keeping, held = Keeping(renewals=3), []
    keeping.at = {
        105.0: lambda: held.extend((keeping.grant(1, 3.0), keeping.grant(2, 6.5), keeping.grant(3))),
        108.0: lambda: held.append(keeping.now),
    }
    played = keeping.run()
    first, second, third, at = held
    assert at == 108.0, "the keepalive loop wakes when it is due, between two renewals"
    assert losses(played)[1:] == [("lock.lost", first.reason), ("lock.lost", second.reason)]
    assert "3 s (max_hold)" in first.reason
    assert played.abandoned == [ticket(1), ticket(2)]
    assert not third.ended
    assert keeping.renewed_at == [105.0, 110.0, 115.0]
    assert keeping.waits[:5] == [5.0, 3.0, 2.0, 1.5, 3.5]


def test_progress_puts_it_off() -> None:
    keeping, held = Keeping(renewals=2), []
    keeping.at = {
        105.0: lambda: held.append(keeping.grant(1, 3.0)),
        108.0: lambda: held[0].progress(107.9),
    }
    keeping.run()
    assert not held[0].overheld
    assert held[0].due == pytest.approx(110.9)


def test_what_somebody_saw_to_be_overdue_is_withdrawn_at_once() -> None:
    keeping, held = Keeping(renewals=2), []

    def seen() -> None:
        (hold,) = held
        hold.is_overheld(108.0)
        hold.until = 999.0  # as progress does that came at the same time

    keeping.at = {105.0: lambda: held.append(keeping.grant(1, 3.0)), 108.0: seen}
    played = keeping.run()
    assert played.abandoned == [ticket(1)]


def test_what_was_released_at_that_moment_is_not_told() -> None:
    keeping = Keeping(renewals=2)

    def released_as_the_keepalive_looks() -> None:
        hold = keeping.grant(1, 3.5)
        hold.release(105.0)
        found = [[], [hold]]
        hold.session.overheld = lambda now: found.pop() if found else []  # type: ignore[method-assign]

    keeping.at = {105.0: released_as_the_keepalive_looks}
    played = keeping.run()
    assert losses(played) == [("session.started", None)]
    assert played.abandoned == []


def test_a_silent_store_does_not_keep_a_loss_from_being_told() -> None:
    keeping, held = Keeping(renewals=2, renew=[Expired()]), []
    keeping.at = {105.0: lambda: held.append(keeping.grant(1, 0.7))}
    played = keeping.run()
    (renewal,) = (op for op in played.ops[: played.kinds.index("Renew") + 1] if isinstance(op, Renew))
    assert renewal.within_s == pytest.approx(0.7)
    assert played.abandoned == [ticket(1)]


def test_a_renewal_has_time_enough_though_a_holder_is_due() -> None:
    keeping, held = Keeping(renewals=2, renew=[Expired()]), []
    keeping.at = {105.0: lambda: held.append(keeping.grant(1, 0.1))}
    played = keeping.run()
    (renewal,) = (op for op in played.ops[: played.kinds.index("Renew") + 1] if isinstance(op, Renew))
    assert renewal.within_s == pytest.approx(SHORTEST_RENEWAL_S)
    assert held[0].ended
    assert played.abandoned == [ticket(1)]


def lives(ttl_s: float, answer_s: Any, max_hold_s: float | None, *, for_s: float = 100.0) -> bool:
    """Whether a session lives that is used without a pause, while answers take ``answer_s(now)``."""
    state, now, sessions, numbers = SessionState(), [100.0], [], iter(range(10**6))

    def passed(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 100.0 + for_s:
            state.closed = "closed"
        for at in sessions:
            if max_hold_s is not None and not at.holds and at.clock is not None:
                number = next(numbers)
                at.holds[ticket(number).id] = HeldState(
                    entry(number), at, "me", now[0], LABELS, max_hold_s=max_hold_s
                )

    def on_open(op: Open) -> Any:
        sent_at = now[0]
        sessions.append(session(ttl_s=None))
        passed(answer_s(sent_at))
        return Opened(f"s{len(sessions)}", ttl_s, sent_at=sent_at)

    def on_renew(op: Renew) -> Any:
        took_s = answer_s(now[0])
        passed(min(took_s, op.within_s))
        return Expired() if took_s > op.within_s else Renewal(ttl_s)

    answers = Script(
        Now=lambda op: now[0], Open=on_open, Renew=on_renew, Wait=lambda op: passed(op.at_most_s) or None
    )
    return "session.lost" not in play(keep(state, ttl_s, lambda: sessions[-1]), answers, most=10**5).events


@pytest.mark.parametrize("max_hold_s", [0.1, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("ttl_s", [2.0, 3.0, 5.0, 15.0, 60.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("since_s", [0.0, 7.0], ids=["always slow", "slow from then on"])
def test_a_short_max_hold_never_endangers_the_session(
    max_hold_s: float, ttl_s: float, share: float, since_s: float
) -> None:
    """On a link where a session lives without one, answers taking so much of a renewal's interval."""

    def answer_s(now: float) -> float:
        return share * ttl_s / 3 if now >= 100.0 + since_s else 0.001

    assert lives(ttl_s, answer_s, None)
    assert lives(ttl_s, answer_s, max_hold_s)


def test_a_session_that_ends_does_not_change_why_a_grant_was_lost() -> None:
    keeping, held = Keeping(renew=[SessionLost("revoked")]), []

    def late() -> None:
        held.append(keeping.grant(1, 3.0))
        held[0].is_overheld(keeping.now + 3.0)

    def on_renew(op: Renew) -> Any:
        late()
        keeping.state.closed = None
        return SessionLost("revoked")

    keeping._renew = [on_renew, None]
    keeping.reset()
    played = keeping.run()
    assert losses(played)[2][0] == "lock.lost"
    assert "max_hold" in str(losses(played)[2][1])


def test_a_renewal_names_what_waits_and_what_it_misses_of_that_looks() -> None:
    seen: list[Renew] = []
    mailbox = Mailbox()

    def answer(op: Renew) -> Renewal:
        seen.append(op)
        return Renewal(TTL_S, (entry(2),))

    keeping = Keeping(renewals=2, renew=[answer])

    def comes() -> None:
        keeping.grant(1)
        waiters = keeping.sessions[-1].waiters
        waiters.stand(ticket(2).id)
        waiters.waits(entry(2), mailbox)

    keeping.at[104.0] = comes
    keeping.at[105.0] = lambda: None
    played = keeping.run()
    assert (seen[0].entries, seen[0].waiting) == ((entry(1),), (entry(2),))
    assert mailbox.events == [Disturbed()]
    assert keeping.sessions[-1].waiters.is_missing(ticket(2).id)
    assert "lock.lost" not in played.events


def test_some_are_looked_at_once_per_ttl_and_rest_between() -> None:
    seen: list[Renew] = []

    def answer(op: Renew) -> Any:
        seen.append(op)
        return Expired() if len(seen) == 2 else Renewal(TTL_S)

    keeping = Keeping(renewals=8, renew=[answer] * 7)

    def comes() -> None:
        keeping.grant(0)
        for number in range(1, 8):
            keeping.grant(number).turn = keeping.sessions[-1].next_turn()

    keeping.at[104.0] = comes
    keeping.run()
    looked_at = [{one.ticket.id for one in op.entries} - {ticket(0).id} for op in seen]
    everyone = {ticket(number).id for number in range(1, 8)}
    assert all(entry(0) in op.entries for op in seen)
    assert all(
        {one.ticket.id for one in (*op.entries, *op.resting)} == everyone | {ticket(0).id} for op in seen
    )
    assert [len(some) for some in looked_at] == [3, 2, 2, 2, 3, 2, 2]
    assert looked_at[1] == looked_at[2], "what had no answer is asked again"
    assert looked_at[0] | looked_at[1] | looked_at[3] == everyone
