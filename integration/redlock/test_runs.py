"""Clients that hold one lock in turn, while servers are killed and started again without their data.

Each client notes from when until when its grant was proven. No two of them may hold at once, and tokens
rise; the servers' clocks differ by less than the grace.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from integration.needing import needed
from integration.redlock.store import url_to
from recipes._run.clock import boot_time

GRACE_S = 4
SESSION_S = 2
AHEAD_S = (0, 1, 2, 0, 3)
"""How far the servers' clocks are ahead."""
OPTIONS: dict[str, Any] = {"session_timeout": SESSION_S, "restart_grace": GRACE_S, "request_timeout": 5}


@dataclass
class History:
    """What the clients noted: (from when, until when, token) of each grant."""

    grants: list[tuple[float, float, int]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    errors: list[BaseException] = field(default_factory=list)

    def note(self, grant: Any, since: float) -> bool:
        """Note that a grant is held now, if it is; whether it is."""
        now = boot_time()
        if not grant.held:
            return False
        self.grants = [one for one in self.grants if one[2] != grant.token]
        self.grants.append((since, now, grant.token))
        return True

    def overlaps(self) -> list[Any]:
        """Return the pairs that were held at the same time."""
        return [(one, two) for one, two in pairwise(sorted(self.grants)) if two[0] < one[1]]

    def falls(self) -> list[Any]:
        """Return the pairs of which the later has no larger token."""
        return [(one, two) for one, two in pairwise(sorted(self.grants)) if two[2] <= one[2]]


class Load:
    """Clients of both APIs, each in a thread, until it ends."""

    def __init__(self, url: str, options: dict[str, Any], clients: int = 4) -> None:
        self.histories = [History() for _ in range(clients)]
        self.over = threading.Event()
        self.errors: list[BaseException] = []
        self._url, self._options = url, options
        kinds = (self._blocking, self._asyncio)
        self._threads = [
            threading.Thread(target=self._run, args=(kinds[at % 2], at)) for at in range(clients)
        ]

    def __enter__(self) -> Self:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for one in self._threads:
            one.join(60)
            assert not one.is_alive(), "it should have ended"

    @property
    def grants(self) -> int:
        """Return how many grants there were."""
        return sum(len(one.grants) for one in self.histories)

    def together(self) -> History:
        """Return what all of them noted."""
        return History([grant for one in self.histories for grant in one.grants])

    def _run(self, work: Callable[[History, random.Random], Any], at: int) -> None:
        try:
            work(self.histories[at], random.Random(at))
        except BaseException as error:
            self.errors.append(error)

    def _blocking(self, history: History, drawn: random.Random) -> None:
        with recipes.connect(self._url, **self._options) as client:
            while not self.over.is_set():
                with contextlib.suppress(recipes.LockTimeout, recipes.StoreUnavailable, recipes.LockLost):
                    grant = client.lock("x").acquire(timeout=2)
                    since = boot_time()
                    until = since + _hold_s(drawn)
                    while history.note(grant, since) and boot_time() < until:
                        self.over.wait(0.005)
                    grant.release()

    def _asyncio(self, history: History, drawn: random.Random) -> None:
        async def work() -> None:
            async with recipes.connect_async(self._url, **self._options) as client:
                while not self.over.is_set():
                    with contextlib.suppress(recipes.LockTimeout, recipes.StoreUnavailable, recipes.LockLost):
                        grant = await client.lock("x").acquire(timeout=2)
                        since = boot_time()
                        until = since + _hold_s(drawn)
                        while history.note(grant, since) and boot_time() < until:  # noqa: ASYNC110
                            await asyncio.sleep(0.005)
                        await grant.release()

        asyncio.run(work())


def _hold_s(drawn: random.Random) -> float:
    return 6.0 if drawn.random() < 0.05 else drawn.random() / 20


@pytest.fixture
def clocked() -> Iterator[list[servers.Redis]]:
    """Yield five servers whose clocks differ."""
    with contextlib.ExitStack() as running:
        five = [needed("redis-7", servers.redis) for _ in range(5)]
        for one, ahead_s in zip(five, AHEAD_S, strict=True):
            one.set_clock(ahead_s)
            running.enter_context(one)
        yield five


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 3), *(pytest.param(seed, 50, marks=pytest.mark.long) for seed in range(1, 7))]
)
def test_no_two_hold_and_tokens_rise_while_servers_forget(
    clocked: list[servers.Redis], seed: int, rounds: int
) -> None:
    drawn = random.Random(seed)
    with Load(url_to(clocked, "runs"), OPTIONS) as load:
        assert eventually(lambda: load.grants > 3, 60), load.errors
        for _ in range(rounds):
            down = drawn.sample(clocked, drawn.choice((1, 1, 2, 2, 3)))
            for one in down:
                one.kill()
            load.over.wait(drawn.random())
            for one in down:
                one.start()
            before = load.grants
            if drawn.random() < 0.5:
                assert eventually(lambda: load.grants > before + 3, 60), load.errors  # noqa: B023 - now
            else:
                load.over.wait(drawn.random())
        assert eventually(lambda: load.grants > 3 * rounds, 60), load.errors
    history = load.together()
    assert load.errors == []
    assert history.overlaps() == []
    assert history.falls() == []


def restart(one: servers.Redis) -> None:
    """Have it forget everything."""
    one.kill()
    one.start()


def flush(one: servers.Redis) -> None:
    """The same, without an end."""
    one.ask("FLUSHALL")


@pytest.mark.parametrize("forget", [restart, flush])
def test_what_a_majority_forgot_is_granted_again_once_its_holder_knows(
    clocked: list[servers.Redis], forget: Callable[[servers.Redis], None]
) -> None:
    with (
        recipes.connect(url_to(clocked, "x"), **OPTIONS) as client,
        recipes.connect(url_to(clocked, "x"), **OPTIONS) as other,
    ):
        before = client.lock("x").acquire(timeout=60)
        begun = boot_time()
        for one in clocked[:3]:
            forget(one)
        after = other.lock("x").acquire(timeout=60)
        assert boot_time() - begun >= GRACE_S
        assert not before.held
        assert after.token > before.token
        after.release()
