"""The steps of the connections of a session, taken by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.stores.redis.places import One
from recipes.stores.redis.wire import RETRY_S, Dial, Exchange, Hear, Pause, Wire
from tests.stores.redis.fakes import settings_for


class Link:
    """What the steps pass on."""

    address = "127.0.0.1", 1
    hears = 7

    def close(self) -> None:
        pass


def does(*heard: Any) -> Any:
    """Return what a listener does next when it hears this, or this is raised."""
    steps = Wire(settings_for(1)).listen(Link())
    step = next(steps)
    for one in heard:
        assert isinstance(step, Hear)
        step = steps.throw(one) if isinstance(one, Exception) else steps.send(one)
        if isinstance(step, Exchange):
            assert (list(step.commands), step.replies) == ([("PING",)], 0)
            step = steps.send([])
    steps.close()
    return step


def test_a_listener_that_is_cut_connects_at_once() -> None:
    assert isinstance(does(OSError("cut")), Dial)


@pytest.mark.parametrize("how", [7, [], [b"message", b"a"], ValueError("no reply")])
def test_a_listener_that_hears_no_message_pauses_before_it_connects(how: Any) -> None:
    assert does(how) == Pause(RETRY_S)


@pytest.mark.parametrize("answer", [[b"pong", b""], [b"message", b"lock:~bell:me", b"a g1"]])
def test_a_listener_that_hears_nothing_asks_and_is_content_with_any_answer(answer: Any) -> None:
    assert isinstance(does(None, answer, None, answer, None), Hear)


def test_a_listener_whose_question_is_not_answered_connects_anew() -> None:
    assert isinstance(does(None, [b"pong", b""], None, None), Dial)


@pytest.mark.parametrize("heard", [[b"pong", b""], None], ids=["something", "nothing"])
def test_a_listener_leaves_a_former_master_that_goes_on(heard: Any) -> None:
    place, replacement = One([Link.address]), ("127.0.0.1", 2)
    steps = Wire(settings_for(1, place=place, silence_s=0.0)).listen(Link())
    next(steps)
    step = steps.send([b"pong", b""])
    assert isinstance(step, Hear)
    place.servers = [replacement]  # as requests have found
    step = steps.send(heard)
    assert isinstance(step, Dial)
    assert step.address == replacement
    steps.close()
