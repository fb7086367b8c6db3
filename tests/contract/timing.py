"""Timeouts mean the same everywhere and are kept, whatever the network does (L6, L9)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from recipes import LockTimeout, StoreUnavailable
from tests.contract.world import World
from tests.pace import taking

SLACK_S = 0.25


class Timing:
    """How long a call may take."""

    def test_zero_tries_once_and_never_queues(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x", timeout=0)
        assert grant.held
        before = world.store.contenders("x")
        with taking(SLACK_S), pytest.raises(LockTimeout) as refused:
            b.acquire("x", timeout=0)
        assert (refused.value.lock, refused.value.timeout_s) == ("x", 0)
        assert isinstance(refused.value, TimeoutError)
        assert world.store.contenders("x") == before

    def test_a_third_of_a_second_is_that(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        before = world.store.contenders("x")
        with taking(0.3 + SLACK_S, at_least_s=0.3), pytest.raises(LockTimeout) as refused:
            b.acquire("x", timeout=0.3)
        assert (refused.value.timeout_s, refused.value.position) == (0.3, 1)
        assert b.wait_clean()
        assert world.store.contenders("x") == before
        a.release(grant)
        assert b.acquire("x", timeout=5).held

    def test_none_waits_until_it_is_granted(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x", timeout=None)
        waiting = b.queue_up("x", timeout=None)
        assert not waiting.wait(0.3)
        a.release(grant)
        assert waiting.result().held

    @pytest.mark.needs("has_queue")
    def test_one_deadline_for_the_whole_call_however_often_it_wakes(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grants = [a.acquire("x")]
        between = b.queue_up("x")
        with taking(1.2 + SLACK_S, at_least_s=1.2):
            waiting = c.queue_up("x", timeout=1.2)
            a.release(grants[0])  # it moves up; kazoo's lock would start its time again
            between.result()
            between_again = a.queue_up("x")
            assert isinstance(waiting.error(), LockTimeout)
        assert not between_again.done

    @pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, math.inf, 1e12, True, "1"], ids=str)
    def test_what_is_no_timeout_is_refused_before_anything_is_sent(self, world: World, timeout: Any) -> None:
        client = world.client(is_open=False)
        with pytest.raises(TypeError if isinstance(timeout, bool | str) else ValueError):
            client.acquire("x", timeout=timeout)
        assert client.tap.asked == []

    @pytest.mark.parametrize("is_open", [True, False], ids=["open", "not-open"])
    def test_a_try_takes_no_longer_than_its_caller_allows(self, world: World, is_open: bool) -> None:
        a, b = world.client(frail=True, request_timeout=5, is_open=is_open), world.client()
        a.line.silence()
        with taking(0.5 + SLACK_S, at_least_s=0.5), pytest.raises(StoreUnavailable):
            a.try_acquire("x", timeout=0.5)
        silent = pytest.raises(LockTimeout, match="no answer from")
        with taking(SLACK_S), silent as late:
            a.acquire("x", timeout=0)
        assert late.value.timeout_s == 0
        assert isinstance(late.value.__cause__, StoreUnavailable)
        a.line.heal()
        assert a.wait_clean()
        if world.store.has_queue:
            assert b.try_acquire("x", timeout=5).held  # nothing is left in the queue
        else:  # a request that arrives late holds for as long as its lease, and no longer
            assert b.acquire("x", timeout=30).held

    @pytest.mark.parametrize("timeout", [0, 0.04, -1, math.nan, math.inf, True, "1"], ids=str)
    def test_a_try_without_time_is_refused_before_anything_is_sent(self, world: World, timeout: Any) -> None:
        client = world.client(is_open=False)
        with pytest.raises(TypeError if isinstance(timeout, bool | str) else ValueError):
            client.try_acquire("x", timeout=timeout)
        assert client.tap.asked == []

    def test_deadlines_are_kept_while_the_server_is_silent(self, world: World) -> None:
        a, b = world.client(frail=True, request_timeout=0.8), world.client()
        held = a.acquire("held")
        a.line.silence()
        with taking(1.0 + SLACK_S, at_least_s=1.0), pytest.raises(LockTimeout):
            a.acquire("x", timeout=1.0)
        with taking(0.8 + SLACK_S), pytest.raises((LockTimeout, StoreUnavailable)):
            a.try_acquire("x")
        with taking(0.8 + SLACK_S), pytest.raises(StoreUnavailable):
            a.verify(held)
        with taking(0.8 + SLACK_S):
            a.release(held)
        assert not held.held
        a.line.heal()
        assert a.wait_clean()
        assert world.store.everything() == []
        assert b.acquire("held", timeout=5).held

    def test_a_wait_without_end_goes_on_through_an_outage(self, world: World) -> None:
        a, b = world.client(), world.client(frail=True, request_timeout=0.8)
        grant = a.acquire("x")
        waiting = b.queue_up("x", timeout=None)
        b.line.silence()
        a.release(grant)
        assert not waiting.wait(0.8)
        b.line.heal()
        assert waiting.result(15).held
        assert len(world.store.contenders("x")) == 1

    def test_close_returns_while_the_server_is_silent(self, world: World) -> None:
        client = world.client(frail=True)
        grant = client.acquire("x")
        client.line.silence()
        with taking(5):
            client.close()
        assert not grant.held

    def test_opening_fails_fast_when_nothing_answers(self, world: World) -> None:
        client = world.client(frail=True, is_open=False, request_timeout=0.3)
        client.line.silence()
        with taking(2 * 0.3 + SLACK_S), pytest.raises(StoreUnavailable):
            client.open()
