"""Nothing grows over many cycles, nor over many that go wrong (L8): the long runs of that promise."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

import recipes
from integration import servers
from integration.faults.actors import Actor, AsyncActor
from integration.faults.labs import Lab
from integration.faults.looking import creates, deletes, taking
from integration.faults.test_promises import counted, exceeding

CYCLES = int(os.environ.get("RECIPES_TEST_CYCLES", "10000"))
FAULTED = CYCLES // 10
SESSION_S = 20.0  # no fault of these is to last that long
SETTLED_S = 30.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_promise_l8_ten_thousand_cycles(lab: Lab) -> None:
    one, other = (lab.actor(session_timeout=SESSION_S) for _ in range(2))

    def cycle(number: int) -> None:
        """Acquire and release; every tenth time hand it over, with a watch."""
        held = one.acquire(lab.name)
        waiting = other.start_acquire(lab.name) if number % 10 == 0 else None
        assert held.release()
        if waiting is not None:
            assert waiting.result(60).release()

    leaves_nothing(lab, one, other, cycle, CYCLES)


def test_promise_l8_a_thousand_faulted_cycles(lab: Lab) -> None:
    holder = lab.actor(session_timeout=SESSION_S)
    one = lab.actor(proxied=True, session_timeout=SESSION_S, request_timeout=5.0)
    assert holder.acquire("held").held
    chance = random.Random(7)
    struck: Counter[str] = Counter()

    def watch() -> None:
        """Wait for long enough to watch: a watch stays, and one that was cut off comes with the next wait."""
        with pytest.raises(recipes.LockTimeout):
            one.acquire("held", timeout=2)

    def cycle(number: int) -> None:
        """Have one thing go wrong; then see that the client goes on."""
        kinds: list[Callable[[], str]] = [cut, lost_create, lost_delete, expire, give_up]
        struck[kinds[number % len(kinds)]()] += 1

    def cut() -> str:
        grant = one.acquire(lab.name)
        lab.proxy.reset()
        grant.release()
        return "connections cut"

    def lost_create() -> str:
        trap = lab.proxy.drop_reply(match=creates(lab.server))
        one.acquire(lab.name).release()
        assert trap.sprung.is_set()
        return "replies to creates lost"

    def lost_delete() -> str:
        trap = lab.proxy.drop_reply(match=deletes(lab.server))
        one.acquire(lab.name).release()
        assert trap.sprung.wait(5)
        return "replies to deletes lost"

    def expire() -> str:
        with taking(0.5), pytest.raises(recipes.LockTimeout):
            one.acquire("held", timeout=chance.choice((0.001, 0.003, 0.02)))
        return "timeouts"

    def give_up() -> str:
        if not isinstance(one, AsyncActor):
            return expire()
        task = one.start(one.client.lock("held").acquire)
        with contextlib.suppress(TimeoutError):
            task.result(chance.choice((0.0, 0.001, 0.01)))
        task.cancel()
        with pytest.raises(CancelledError):
            task.result(30)
        return "cancellations"

    leaves_nothing(lab, one, holder, cycle, FAULTED, ready=watch)
    lab.figure(", ".join(f"{count} {what}" for what, count in struck.items()))
    assert not lab.seen.of("session.lost")


def leaves_nothing(
    lab: Lab,
    one: Actor,
    other: Actor,
    cycle: Callable[[int], None],
    times: int,
    *,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """See that after so many cycles all is as it was after a few, and that closing leaves nothing.

    ``ready`` makes what may be there or not, just before each count.
    """
    held, waiting = one.acquire("first"), other.start_acquire("first")
    lab.seen.wait("lock.queued", name="first")  # so that whatever is made once is made now: for watches, too
    assert held.release()
    assert waiting.result(30).release()
    for number in range(20):
        cycle(number)
    ready()
    before = settled(lab, one, other, {})
    for number in range(times):
        cycle(number)
    ready()
    after = settled(lab, one, other, before)
    lab.figure(f"before {before}, after {times} cycles {after}")
    assert exceeding(before, after) == {}
    one.call(one.client.close)
    other.call(other.client.close)
    assert lab.contenders_become(0)
    assert not servers.settle(lab.server, lab.prefix)


def settled(lab: Lab, one: Actor, other: Actor, before: dict[str, int]) -> dict[str, int]:
    """Count once all cleaning is done, again until nothing exceeds ``before``; returns the last count."""
    for client in (one.client, other.client):
        assert servers.eventually(lambda client=client: client.pending_cleanups == 0, SETTLED_S)
        assert all(grant.name == "held" for grant in client.grants)
    counts: list[dict[str, int]] = []

    def is_as_before() -> bool:
        counts.append(counted(lab))
        return exceeding(before, counts[-1]) == {}

    servers.eventually(is_as_before, SETTLED_S)
    return counts[-1]
