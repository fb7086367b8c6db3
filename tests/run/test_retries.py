"""How an operation of which the answer was lost is asked again: ``connect(retry=...)``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import tenacity

import recipes
from recipes import StoreUnavailable
from recipes._api.observing import Observing
from recipes._programs.observing import Observed
from recipes._run.retries import Retries, policy
from recipes.client import AsyncClient, Client
from tests.run.doubles import FaultyBackend, Settings

CUT = StoreUnavailable("h:1", "cut")
WAIT, STOP = tenacity.wait_fixed(0.25), tenacity.stop_after_attempt(3)


def settings(retry: Any, request_timeout_s: float = 5.0) -> Settings:
    return Settings(15.0, request_timeout_s, None, (), *policy(retry))


@pytest.mark.parametrize(
    ("retry", "found"),
    [
        (None, (None, None)),
        (WAIT, (WAIT, None)),
        (STOP, (None, STOP)),
        ((WAIT, STOP), (WAIT, STOP)),
        ([STOP, WAIT], (WAIT, STOP)),
    ],
)
def test_a_wait_a_stop_or_both(retry: Any, found: tuple[Any, Any]) -> None:
    assert policy(retry) == found


@pytest.mark.parametrize("retry", [3, 0.5, "fast", tenacity.Retrying(), lambda state: 1.0, (WAIT, 3)])
@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
def test_anything_else_is_refused(retry: Any, connect: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="retry is a wait of tenacity"):
        connect("memory://", retry=retry)


@pytest.mark.parametrize(("retry", "sign"), [((WAIT, WAIT), r"\+"), ((STOP, STOP), r"\|")])
def test_two_of_a_kind_are_refused(retry: Any, sign: str) -> None:
    with pytest.raises(ValueError, match=f"combine them with {sign}"):
        recipes.connect("memory://", retry=retry)


def test_tenacity_sees_the_clock_the_tries_and_the_error() -> None:
    seen: list[tuple[int, float, Any]] = []

    class Noting(tenacity.wait.wait_base):
        def __call__(self, retry_state: tenacity.RetryCallState) -> float:
            assert retry_state.outcome is not None
            seen.append(
                (
                    retry_state.attempt_number,
                    retry_state.seconds_since_start or 0.0,
                    retry_state.outcome.exception(),
                )
            )
            return 0.5

    retries = Retries(Noting(), tenacity.stop_after_delay(2.0), started_at=100.0)
    overs = []
    for now in (100.5, 101.5, 102.0):
        assert retries.after(CUT, now) == 0.5
        overs.append(retries.over)
    assert seen == [(1, 0.5, CUT), (2, 1.5, CUT), (3, 2.0, CUT)]
    assert overs == [False, False, True]


def unanswered(request: Any) -> None:
    if type(request.op).__name__ == "Enqueue":
        raise StoreUnavailable("memory://", "cut")


def test_a_stop_ends_a_call_that_has_time_left() -> None:
    backend = FaultyBackend()
    client = Client(backend, settings((tenacity.wait_fixed(0.001), STOP)))
    backend.before = unanswered
    with pytest.raises(StoreUnavailable) as raised:
        client.lock("x").acquire(timeout=60)
    assert not isinstance(raised.value, recipes.LockTimeout)
    assert backend.asked.count("Enqueue") == 3
    backend.before = lambda request: None
    with client.lock("x") as grant:
        assert grant.held
    client.close()


async def stopped(backend: FaultyBackend) -> None:
    client = AsyncClient(backend, settings((tenacity.wait_fixed(0.001), STOP)))
    backend.before = unanswered
    with pytest.raises(StoreUnavailable):
        await client.lock("x").acquire(timeout=60)
    backend.before = lambda request: None
    await client.close()


def test_a_stop_ends_a_call_of_asyncio() -> None:
    backend = FaultyBackend()
    asyncio.run(stopped(backend))
    assert backend.asked.count("Enqueue") == 3


@pytest.mark.parametrize("kind", ["List", "Open"])
def test_a_stop_ends_no_observing(kind: str) -> None:
    """It goes on behind all calls, and outlasts outages; it showed its first one for ever after."""
    left = [StoreUnavailable("memory://", "cut")] * 9

    def unanswered(request: Any) -> None:
        if type(request.op).__name__ == kind and left:
            raise left.pop()

    backend = FaultyBackend()
    backend.before = unanswered
    client = Client(backend, settings((tenacity.wait_fixed(0.001), STOP)))
    with Observing(client._runtime, Observed("x", 100), len) as seen:
        assert seen.next() == 0
    assert not left
    client.close()


def test_a_stop_ends_a_call_for_which_no_session_can_be_started() -> None:
    def closed(request: Any) -> None:
        if type(request.op).__name__ == "Open":
            raise StoreUnavailable("memory://", "cut")

    backend = FaultyBackend()
    backend.before = closed
    client = Client(backend, settings((tenacity.wait_fixed(0.001), STOP)))
    with pytest.raises(StoreUnavailable) as raised:
        client.lock("x").acquire(timeout=60)
    assert not isinstance(raised.value, recipes.LockTimeout)
    backend.before = lambda request: None
    assert client.lock("x").acquire(timeout=60).held  # the keepalive loop has not stopped
    client.close()


def test_no_pause_goes_past_the_deadline() -> None:
    backend = FaultyBackend()
    client = Client(backend, settings(tenacity.wait_fixed(3600)))
    client.open()
    backend.before = unanswered
    with pytest.raises(recipes.StoreTimeout):
        client.lock("x").acquire(timeout=0.1)
    backend.before = lambda request: None
    client.close()


def test_what_is_released_is_withdrawn_whatever_the_policy_says() -> None:
    lost = 5

    def silent(request: Any) -> None:
        nonlocal lost
        if type(request.op).__name__ == "Withdraw" and lost:
            lost -= 1
            raise StoreUnavailable("memory://", "cut")

    backend = FaultyBackend()
    retry = tenacity.wait_fixed(0.001), tenacity.stop_after_attempt(1)
    client = Client(backend, settings(retry))
    grant = client.lock("x").acquire()
    backend.before = silent
    assert grant.release()
    assert backend.server.contenders() == []
    client.close()
