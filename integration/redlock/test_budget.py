"""What Redlock costs: requests to each server, and how long the slowest of the quorum is waited for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from integration.proxy import Proxy
from integration.redlock.store import url_to

SLOW_S = 0.1
SLOWER_S = 5.0


@pytest.fixture
def proxies(five: list[servers.Redis]) -> Iterator[list[Proxy]]:
    """Yield a proxy before each server."""
    with contextlib.ExitStack() as running:
        yield [running.enter_context(Proxy.of(one)) for one in five]


@pytest.mark.measured
def test_a_free_lock_is_three_requests_to_each_server(proxies: list[Proxy], prefix: str) -> None:
    with recipes.connect(url_to(proxies, prefix), restart_grace=0, session_timeout=60) as client:
        lock = client.lock("x")
        for turn in (1, 2):
            before = [one.counts() for one in proxies]
            with lock:
                pass
            # The last that each is asked; a minority may not have been waited for.
            assert eventually(
                lambda turn=turn: all(one.counts().requests["drop"] == turn for one in proxies), 10
            )
        for one, counted in zip(proxies, before, strict=True):
            assert (one.counts() - counted).requests == {"take": 1, "note": 1, "drop": 1}


def test_what_is_waited_for_is_three_round_trips_to_the_slowest_of_the_quorum(
    proxies: list[Proxy], prefix: str
) -> None:
    with recipes.connect(url_to(proxies, prefix), restart_grace=0, session_timeout=60) as client:
        lock = client.lock("x")
        with lock:
            pass
        for one, delay_s in zip(proxies, (0.0, SLOWER_S, SLOW_S, SLOW_S, SLOWER_S), strict=True):
            one.delay(delay_s / 2)
        begun = time.monotonic()
        with lock:
            pass
        took_s = time.monotonic() - begun
        assert 3 * SLOW_S * 0.9 < took_s < SLOWER_S
        for one in proxies:
            one.delay(0)
