"""A write is in doubt from when it may have been sent until it is answered: what its call raises then, and
how it is settled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract import operations as ops
from recipes._contract.deadline import Expired
from recipes._programs.cleaner import Job, clean
from recipes._run.interpreter import Receive
from recipes.errors import OutcomeUnknown, SessionLost, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchanged
from tests.programs.stepping import Script, play
from tests.run.doubles import HandRuntime
from tests.run.test_interpreter import CUT, Run, attached

WRITE = ops.Write("~value/x%2Fy", b"1", 7)
UNSENT = StoreUnavailable("memory://", "refused", unsent=True)
NOW_STORED = ops.Stored(b"1", 8)
DONE = Exchanged(True, 8, b"7", NOW_STORED)
THERE_ALREADY = Exchanged(False, 8, b"7", NOW_STORED)


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


def write(runtime: HandRuntime, **options: Any) -> Run:
    run = Run(attached(runtime, **options), WRITE)
    assert isinstance(run.asks, Put)
    assert run.call.doubt is WRITE
    return run


def settled_behind(runtime: HandRuntime, run: Run) -> list[ops.Write | None]:
    """Return what the cleaner has to settle once the call has ended in an exception."""
    run.call.unwind()
    run.call.unwind()  # it may be done twice
    assert run.call.doubt is None
    for write in filter(None, (job.write for job in runtime.jobs)):
        assert write.data is None, "it is not kept"
    return [job.write and replace(job.write, data=WRITE.data) for job in runtime.jobs]


def test_an_answer_ends_the_doubt(runtime: HandRuntime) -> None:
    run = write(runtime).answer(DONE)
    assert run.result == ops.Written(done=True, stored=NOW_STORED)
    assert run.call.doubt is None
    assert settled_behind(runtime, run) == []


def test_a_lost_answer_is_asked_for_again(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT)
    assert isinstance(run.effect, Receive)
    run.answer(None).answer(THERE_ALREADY)
    assert run.result == ops.Written(done=True)
    assert settled_behind(runtime, run) == []


def test_what_is_unknown_is_settled_though_the_program_goes_on(runtime: HandRuntime) -> None:
    after = ops.Write("~value/x%2Fy", b"2", 8)

    def program() -> ops.Program[Any]:
        with pytest.raises(OutcomeUnknown):
            yield from WRITE
        return (yield from after)

    run = Run(attached(runtime), program()).fail(CUT).answer(None).fail(StoreFull("s", "full"))
    assert run.call.doubt is after
    run.answer(DONE)
    assert settled_behind(runtime, run) == [WRITE]


def test_without_an_answer_in_time_it_is_unknown_and_settled_behind(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT)
    with pytest.raises(OutcomeUnknown, match="value 'x/y'") as unknown:
        run.fail(Expired())
    assert "cut" in unknown.value.detail
    assert (unknown.value.recipe, unknown.value.name) == ("value", "x/y")
    assert settled_behind(runtime, run) == [WRITE]


def test_out_of_time_before_it_was_asked_is_no_doubt(runtime: HandRuntime) -> None:
    run = write(runtime)
    with pytest.raises(Expired):
        run.fail(Expired())
    assert settled_behind(runtime, run) == []


def test_out_of_time_when_no_try_was_sent_is_no_doubt(runtime: HandRuntime) -> None:
    run = write(runtime).fail(UNSENT)
    assert isinstance(run.effect, Receive)
    run.answer(None)  # the pause lasted until the time was over, which shows as it is to be asked again
    with pytest.raises(Expired) as expired:
        run.fail(Expired())
    assert expired.value.__cause__ is UNSENT
    assert settled_behind(runtime, run) == []


def test_out_of_time_before_it_was_asked_again_leaves_it_unknown(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT).answer(None)
    with pytest.raises(OutcomeUnknown, match="cut"):
        run.fail(Expired())
    assert settled_behind(runtime, run) == [WRITE]


def test_what_was_never_sent_is_no_doubt(runtime: HandRuntime) -> None:
    run = write(runtime, fail_fast=True).fail(UNSENT)
    assert run.call.doubt is None
    run.answer(None)
    with pytest.raises(StoreUnavailable) as raised:
        run.fail(UNSENT)
    assert raised.value is UNSENT
    assert settled_behind(runtime, run) == []


def test_what_was_sent_before_stays_in_doubt_when_a_later_try_is_not_sent(runtime: HandRuntime) -> None:
    run = write(runtime, fail_fast=True).fail(CUT).answer(None)
    with pytest.raises(OutcomeUnknown):
        run.fail(UNSENT)
    assert settled_behind(runtime, run) == [WRITE]


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), StoreFull("s", "full")])
def test_a_refusal_is_an_answer(runtime: HandRuntime, error: Exception) -> None:
    run = write(runtime)
    with pytest.raises(type(error)):
        run.fail(error)
    assert settled_behind(runtime, run) == []


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), StoreFull("s", "full")])
def test_a_refusal_says_nothing_of_an_earlier_try(runtime: HandRuntime, error: Exception) -> None:
    run = write(runtime).fail(CUT).answer(None)
    with pytest.raises(OutcomeUnknown, match=str(error)):
        run.fail(error)
    assert settled_behind(runtime, run) == [WRITE]


def test_a_session_that_had_ended_did_nothing(runtime: HandRuntime) -> None:
    run = write(runtime)
    with pytest.raises(SessionLost):
        run.fail(SessionLost("gone"))
    assert run.call.doubt is None
    assert run.call.session.ended == "gone"


def test_a_session_that_ends_before_the_answer_leaves_it_unknown(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT).answer(None)
    with pytest.raises(OutcomeUnknown, match="gone"):
        run.fail(SessionLost("gone"))
    assert settled_behind(runtime, run) == [], "its session has ended: nothing of it lands any more"


def test_where_the_end_of_a_session_says_nothing_of_what_was_asked_it_is_unknown(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(runtime)
    monkeypatch.setattr(type(run.call.session.protocol), "ended_is_no", False)
    with pytest.raises(OutcomeUnknown, match="gone"):
        run.fail(SessionLost("gone"))
    assert run.call.session.ended == "gone"


def test_an_interrupt_leaves_it_to_the_cleaner(runtime: HandRuntime) -> None:
    run = write(runtime)
    with pytest.raises(KeyboardInterrupt):
        run.fail(KeyboardInterrupt())
    assert settled_behind(runtime, run) == [WRITE]


def test_a_session_known_to_have_ended_is_not_asked(runtime: HandRuntime) -> None:
    call = attached(runtime)
    call.session.ended = "gone"
    with pytest.raises(SessionLost):
        Run(call, WRITE)
    assert call.doubt is None


def test_what_was_given_up_is_settled_before_the_value_is_read(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT)
    with pytest.raises(OutcomeUnknown):
        run.fail(Expired())
    reading = Run(runtime.call(session=run.call.session), ops.Read(WRITE.key))
    assert reading.asks.exchange.settles
    reading.answer(Exchanged(True, 9, b""))
    assert reading.asks == ops.Read(WRITE.key)
    assert reading.answer(NOW_STORED).result == NOW_STORED


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), StoreFull("s", "full")])
def test_what_cannot_be_settled_keeps_nobody_from_reading(runtime: HandRuntime, error: Exception) -> None:
    run = write(runtime).fail(CUT)
    with pytest.raises(OutcomeUnknown):
        run.fail(Expired())
    reading = Run(runtime.call(session=run.call.session), ops.Read(WRITE.key)).fail(error)
    assert reading.answer(NOW_STORED).result == NOW_STORED


def test_what_was_given_up_of_another_value_or_session_does_not_keep_a_read_waiting(
    runtime: HandRuntime,
) -> None:
    run = write(runtime).fail(CUT)
    with pytest.raises(OutcomeUnknown):
        run.fail(Expired())
    for session, key in ((run.call.session, "~value/other"), (runtime.live(), WRITE.key)):
        assert Run(runtime.call(session=session), ops.Read(key)).asks == ops.Read(key)


def lost_in_doubt(runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch, *, ends: bool = True) -> Any:
    """The store may not have ended that session: what came late replaced what was written after a read."""
    run = write(runtime).fail(CUT)
    session = run.call.session
    monkeypatch.setattr(type(session.protocol), "settles_elsewhere", True)
    session.ended = "not renewed"
    with pytest.raises(OutcomeUnknown):
        run.fail(Expired())
    assert settled_behind(runtime, run) == []
    if ends:
        runtime.schedule(Job(session, None))
    return session


@pytest.mark.parametrize("answer", [Exchanged(True, 9, b""), SessionLost("ended")])
def test_what_was_given_up_in_the_session_before_is_settled_in_the_next(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """The store may not have ended that session: what came late replaced what was written behind a read."""
    before, now = lost_in_doubt(runtime, monkeypatch), runtime.live()
    reading = Run(runtime.call(session=now), ops.Read(WRITE.key))
    assert reading.asks.exchange.settles
    (reading.fail if isinstance(answer, Exception) else reading.answer)(answer)
    assert reading.asks == ops.Read(WRITE.key)
    assert reading.answer(NOW_STORED).result == NOW_STORED
    assert (now.ended, before.doubts) == (None, {})
    assert Run(runtime.call(session=now), ops.Read(WRITE.key)).asks == ops.Read(WRITE.key), "once is enough"


def test_what_the_store_has_ended_needs_no_settling(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_in_doubt(runtime, monkeypatch, ends=False)
    assert Run(runtime.call(session=runtime.live()), ops.Read(WRITE.key)).asks == ops.Read(WRITE.key)


def test_where_requests_do_not_say_whose_they_are_none_is_settled_by_another(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lost_in_doubt(runtime, monkeypatch)
    monkeypatch.setattr(type(before.protocol), "settles_elsewhere", False)
    assert Run(runtime.call(session=runtime.live()), ops.Read(WRITE.key)).asks == ops.Read(WRITE.key)


def test_the_next_session_that_ends_as_it_settles_is_lost_itself(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_in_doubt(runtime, monkeypatch)
    now = runtime.live()
    reading = Run(runtime.call(session=now), ops.Read(WRITE.key)).fail(SessionLost("whose"))
    with pytest.raises(SessionLost, match="its own"):
        reading.fail(SessionLost("its own"))
    assert now.ended == "its own"


def test_what_the_cleaner_has_settled_is_in_doubt_no_more(runtime: HandRuntime) -> None:
    run = write(runtime).fail(CUT)
    with pytest.raises(OutcomeUnknown):
        run.fail(Expired())
    run.call.unwind()
    (job,) = runtime.jobs
    assert [*job.session.doubts.values()] == [job.write]
    play(clean(job), Script(Settle=True))
    assert job.session.doubts == {}
