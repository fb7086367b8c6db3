"""The programs of a barrier, at random and step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recipes._api.barrier import BaseBarrier
from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Entry,
    Listing,
    Rewrite,
    Snapshot,
    Stored,
    Ticket,
    Withdraw,
    Written,
)
from recipes._contract.wakeups import Disturbed
from recipes._programs.barrier import NO_RECORD, Party, Place, cross, leave
from recipes._programs.hold import REMOVED
from recipes._programs.steps import Wait
from recipes._rules.barrier import GONE, LEAVING, PARTY, PASSED, GivenUp, Outcome, Record, pack
from recipes.errors import (
    BarrierBroken,
    BarrierMismatch,
    OutcomeUnknown,
    SessionLost,
    StoreRefused,
    StoreUnavailable,
)
from tests.programs.gathering import KEY, LABELS, Gathering, User, schedule
from tests.programs.stepping import Played, Script, play
from tests.run.doubles import HandRuntime
from tests.simulation.bugs_in_barriers import BUGS

SCHEDULES, WITHIN = 300, 1_000
ARRIVES_LATE = "those that were given up count when they arrive"
"""Nothing arrives late here; `tests.simulation` finds this one."""
UNANSWERED = StoreUnavailable("s", "silence")
UNKNOWN = OutcomeUnknown("s", "silence", recipe="barrier", name="start")


def test_every_generation_passes_for_all_or_breaks_for_all() -> None:
    came: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        came += schedule(seed)
    assert min(came[what] for what in ("passed", "left", "BarrierBroken", "Cancelled")) > SCHEDULES


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug != ARRIVES_LATE])
def test_a_planted_bug_is_found(bug: str) -> None:
    patches = BUGS[bug]()
    for patch in patches:
        patch.start()
    try:
        assert any(_breaks(seed) for seed in range(WITHIN)), f"not in {WITHIN} schedules"
    finally:
        for patch in patches:
            patch.stop()


def _breaks(seed: int) -> bool:
    try:
        schedule(seed)
    except Exception:
        return True
    return False


# Step by step.


def gathering(parties: int, *names: str) -> tuple[Gathering, list[User]]:
    at = Gathering()
    return at, [User(at, name, parties) for name in names]


def test_what_each_party_asks() -> None:
    """The first also begins the record; each look is a read and a list, and two looks suffice here."""
    at, (a, b) = gathering(2, "A", "B")
    first = at.comes(a)
    at.settle()
    second = at.comes(b)
    at.settle()
    assert first.asked == [
        *("Attach", "Read", "List", "Write"),
        *("Enqueue", "Read", "List", "Wait"),
        *("Read", "List", "Write", "Withdraw"),
    ]
    assert second.asked[:5] == ["Attach", "Read", "Enqueue", "Read", "List"]
    assert second.asked[-1] == "Withdraw"
    assert [first.result.index, second.result.index] == [0, 1]
    assert [first.noted[-1].event, second.noted[-1].position] == ["barrier.passed", 1]


def test_one_that_came_too_late_for_a_generation_goes_on_to_the_next() -> None:
    at, users = gathering(2, "A", "B", "C")
    guests = [at.comes(user) for user in users]
    for guest in guests:  # all are of the first generation
        while "Enqueue" not in guest.asked:
            guest.step()
    at.settle()
    late = [guest for guest in guests if not guest.over]
    assert len(late) == 1
    assert {guest.result.generation for guest in guests if guest.over} == {1}
    other = at.comes(next(user for user in users if user is not late[0].user))
    at.settle()
    assert late[0].result.generation == other.result.generation == 2


# Answered by hand.


def party(timeout_s: float | None = 5.0, parties: int = 2) -> Party:
    numbers = iter(range(1, 100))
    return Party(KEY, parties, LABELS, lambda: "me", lambda: next(numbers), timeout_s=timeout_s)


def stored(record: Record, version: int = 3) -> Stored:
    return Stored(pack(record), version)


GATHERS = stored(Record(2, 5))
MINE = Entry(Ticket(KEY, PARTY.kind, "me", data=b"5"), "ref", 7)
STANDS = Snapshot(MINE, (), complete=True, position=0)
PLACE = Place(0, 5, ("me", "other"), MINE, 0)


def named(word: str = PASSED) -> Stored:
    return stored(Record(2, 6, (Outcome(5, word, ("me", "other")),)))


def script(**answers: Any) -> Script:
    usual: dict[str, Any] = {
        "Attach": None,
        "Read": [GATHERS, named()],
        "List": Listing(()),
        "Enqueue": STANDS,
        "Withdraw": True,
    }
    return Script(**{**usual, **answers})


def crossing(stays: bool = False, timeout_s: float | None = 5.0, **answers: Any) -> Played:
    return play(cross(party(timeout_s), stays=stays), script(**answers))


def test_by_hand_it_passes() -> None:
    played = crossing()
    assert played.result == Place(0, 5, ("me", "other"), None)
    assert played.events == ["barrier.passed"]
    assert played.abandoned == []
    assert crossing(stays=True).result == replace(PLACE, version=None)
    listed = Listing((replace(_contender("me"), version=3),))
    assert crossing(stays=True, List=listed).result == replace(PLACE, version=3)


def test_events_say_where_it_came_and_how_long_it_waited() -> None:
    (passed,) = crossing(Now=[100.0, 101.0, 103.0]).told
    assert (passed.event, passed.position, passed.waited_s) == ("barrier.passed", 0, 3.0)
    (broken,) = crossing(Now=[100.0, 101.0, 103.0], Read=[GATHERS, named(GONE)]).told
    assert (broken.event, broken.waited_s) == ("barrier.broken", 3.0)
    assert (broken.name, broken.recipe, broken.store) == ("start", "barrier", LABELS["store"])


@pytest.mark.parametrize("stays", [False, True])
def test_what_was_broken_is_withdrawn_and_raised(stays: bool) -> None:
    played = crossing(stays=stays, Read=[GATHERS, named(GONE)])
    assert isinstance(played.error, BarrierBroken)
    assert (played.error.generation, played.error.name) == (5, "start")
    played.only(Withdraw)
    assert played.events == ["barrier.broken"]


def test_an_outcome_of_an_unknown_word_is_a_broken_one() -> None:
    assert "moved" in str(crossing(Read=[GATHERS, named("moved")]).error)


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), UNANSWERED, Expired(), SessionLost("x")])
def test_what_was_decided_counts_though_nothing_can_be_withdrawn(error: Exception) -> None:
    played = crossing(Withdraw=error)
    assert played.result.index == 0
    assert len(played.abandoned) == (not isinstance(error, SessionLost))


def test_before_it_stands_a_session_that_is_lost_is_no_matter() -> None:
    played = crossing(Read=[SessionLost("x"), GATHERS, named()])
    assert played.kinds.count("Attach") == 2
    assert played.result.index == 0


def test_a_lost_race_for_the_first_record_reads_again() -> None:
    played = crossing(Read=[Stored(), GATHERS, named()], Write=Written(done=False))
    assert played.kinds.count("Write") == 1
    assert played.result.index == 0


def test_no_answer_before_it_stands() -> None:
    played = crossing(Read=Expired())
    assert isinstance(played.error, StoreUnavailable)
    assert played.events == []


def test_no_answer_while_it_stands() -> None:
    for error in (Expired(), _expired_from(UNANSWERED)):
        played = crossing(Read=[GATHERS, error])
        assert isinstance(played.error, StoreUnavailable)
        assert [ticket.id for ticket in played.abandoned if ticket] == ["me"]
        assert played.events == ["barrier.broken"]


def _expired_from(cause: Exception) -> Expired:
    error = Expired()
    error.__cause__ = cause
    return error


def test_another_number_of_parties_is_refused() -> None:
    standing = Listing((_contender("other"),))
    played = crossing(Read=stored(Record(3, 5)), List=standing)
    assert isinstance(played.error, BarrierMismatch)
    assert played.kinds.count("Enqueue") == 0


def test_another_number_of_parties_since_it_came_is_refused() -> None:
    played = crossing(Read=[GATHERS, stored(Record(3, 6))], List=Listing((_contender("me"),)))
    assert isinstance(played.error, BarrierMismatch)
    assert len(played.abandoned) == 1


def _contender(name: str, data: bytes = b"5") -> Any:
    from recipes._contract.contenders import Contender

    return Contender(name, name, PARTY.kind, "s", data=data)


LEAVES = replace(_contender("me"), mark=LEAVING, version=1)


def test_what_is_no_record_is_refused() -> None:
    played = crossing(Read=Stored(b"?", 4))
    assert isinstance(played.error, StoreRefused)
    assert "barrier 'start'" in played.error.detail


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"Enqueue": Snapshot(None, (), complete=True, position=0), "Read": GATHERS}, REMOVED),
        ({"Read": GATHERS}, REMOVED),  # the list does not show it
        ({"Enqueue": SessionLost("x"), "Read": GATHERS}, "x"),
        ({"Read": [GATHERS, SessionLost("x"), GATHERS]}, "x"),
        ({"Read": [GATHERS, Stored()]}, NO_RECORD),
        ({"Read": [GATHERS, SessionLost("x"), stored(Record(2, 6))]}, "it is not known whether"),
        ({"Read": [GATHERS, SessionLost("x"), SessionLost("y"), GATHERS]}, "x"),
        (
            {
                "Read": [GATHERS, stored(Record(2, 6))],
                "List": [Listing((_contender("me"),)), Listing(())],
                "Rewrite": None,
            },
            REMOVED,
        ),
    ],
)
def test_one_that_does_not_stand_any_more_breaks_its_generation(answers: Any, words: str) -> None:
    played = crossing(**{"Write": [Written(done=False), Written(done=True)], **answers})
    assert isinstance(played.error, BarrierBroken)
    assert words in played.error.reason
    assert [ticket.id for ticket in played.abandoned if ticket] == ["me"]
    assert played.events == ["barrier.broken"]


def test_a_write_of_which_nothing_is_known_is_looked_up() -> None:
    standing = Listing((_contender("me"), _contender("other")))
    for found, passes in ((named(), True), (named(GONE), False)):
        played = crossing(Read=[GATHERS, GATHERS, found], List=standing, Write=UNKNOWN)
        assert (played.result is not None) == passes
        assert len(played.abandoned) == 1


def test_one_that_would_be_inside_is_not_when_its_session_is_lost() -> None:
    played = crossing(stays=True, Read=[GATHERS, SessionLost("x"), named()])
    assert isinstance(played.error, BarrierBroken)
    assert "inside" in played.error.reason


def test_one_that_is_out_of_time_as_its_generation_is_decided_without_it_breaks_the_next() -> None:
    listed = [Listing((_contender("me", data),)) for data in (b"5", b"6")]
    answers = {"Read": [GATHERS, stored(Record(2, 6))], "List": listed, "Write": Written(done=True)}
    played = crossing(timeout_s=0.0, Rewrite=1, **answers)
    assert isinstance(played.error, BarrierBroken)
    assert played.error.generation == 6
    played.only(Withdraw)


@pytest.mark.parametrize(("timeout_s", "due"), [(5.0, 102.0), (1.0, 101.0), (None, 102.0)])
def test_it_waits_until_the_next_look_is_due_or_its_time_is_over(timeout_s: float | None, due: float) -> None:
    listed = Listing((_contender("me"),), due_s=2.0)
    reads = [GATHERS, Stored(GATHERS.data, 3, due_s=3.0), named()]
    played = crossing(timeout_s=timeout_s, Read=reads, List=listed, Wait=None)
    assert played.only(Wait) == Wait(due_at=due)


def test_a_connection_that_breaks_again_and_again_is_not_hurried() -> None:
    listed = Listing((_contender("me"),))
    waits = [Disturbed(), Disturbed(), None, None]
    played = crossing(timeout_s=None, Read=[GATHERS, GATHERS, GATHERS, named()], List=listed, Wait=waits)
    assert [op.at_most_s is None for op in played.ops if isinstance(op, Wait)] == [True, True, False]


def each_step(program: Callable[[], Any], answers: Script, error: BaseException) -> list[Played]:
    count = len(play(program(), answers).ops)
    return [play(program(), script(), fail_at=number, error=error) for number in range(count)]


def test_interrupted_anywhere_what_may_stand_is_abandoned() -> None:
    for played in each_step(lambda: cross(party()), script(), KeyboardInterrupt()):
        assert isinstance(played.error, KeyboardInterrupt)
        stood = "Enqueue" in played.kinds
        assert len(played.abandoned) == stood


def test_closed_anywhere_it_asks_for_nothing_more() -> None:
    others = Listing((_contender("other"), LEAVES))
    cases = (lambda: cross(party()), Listing(()), 5), (lambda: leave(party(), PLACE), others, 3)
    for make, listed, most in cases:
        for steps in range(most + 1):
            program, answers = make(), script(List=listed, Rewrite=1, Wait=None)
            op = program.send(None)
            for _ in range(steps):
                op = program.send(answers(op))
            program.close()


# Leaving.


def leaving(timeout_s: float | None = 5.0, **answers: Any) -> Played:
    usual: dict[str, Any] = {"Rewrite": 1, "List": Listing(()), "Withdraw": True, "Wait": None}
    return play(leave(party(timeout_s), PLACE), Script(**{**usual, **answers}))


def test_it_leaves_when_none_of_the_others_is_inside() -> None:
    played = leaving(List=[Listing((_contender("other"), LEAVES)), Listing(())])
    asked = [kind for kind in played.kinds if kind != "Now"]
    assert asked == ["Rewrite", "List", "Wait", "List", "Withdraw"]
    assert played.error is None
    assert played.events == []


def test_a_late_copy_of_an_earlier_rewrite_does_not_undo_that_it_leaves() -> None:
    """On etcd such a copy landed behind: each of two waited for the other, and both wanted to leave."""
    undone = replace(_contender("me"), version=2)
    played = leaving(List=[Listing((_contender("other"), undone)), Listing((LEAVES,))])
    written = [op.version for op in played.ops if isinstance(op, Rewrite)]
    assert written == [0, 2]
    assert played.error is None


def test_where_it_does_not_know_how_often_it_was_rewritten_it_looks_first() -> None:
    program = leave(party(5.0), replace(PLACE, version=None))
    stands = replace(_contender("me"), version=3)
    answers = Script(List=[Listing((stands,)), Listing((LEAVES,))], Rewrite=4, Withdraw=True)
    played = play(program, answers)
    assert [kind for kind in played.kinds if kind != "Now"] == ["List", "Rewrite", "List", "Withdraw"]
    assert played.only(Rewrite).version == 3


def test_a_party_that_goes_over_to_the_next_generation_compares_how_often_it_was_rewritten() -> None:
    listed = [
        Listing((replace(_contender("me", data), version=version),))
        for data, version in ((b"5", 1), (b"6", 2))
    ]
    reads = [GATHERS, stored(Record(2, 6))]
    played = crossing(timeout_s=0.0, Read=reads, List=listed, Rewrite=None, Write=Written(done=True))
    assert played.only(Rewrite).version == 1


def test_it_has_left_when_its_time_is_over() -> None:
    played = leaving(0.0, List=Listing((_contender("other"),)))
    assert isinstance(played.error, BarrierBroken)
    assert "1 that entered" in played.error.reason
    assert played.error.generation == 5
    played.only(Withdraw)
    assert played.events == ["barrier.broken"]


@pytest.mark.parametrize("answers", [{"Rewrite": None}, {"List": SessionLost("x")}])
def test_one_that_is_not_inside_any_more_is_told(answers: Any) -> None:
    played = leaving(**answers)
    assert isinstance(played.error, BarrierBroken)
    assert "not inside any more" in played.error.reason
    assert len(played.abandoned) == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [(Expired(), StoreUnavailable), (KeyboardInterrupt(), KeyboardInterrupt), (UNANSWERED, StoreUnavailable)],
)
def test_leaving_that_fails_is_finished_behind(error: BaseException, raised: type[BaseException]) -> None:
    for answers in ({"Rewrite": error}, {"List": error}):
        played = leaving(**answers)
        assert isinstance(played.error, raised)
        assert len(played.abandoned) == 1


@pytest.mark.parametrize("lives_on", [False, True])
@pytest.mark.parametrize("job_is_done", [False, True])
def test_what_a_client_gave_up_is_known_until_its_session_has_ended_on_the_store(
    job_is_done: bool, lives_on: bool
) -> None:
    """Its request may arrive yet: it was counted beside what its client sent in its place."""
    runtime = HandRuntime()
    barrier, session = BaseBarrier(runtime, "start", 2), runtime.live()
    ticket = Ticket(barrier._queue, "B", "id-1", "", b"7")
    call = runtime.call(session=session)
    session.waiters.stand(ticket.id)
    runtime.abandon(call, ticket)
    assert barrier._given_up() == GivenUp(frozenset({"id-1"}), frozenset({7}))
    if job_is_done:  # the cleaner's, as the session has ended for this client
        runtime.cleaned(runtime.jobs[0])
        assert barrier._given_up() == GivenUp()
    runtime.give_up("it was not renewed")
    assert barrier._given_up() == GivenUp(frozenset({"id-1", session.id}), frozenset({7}))
    assert BaseBarrier(runtime, "other", 2)._given_up() == GivenUp(frozenset({session.id}))
    session.protocol.lives_on = lives_on
    runtime.cleaned(runtime.jobs[-1])
    if not job_is_done:
        runtime.cleaned(runtime.jobs[0])
    if lives_on:  # no store has confirmed that it has ended
        assert session.clock is not None
        assert barrier._given_up() == GivenUp(frozenset({"id-1", session.id}), frozenset({7}))
        ttl_s, now = session.clock.ttl_s, runtime.now() + 99
        runtime.clock = lambda: now  # the store is away, and gives it its whole time again when it is back
        assert barrier._given_up() != GivenUp()
        runtime.live()
        assert barrier._given_up() != GivenUp()
        runtime.clock = lambda: now + 1.9 * ttl_s
        assert barrier._given_up() != GivenUp()
        runtime.clock = lambda: now + 2.1 * ttl_s
        runtime._living()
        assert not runtime._living_on
    assert barrier._given_up() == GivenUp()
