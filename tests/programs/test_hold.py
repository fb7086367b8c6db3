from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.contenders import DOWNGRADED, GRANTED, Contender
from recipes._contract.operations import Entry, Ticket
from recipes._contract.wakeups import HandedOn
from recipes._programs.hold import NOT_RENEWED, HeldState
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.members import member
from recipes._rules.permits import permits
from recipes._rules.readwrite import SHARED
from tests.programs.stepping import entry, session
from tests.programs.test_keep import Mailbox

LABELS = {"name": "q", "recipe": "lock", "mode": "exclusive", "store": "memory://", "attempt": 1}


def hold(ttl_s: float | None = 15.0, *, max_hold_s: float | None = None) -> HeldState:
    at = session(ttl_s)
    made = HeldState(entry(), at, "owner", 100.0, LABELS, max_hold_s=max_hold_s)
    at.holds[entry().ticket.id] = made
    return made


def test_held_until_the_deadline() -> None:
    held = hold()
    assert held.lost(113.0) is None
    assert [held.remaining(now) for now in (100.0, 113.0, 113.5, 999.0)] == [13.5, 0.5, 0.0, 0.0]
    assert not held.ended
    assert held.lost(113.5) == NOT_RENEWED, "by the clock, before anybody tells"
    assert held.lost(113.0) == NOT_RENEWED, "and for ever: it was seen"
    assert held.reason is None, "nobody has told yet"


def test_released_while_held() -> None:
    held = hold()
    assert held.release(101.0)
    assert (held.ended, held.released, held.reason, held.lost(999.0)) == (True, True, None, None)
    assert held.remaining(101.0) == 0.0
    assert held.session.holds == {}
    assert not held.release(101.0), "a second release does nothing"
    assert not held.lose("late"), "and it cannot be lost any more"
    assert held.released


def test_released_too_late_is_lost() -> None:
    held = hold()
    assert not held.release(113.5)
    assert (held.released, held.reason) == (False, NOT_RENEWED)
    assert held.session.holds == {}


def test_a_loss_that_shows_only_at_the_release_is_told_once() -> None:
    held, told = hold(), []
    assert not held.release(113.5, told.append)
    assert not held.release(113.5, told.append)
    assert [(t.event, t.token, t.reason) for t in told] == [("lock.lost", 7, NOT_RENEWED)]
    held = hold()
    assert held.release(101.0, told.append)
    assert len(told) == 1


def test_a_client_that_closes_while_one_looks_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    held = hold()

    def remaining(now: float) -> float:
        monkeypatch.undo()
        assert held.release(now)
        held.session.ended = "closed"
        return held.session.remaining(now)

    monkeypatch.setattr(held.session, "remaining", remaining)
    assert held.lost(101.0) is None
    assert held.released


def test_lost_stays_lost() -> None:
    held = hold()
    assert held.lose("why")
    assert not held.lose("again")
    assert not held.release(101.0)
    assert (held.reason, held.lost(101.0), held.released) == ("why", "why", False)
    assert held.remaining(101.0) == 0.0


def test_a_release_that_the_store_knows_better() -> None:
    held, told = hold(), []
    held.on_end = lambda: told.append(held.reason)
    assert held.release(101.0)
    held.turned_out_lost("removed")
    assert told == [None, "removed"], "told again, now with the reason"
    assert (held.ended, held.released, held.reason, held.lost(101.0)) == (True, False, "removed", "removed")
    assert not held.release(101.0)
    held = hold()
    held.release(101.0)
    held.turned_out_lost("removed")  # nobody to tell
    assert held.reason == "removed"


def test_the_name_of_released_is_no_reason_to_be_lost_for() -> None:
    held = hold()
    held.lose("revoked")
    assert held.reason == "revoked"


def test_whoever_made_it_is_told_once() -> None:
    held, told = hold(), []
    held.on_end = lambda: told.append(held.reason)
    held.lose("why")
    held.release(101.0)
    held.lose("again")
    assert told == ["why"]


@pytest.mark.parametrize("refuted", [False, True])
def test_what_an_interrupt_kept_from_being_notified_is_by_the_next_call(refuted: bool) -> None:
    held, told = hold(), []

    def on_end() -> None:
        held.on_end = lambda: told.append(held.reason)
        raise KeyboardInterrupt

    if refuted:
        assert held.release(101.0)
    held.on_end = on_end
    with pytest.raises(KeyboardInterrupt):
        held.turned_out_lost("removed") if refuted else held.release(113.5)
    assert not held.release(113.5)
    assert not held.release(113.5)
    assert told == ["removed" if refuted else NOT_RENEWED]


def test_a_loss_is_reported_once_whoever_noticed_it() -> None:
    held, told = hold(), []
    assert held.loss_to_report() == []
    assert not held.release(113.5), "and an interrupt struck before it was reported"
    assert not held.release(113.5, told.append)
    assert not held.release(113.5, told.append)
    assert [(t.event, t.reason) for t in told] == [("lock.lost", NOT_RENEWED)]
    assert held.loss_to_report() == []
    released = hold()
    assert released.release(101.0)
    assert len(released.release_to_report(101.0)) == 1
    released.turned_out_lost("removed")
    assert released.loss_to_report() == [], "its end was reported"


def test_ended_exactly_once_from_many_threads() -> None:
    for _ in range(50):
        held = hold()
        told: list[int] = []
        held.on_end = lambda told=told: told.append(1)
        start = threading.Barrier(8)
        won: list[bool] = []

        def end(number: int, held: Any = held, start: Any = start, won: Any = won) -> None:
            start.wait()
            won.append(held.release(101.0) if number % 2 else held.lose(f"by {number}"))

        threads = [threading.Thread(target=end, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won.count(True) == 1
        assert set(told) == {1}, "it may be done twice"
        assert held.released == (held.reason is None)


class Overtaken(dict[str, Any]):
    """Has something happen right after the ``at``-th look at it: what was seen is out of date then."""

    def __init__(self, at: int, meanwhile: Any) -> None:
        super().__init__()
        self.at, self.looks, self._meanwhile = at, 0, meanwhile

    def _seen(self, what: Any) -> Any:
        self.looks += 1
        if self.looks == self.at:
            self._meanwhile()
        return what

    def __contains__(self, key: object) -> bool:
        return self._seen(super().__contains__(key))

    def __len__(self) -> int:
        return self._seen(super().__len__())

    def __getitem__(self, key: str) -> Any:
        return self._seen(super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:
        return self._seen(super().get(key, default))


@pytest.mark.parametrize("second", ["release", "lose"])
@pytest.mark.parametrize("first", ["release", "lose"])
def test_ended_exactly_once_wherever_another_thread_overtakes(first: str, second: str) -> None:
    for at in range(20):
        held, told, won = hold(), [], []
        held.on_end = lambda told=told: told.append(1)

        def end(how: str, held: Any = held, won: Any = won) -> None:
            won.append(held.release(101.0) if how == "release" else held.lose("why"))

        held._end = seen = Overtaken(at, lambda end=end: end(second))
        end(first)
        if seen.looks < at:
            return
        overtaken = bool(at)
        assert won.count(True) == 1, (at, won)
        assert len(won) == 1 + overtaken
        assert set(told) == {1}, "it may be done twice"
    raise AssertionError("it should look at less")


def test_its_records_carry_the_token_and_the_labels() -> None:
    record = hold().transition("lost", reason="why")
    assert record.fields() == {**LABELS, "token": 7, "reason": "why"}
    assert record.event == "lock.lost"


HUNG = "it was held for 5 s (max_hold) without progress()"


def test_held_for_so_long_without_progress() -> None:
    held = hold(max_hold_s=5.0)
    assert held.due == 105.0
    assert [held.remaining(now) for now in (100.0, 104.5)] == [5.0, 0.5]
    assert held.progress(104.5)
    assert held.due == 109.5
    assert [held.remaining(now) for now in (104.5, 109.0)] == [5.0, 0.5]
    assert held.lost(109.5) == HUNG, "by the clock, before anybody tells"
    assert held.reason is None
    assert held.remaining(109.0) == 0.0, "and for ever: it was seen"
    assert not held.progress(109.0), "progress comes too late"
    assert (held.lost(109.0), held.remaining(109.0), held.due) == (HUNG, 0.0, 0.0)


def test_no_longer_than_the_session() -> None:
    held = hold(max_hold_s=20.0)
    assert held.remaining(100.0) == 13.5
    assert held.progress(113.0)
    assert held.remaining(113.0) == 0.5
    assert held.lost(113.5) == NOT_RENEWED
    assert not held.progress(113.5)


def test_without_a_limit_progress_is_a_check() -> None:
    held = hold()
    assert held.progress(101.0)
    assert held.due == math.inf
    held.release(102.0)
    assert not held.progress(102.0)


def test_a_release_that_comes_too_late_leaves_the_rest_to_the_keepalive_loop() -> None:
    held, told = hold(max_hold_s=5.0), []
    assert not held.release(105.0, told.append)
    assert not told
    assert (held.ended, held.lost(105.0)) == (False, HUNG)
    assert held.entry.ticket.id in held.session.holds, "so that the keepalive loop finds it"
    assert held.lose("the session ended meanwhile")
    assert held.reason == HUNG, "why it was lost does not change"
    assert held.session.holds == {}


def test_progress_while_another_thread_sees_it_pass() -> None:
    held = hold(max_hold_s=5.0)

    def meanwhile(now: float) -> float:
        held.is_overheld(105.0)
        return 13.5

    held.session.remaining = meanwhile  # type: ignore[method-assign]
    assert not held.progress(104.9)
    assert held.lost(104.9) == HUNG
    assert held.due == 0.0


def test_a_guard_compares_what_was_written_unless_it_may_have_been_rewritten() -> None:
    held = hold()
    assert not held.rewritten
    held.share()
    assert held.rewritten, "a writer that downgraded, or is about to"
    granted = Entry(Ticket("~semaphore/q", "S2.10", "id"), "~semaphore/q/id", 7)
    permits = HeldState(granted, session(), "owner", 100.0, {**LABELS, "mode": "shared", "weight": 2})
    assert permits.rewritten, "which marks itself when it comes to hold"


def handed_on(held: HeldState, end: Any) -> bool:
    """Whether the next of the same client is notified of this end."""
    waiters, mailbox, one = held.session.waiters, Mailbox(), held.entry
    waiters.stand(one.ticket.id)
    assert waiters.listen(Contender(one.ref, one.ticket.id), mailbox)
    end()
    return mailbox.events == [HandedOn(one.ref)]


def test_a_release_hands_on() -> None:
    held = hold()
    assert handed_on(held, lambda: held.release(101.0))


def test_a_loss_hands_nothing_on() -> None:
    lost, late = hold(), hold()
    assert not handed_on(lost, lambda: lost.lose("revoked"))
    assert not handed_on(late, lambda: late.release(113.5))


def test_what_was_held_for_too_long_is_not_handed_on() -> None:
    held = hold(max_hold_s=1.0)
    assert not handed_on(held, lambda: held.release(102.0))
    assert not handed_on(held, lambda: held.lose("late"))


def test_what_guards_writes_is_not_handed_on() -> None:
    held = hold()
    assert held.guard()
    assert not handed_on(held, lambda: held.release(101.0))
    assert not held.guard(), "its contender may be there, and prove nothing"


@pytest.mark.parametrize("kind", [permits(1, 2).kind, member("a").kind])
def test_permits_and_memberships_are_not_handed_on(kind: str) -> None:
    held = hold()
    held.entry = Entry(Ticket("q", kind, "id-1"), "q/id-1", 7)
    held.session.holds["id-1"] = held
    assert not handed_on(held, lambda: held.release(101.0))


def test_a_store_may_not_allow_it() -> None:
    held = hold()
    held.session.protocol.hands_on = False  # type: ignore[misc]
    assert not handed_on(held, lambda: held.release(101.0))


def test_an_interrupted_end_hands_on_when_it_is_settled() -> None:
    held = hold()
    held._end["end"] = ("released",)  # and then an interrupt struck
    assert handed_on(held, held.settle)


@pytest.mark.parametrize(
    ("kind", "shares", "mark", "seen"),
    [
        ("lock", False, "", Contender("ref", "id", "W", "")),
        ("lock", True, "", Contender("ref", "id", "W", "", DOWNGRADED)),
        ("R", True, "", Contender("ref", "id", "R", "")),
        ("S2.10", False, GRANTED, Contender("ref", "id", "S2.10", "", GRANTED)),
    ],
)
def test_what_others_see_of_it(kind: str, shares: bool, mark: str, seen: Contender) -> None:
    at = session()
    held = HeldState(Entry(Ticket("q", kind, "id"), "ref", 7), at, "owner", 100.0, LABELS)
    held.mark = mark
    if shares:
        held.share()
    assert held.contender == replace(seen, session=at.id)


def several(*queues: str) -> list[HeldState]:
    """Return grants of one session, one of each of these queues."""
    at = session()
    made = [
        HeldState(Entry(Ticket(q, "W", f"id-{n}"), q, n), at, "me", 100.0, LABELS)
        for n, q in enumerate(queues)
    ]
    for one in made:
        at.take_up(one)
    return made


def test_grants_are_found_in_their_queue_and_nothing_is_left_of_them() -> None:
    first, other, second = several("q", "r", "q")
    at = first.session
    assert (at.held_in("q"), at.held_in("r"), at.held_in("s")) == ([first, second], [other], [])
    for one in (first, second, other):
        assert one.release(101.0)
    assert (at.holds, at._in_queue) == ({}, {})


def test_a_grant_that_comes_as_the_last_of_its_queue_goes_is_found() -> None:
    first, second = several("q", "q")
    at = first.session
    at.drop(second)

    class Racing(dict[str, Any]):
        def pop(self, key: str, *default: Any) -> Any:
            if not at.holds.get("id-1"):
                at.take_up(second)
            return super().pop(key, *default)

    at._in_queue = Racing(at._in_queue)
    at.drop(first)
    assert (at.held_in("q"), list(at.holds)) == ([second], ["id-1"])


def test_a_grant_that_ends_as_it_is_put_in_is_not_kept() -> None:
    (first,) = several("q")
    at = first.session
    at.drop(first)

    class Racing(dict[str, Any]):
        def setdefault(self, key: str, default: Any = None) -> Any:
            at.holds.pop("id-0", None)
            return super().setdefault(key, default)

    at._in_queue = Racing()
    at.take_up(first)
    assert (at.held_in("q"), at.holds) == ([], {})


@pytest.mark.parametrize(
    ("kind", "marked", "released", "blocks"),
    [
        ("W", False, False, {"lock", "R"}),
        ("R", False, False, {"lock"}),
        ("W", True, False, {"lock"}),  # readers go in beside one that is downgraded
        ("W", False, True, set()),
    ],
)
def test_whom_the_nearest_of_the_own_contenders_ahead_blocks(
    kind: str, marked: bool, released: bool, blocks: set[str]
) -> None:
    at, queue = session(), "q"
    places = [
        Entry(Ticket(name, of, f"{name}{token}"), f"{name}/{token}", token)
        for name, of, token in (("q", kind, 3), ("other", "W", 5), ("q", "W", 9))
    ]
    for one in places:
        at.waiters.stand(one.ticket.id)
        at.waiters.waits(one, Mailbox())
    if marked:
        at.waiters.marked(places[0].ticket.id, DOWNGRADED)
    if released:
        at.waiters.freed(places[0])
    mine = Entry(Ticket(queue, "W", "mine"), "q/mine", 6)
    found = {rule.kind: at.blocked_by_own(mine, rule) for rule in (EXCLUSIVE, SHARED)}
    assert {of for of, one in found.items() if one is not None} == blocks
    assert {one.ref for one in found.values() if one is not None} <= {"q/3"}


def test_the_nearest_is_the_last_that_joined_before_whether_it_waits_or_holds() -> None:
    held = hold()
    at = held.session
    at.waiters.stand(held.entry.ticket.id)
    at.take_up(held)
    mine = Entry(Ticket("q", "lock", "mine"), "q/mine", held.entry.token + 2)
    assert at.blocked_by_own(mine, EXCLUSIVE) == Contender(
        held.entry.ref, held.entry.ticket.id, held.entry.ticket.kind
    )
    between = Entry(Ticket("q", "lock", "between"), "q/between", held.entry.token + 1)
    at.waiters.stand("between")
    at.waiters.waits(between, Mailbox())
    found = at.blocked_by_own(mine, EXCLUSIVE)
    assert found is not None
    assert found.ref == "q/between"
