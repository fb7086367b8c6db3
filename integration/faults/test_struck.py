"""Fault 27, place by place: an interrupt wherever a link to a real server hears of it leaves nothing.

In memory and on SQLite ``tests/run/test_struck.py`` and ``tests/run/test_interrupted.py`` do it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import recipes
from integration import servers
from tests.heap import INTERRUPTED
from tests.run.interrupted import CALLS, Pair, every, interrupted_at
from tests.run.striking import EVERYWHERE, Strike

pytestmark = [
    *INTERRUPTED,
    pytest.mark.parametrize("server", servers.ASKED, indirect=True),
]

SOON_S = 10
STRIDE = 5
FAR = 97
"""The stride where every noun is interrupted: the package's code above the store is the same in memory."""


@pytest.fixture
def client(url: str, server: servers.Server) -> Iterator[recipes.Client]:
    """Yield an open client, with whose session nothing can go wrong."""
    with recipes.connect(url, session_timeout=20, **server.options) as one:
        yield one


@pytest.fixture(params=[pytest.param(STRIDE, id="some"), pytest.param(1, id="all", marks=EVERYWHERE)])
def places(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the places at which to strike, one after the other."""
    return itertools.count(1, request.param)


def struck(call: Callable[[], object], at: int) -> str:
    """Return where ``call`` was interrupted; "" if it was not."""
    strike = Strike(at)
    try:
        with strike:
            call()
    except KeyboardInterrupt:
        return strike.where
    return ""


def enter(lock: Any) -> None:
    with lock:
        pass


def wait_in_vain(lock: Any) -> None:
    with pytest.raises(recipes.LockTimeout):
        lock.acquire(timeout=0.02)


def look(lock: Any) -> None:
    lock.contenders()


@pytest.mark.parametrize("work", [enter, look])
def test_fault_27_a_call_interrupted_anywhere_leaves_nothing(
    client: recipes.Client, places: Iterator[int], work: Callable[[Any], None], figure: Callable[[str], None]
) -> None:
    lock = client.lock("x")
    for at in places:
        where = struck(lambda: work(lock), at)
        if not where:
            break
        assert lock.acquire(timeout=SOON_S).release(), where
        assert client.grants == [], where
    figure(f"{at} places")
    assert at > 100
    assert servers.eventually(lambda: client.pending_cleanups == 0, SOON_S)
    assert lock.contenders() == []


def test_fault_27_a_wait_interrupted_anywhere_leaves_nothing(
    client: recipes.Client, url: str, server: servers.Server, places: Iterator[int]
) -> None:
    lock = client.lock("x")
    with recipes.connect(url, session_timeout=20, **server.options) as other:
        for at in places:
            held = other.lock("x").acquire(timeout=SOON_S)
            where = struck(lambda: wait_in_vain(lock), at)
            assert held.release(), where
            assert lock.acquire(timeout=SOON_S).release(), where
            if not where:
                break
    assert at > 100
    assert servers.eventually(lambda: client.pending_cleanups == 0, SOON_S)
    assert lock.contenders() == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stride", [FAR, 13])
def test_fault_27_any_call_of_any_noun_interrupted_anywhere_leaves_nothing(
    url: str, server: servers.Server, stride: int, figure: Callable[[str], None]
) -> None:
    pair = Pair(lambda: recipes.connect(url, session_timeout=20, **server.options))
    found = [interrupted_at(pair, call, every(stride)) for call in CALLS]
    pair.see_all_free()
    pair.close()
    figure(f"{sum(found)} places, every {stride}")
