"""Programs that run beside each other in one call, answered by hand."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from recipes._contract.connection import Batch, Request
from recipes._contract.deadline import Expired
from recipes._contract.operations import Entry, StoreOp, Ticket, Withdraw
from recipes._contract.wakeups import Event, Gone
from recipes._programs.crew import Beside, Crew, Ended
from recipes._programs.hold import HeldState
from recipes._programs.steps import Attach, Wait
from recipes._record import record
from recipes._run.interpreter import Receive
from recipes.errors import SessionLost, StoreUnavailable
from tests.run.doubles import HandRuntime
from tests.run.test_interpreter import Run

CUT = StoreUnavailable("fake://", "cut")


@record
class Read(Request[str]):
    """Can be sent with others: it is about one place."""

    path: str


@record
class Whole(Request[str]):
    """Has to be sent alone."""

    what: str


@dataclass(frozen=True)
class Ask(StoreOp[Any]):
    """Asks one request, and returns the reply."""

    request: Request[Any]


class Fake:
    """A protocol that asks what an operation says."""

    renewals_per_ttl, renewal_lag, renews_on_a_beat, session_id = 3, 0.0, False, "s1"

    def start(self, op: Any, context: Any) -> Generator[Any, Any, Any]:
        self.mailbox = context.mailbox
        reply = yield from (Read("withdrawn") if isinstance(op, Withdraw) else op.request)
        return reply

    def noticed(self) -> list[str]:
        return []


class Hall:
    """A call whose program has a crew run, in a session of the fake store."""

    def __init__(self) -> None:
        self.runtime = HandRuntime()
        self.session = self.live()
        self.call = self.runtime.call(session=self.session)
        self.crew = Crew()
        box: Any = self.call.mailbox
        self.events = box.events

    def live(self) -> Any:
        session: Any = self.runtime.live()
        session.protocol = Fake()
        return session

    def beside(self, at_most_s: float | None = None) -> Run:
        return Run(self.call, Beside(self.crew, at_most_s))

    def start(self, key: str, program: Any) -> None:
        self.crew.start(key, program)

    def ended(self) -> dict[Any, Any]:
        """What became of those that have ended: what they returned, or the kind of what they raised."""
        return {
            one.key: one.result if one.error is None else type(one.error) for one in self.crew.take_ended()
        }


@pytest.fixture
def hall() -> Hall:
    return Hall()


def asking(*requests: Request[Any]) -> Any:
    """A program that asks one after the other, and returns the replies."""
    yield from Attach()
    replies = []
    for request in requests:
        replies.append((yield from Ask(request)))  # noqa: PERF401 - no comprehension may yield from
    return replies


def waiting() -> Any:
    """A program that waits for one event, and returns it."""
    yield from Attach()
    return (yield from Wait())


def test_what_is_asked_at_the_same_time_is_one_batch(hall: Hall) -> None:
    hall.start("a", asking(Read("a1"), Read("a2")))
    hall.start("b", asking(Batch((Read("b1"), Read("b2")))))
    run = hall.beside()
    assert run.effect == Batch((Read("a1"), Read("b1"), Read("b2")))
    run.answer(("A1", "B1", "B2"))
    assert run.effect == Read("a2"), "alone it is no batch"
    run.answer("A2")
    assert run.done
    assert run.result is None
    assert hall.ended() == {"a": ["A1", "A2"], "b": [("B1", "B2")]}
    assert len(hall.crew) == 0


def test_a_batch_has_so_many_parts_at_most(hall: Hall) -> None:
    for number in range(107):
        hall.start(f"{number:03}", asking(Read(str(number))))
    hall.start("two", asking(Batch((Read("x"), Read("y")))))
    run = hall.beside()
    sizes = []
    while not run.done:
        parts = run.effect.parts
        sizes.append(len(parts))
        run.answer(tuple(part.path for part in parts))
    assert sizes == [100, 9]
    assert hall.ended()["042"] == ["42"]


def test_what_cannot_be_sent_with_others_is_asked_alone(hall: Hall) -> None:
    for key, request in {"a": Whole("a"), "b": Read("b"), "c": Whole("c"), "d": Read("d")}.items():
        hall.start(key, asking(request))
    run = hall.beside()
    asked = []
    while not run.done:
        asked.append(run.effect)
        run.answer(("B", "D") if isinstance(run.effect, Batch) else run.effect.what)
    assert asked == [Whole("a"), Batch((Read("b"), Read("d"))), Whole("c")]
    assert hall.ended() == {"a": ["a"], "b": ["B"], "c": ["c"], "d": ["D"]}


def test_each_is_asked_on_its_own_session(hall: Hall) -> None:
    def elsewhere() -> Any:
        return (yield from Ask(Read("b")))

    other = hall.live()
    held = HeldState(Entry(Ticket("q", "lock", "id-1"), "q/1", 1), other, "owner", 0.0, {"name": "x"})
    hall.crew.start("b", elsewhere(), held)
    hall.start("a", asking(Read("a")))
    hall.runtime.state.session = hall.session
    run = hall.beside()
    assert (run.effect, hall.call.session) == (Read("b"), other)
    run.answer("B")
    assert (run.effect, hall.call.session) == (Read("a"), hall.session)
    run.answer("A")
    assert hall.ended() == {"b": "B", "a": ["A"]}
    assert hall.call.session is hall.session


def test_on_a_session_that_has_ended_nothing_more_is_asked(hall: Hall) -> None:
    """One after another would wait in vain, as long as a request may, before the call learns of it."""
    hall.start("a", asking(Whole("a")))
    hall.start("b", asking(Whole("b"), Whole("never")))
    run = hall.beside()
    assert run.effect == Whole("a")
    hall.session.ended = "expired"
    run.answer("A")
    assert run.done
    assert hall.ended() == {"a": ["A"], "b": SessionLost}


def test_a_part_that_fails_is_the_failure_of_one(hall: Hall) -> None:
    hall.start("a", asking(Read("a")))
    hall.start("b", asking(Read("b")))
    hall.start("c", asking(Read("c")))
    run = hall.beside().answer(("A", CUT, KeyError("c")))
    assert run.done
    assert hall.ended() == {"a": ["A"], "c": KeyError}
    run = hall.beside()
    assert 0 <= (run.pauses or 0) <= 1, "asked again by the policy"
    hall.runtime.clock.time += 1
    assert run.answer(None).effect == Read("b")
    run.answer("B")
    assert hall.ended() == {"b": ["B"]}


def test_a_batch_without_an_answer_is_asked_again_by_all(hall: Hall) -> None:
    hall.start("a", asking(Read("a")))
    hall.start("b", asking(Read("b")))
    run = hall.beside().fail(CUT)
    assert 0 <= (run.pauses or 0) <= 1
    hall.runtime.clock.time += 1
    run.answer(None)
    assert run.effect == Batch((Read("a"), Read("b")))
    assert [transition.event for transition in hall.runtime.told] == ["store.retry"] * 2


def test_the_end_of_the_calls_time_is_no_failure_of_what_it_asks(hall: Hall) -> None:
    hall.start("a", asking(Read("a")))
    with pytest.raises(Expired):
        hall.beside().fail(Expired())
    assert hall.beside().effect == Read("a"), "it is asked by the next"


def test_an_event_is_for_the_one_whose_it_is(hall: Hall) -> None:
    hall.start("a", waiting())
    hall.start("b", waiting())
    run = hall.beside()
    assert isinstance(run.effect, Receive)
    calls = list(hall.call.beside)
    calls[1].mailbox.post(Gone("q/7"))
    assert run.answer(hall.events.popleft()).done
    assert hall.ended() == {"b": Gone("q/7")}
    assert hall.call.beside == calls[:1]
    assert calls[1].mailbox not in hall.runtime.state.calls


def test_what_came_before_it_waits_is_not_lost(hall: Hall) -> None:
    hall.start("a", waiting())
    hall.start("b", asking(Read("b")))
    run = hall.beside()
    hall.call.beside[0].mailbox.post(Gone("q/7"))
    assert run.answer("B").done
    assert hall.ended() == {"b": ["B"], "a": Gone("q/7")}


def test_an_event_of_the_call_itself_is_its_own(hall: Hall) -> None:
    hall.start("a", waiting())
    event = Event()
    run = hall.beside().answer(event)
    assert run.result is event
    assert "a" in hall.crew


def test_it_waits_no_longer_than_it_is_told(hall: Hall) -> None:
    hall.start("a", waiting())
    run = hall.beside(2.0)
    assert run.pauses == 2.0
    hall.runtime.clock.time += 1.5
    run.answer(None)
    assert run.pauses == 0.5
    hall.runtime.clock.time += 0.5
    assert run.answer(None).done
    assert hall.ended() == {}


def test_one_whose_time_is_over_goes_on(hall: Hall) -> None:
    def napping() -> Any:
        return (yield from Wait(3.0))

    hall.start("a", napping())
    hall.start("b", napping())
    run = hall.beside()
    assert run.pauses == 3.0
    hall.runtime.clock.time += 3.0
    run.answer(None)
    assert hall.ended() == {"a": None, "b": None}


def test_with_nobody_it_waits_for_an_event(hall: Hall) -> None:
    run = hall.beside()
    assert run.pauses is None
    assert run.answer(Event()).done


def test_one_that_is_stopped_ends_by_that(hall: Hall) -> None:
    hall.start("a", waiting())
    hall.start("b", waiting())
    hall.beside()
    hall.start("c", waiting())
    for key in ("a", "c"):
        hall.crew.stop(key, KeyError(key))
    assert hall.beside().done
    assert hall.ended() == {"a": KeyError}
    assert [*hall.crew] == ["b"], "the last had not begun"
    hall.crew.stop("a", KeyError("late"))
    assert isinstance(hall.beside().effect, Receive)


def test_an_error_is_the_end_of_one(hall: Hall) -> None:
    def failing() -> Any:
        yield from Attach()
        raise SessionLost("x")

    hall.start("a", failing())
    assert hall.beside().done
    ((ended,),) = [hall.crew.take_ended()]
    assert isinstance(ended, Ended)
    assert isinstance(ended.error, SessionLost)


def standing(session: Any, number: int) -> Callable[[], Any]:
    """A program of one that may stand in a queue."""

    def program() -> Any:
        yield from Attach()
        session.waiters.stand(f"id-{number}")
        yield from Ask(Read(str(number)))

    return program


@pytest.mark.parametrize("lasting", [True, False])
def test_each_outlasts_what_the_call_does(hall: Hall, lasting: bool) -> None:
    hall.call.lasting = lasting
    hall.start("a", waiting())
    hall.beside()
    assert hall.crew.lanes["a"].call.lasting is lasting


def test_an_interrupt_leaves_nothing_of_any(hall: Hall) -> None:
    tickets = [Ticket("q", "lock", f"id-{number}") for number in range(3)]
    for number in range(3):
        hall.start(str(number), standing(hall.session, number)())
    run = hall.beside()
    for call, ticket in zip(hall.call.beside, tickets, strict=True):
        call.ticket = ticket
    with pytest.raises(KeyboardInterrupt):
        run.fail(KeyboardInterrupt())
    hall.call.unwind()
    hall.call.finish()
    assert [job.ticket for job in hall.runtime.jobs] == tickets
    assert hall.runtime.state.calls == {}


def test_what_is_to_be_given_back_is_withdrawn_whatever_interrupts_that(hall: Hall) -> None:
    entry = Entry(Ticket("q", "lock", "id-1"), "q/1", 1)
    hall.session.waiters.stand("id-1")
    held = HeldState(entry, hall.session, "owner", 0.0, {"name": "x"})

    def releasing() -> Any:
        yield from Withdraw(entry.ticket, entry)

    hall.crew.start("a", releasing(), held)
    run = hall.beside()
    with pytest.raises(KeyboardInterrupt):
        run.fail(KeyboardInterrupt())
    hall.call.unwind()
    assert [(job.ticket, job.entry) for job in hall.runtime.jobs] == [(entry.ticket, entry)]


def test_no_two_have_the_same_key(hall: Hall) -> None:
    hall.start("a", waiting())
    with pytest.raises(AssertionError, match="should not run yet"):
        hall.start("a", waiting())
