"""The steps of the connections of a session, taken by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.stores.redis.wire import RETRY_S, Dial, Exchange, Hear, Pause, Wire
from tests.stores.redis.fakes import settings_for


class Link:
    """What the steps pass on."""

    address = "127.0.0.1", 1
    hears = 7

    def close(self) -> None:
        pass


def lost(how: Any) -> Any:
    """Return what a listener does next when it hears this, or this is raised."""
    steps = Wire(settings_for(1)).listen(Link())
    assert isinstance(next(steps), Hear)
    next_one = steps.throw(how) if isinstance(how, Exception) else steps.send(how)
    steps.close()
    return next_one


def test_a_listener_that_is_cut_connects_at_once() -> None:
    assert isinstance(lost(OSError("cut")), Dial)


@pytest.mark.parametrize("how", [7, [], [b"message", b"a"], ValueError("no reply")])
def test_a_listener_that_hears_no_message_pauses_before_it_connects(how: Any) -> None:
    assert lost(how) == Pause(RETRY_S)


def test_a_listener_that_hears_nothing_asks() -> None:
    assert isinstance(lost(None), Exchange)
