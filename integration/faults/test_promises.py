"""Nothing grows (L8), and nothing hangs at the end (L9)."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import recipes
from integration import servers
from integration.faults.labs import SESSION_S, Lab, at_once
from integration.faults.looking import taking
from recipes._run.clock import boot_time

CYCLES = 300
TIMEOUTS = 100
CLOSE_S = 5.0


def test_promise_l8_nothing_is_left_of_many_cycles(lab: Lab) -> None:
    # A machine that stands still for ten seconds ends a session of twenty on ZooKeeper.
    longest_s = 20 if isinstance(lab.server, servers.Redis) else 60  # Redis: no longer than its restart_grace
    one, holder = (lab.actor(session_timeout=longest_s) for _ in range(2))
    held = holder.acquire("held")

    def cycle(times: int) -> None:
        for _ in range(times):
            assert one.acquire(lab.name).release()

    def expire(times: int) -> None:
        for number in range(times):
            with pytest.raises(recipes.LockTimeout):
                one.acquire("held", timeout=(0.001, 0.003, 0.01)[number % 3])

    cycle(10)  # whatever is made once is made now
    expire(10)
    with pytest.raises(recipes.LockTimeout):
        one.acquire("held", timeout=2)  # which is long enough for a watch
    assert servers.eventually(lambda: one.client.pending_cleanups == 0, 20)
    before = counted(lab)
    cycle(CYCLES)
    expire(TIMEOUTS)
    assert servers.eventually(lambda: one.client.pending_cleanups == 0, 20)
    assert servers.eventually(lambda: not exceeding(before, counted(lab)), 20), exceeding(
        before, counted(lab)
    )
    assert held.verify()
    assert len(one.client.grants) == 0
    # An acquire that timed out before etcd answered leaves a tombstone, until the session ends.
    left = servers.leftovers(lab.server, lab.prefix).contenders
    lab.figure(f"{len(left) - 1} keys of sessions")
    assert len(left) <= 1 + 2 + TIMEOUTS + 10
    one.call(one.client.close)
    assert lab.contenders_become(1)
    assert len(servers.leftovers(lab.server, lab.prefix).contenders) <= 2  # the other's, and its anchor


@pytest.fixture(autouse=True)
def _quick_collections() -> None:
    """Have `counted` look at what a test makes, and not at what others left: that holds up every thread."""
    gc.collect()
    gc.freeze()


def counted(lab: Lab) -> dict[str, int]:
    """Count everything that could grow."""
    gc.collect()
    counts = {
        "threads": threading.active_count(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "contenders": len(lab.contenders()),
        "sessions": len(servers.sessions(lab.server)),
    }
    if not isinstance(lab.server, servers.Files):
        counts["watches"] = lab.server.watches()
    return counts


def exceeding(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return by how much counts have grown; the pool of connections may be a few larger than it was."""
    allowed = {"descriptors": 4}
    grown = {name: after[name] - before[name] for name in before}
    return {name: more for name, more in grown.items() if more > allowed.get(name, 0)}


@at_once(how=("cut", "blackhole"))
def test_promise_l9_close_returns_with_the_server_out_of_reach(lab: Lab, how: str) -> None:
    close_all(lab, how)


@at_once()
def test_promise_l9_close_returns_with_the_server_dead(lab: Lab) -> None:
    close_all(lab, "killed")


def close_all(lab: Lab, how: str) -> None:
    holder, waiter = lab.actor(proxied=True), lab.actor(proxied=True)
    held = holder.acquire(lab.name)
    waiting = waiter.start_acquire(lab.name)
    assert lab.contenders_become(2)

    with away(lab, how):
        for one in (holder, waiter):
            began = boot_time()
            with taking(CLOSE_S):
                one.call(one.client.close)
            lab.figure(f"closed in {boot_time() - began:.2f} s")
        assert isinstance(waiting.exception(5), recipes.ClientClosed)
        assert held.held is False
        assert held.release() is False
        with taking(0.1):
            holder.call(holder.client.close)
    assert lab.contenders_become(0, within_s=20)


@at_once(mode=("quiet", "waiting"), how=("cut", "blackhole"))
def test_promise_l9_exit_without_close_and_the_server_out_of_reach(lab: Lab, mode: str, how: str) -> None:
    run_to_the_end(lab, mode, how)


@at_once(mode=("quiet", "waiting"))
def test_promise_l9_exit_without_close_and_the_server_dead(lab: Lab, mode: str) -> None:
    run_to_the_end(lab, mode, "killed")


def run_to_the_end(lab: Lab, mode: str, how: str) -> None:
    script = lab.worker("forgetful", mode, session_s=2 * SESSION_S, proxied=True)
    with away(lab, how):
        began = boot_time()
        script.tell("go on")
        script.next_line()
        with taking(CLOSE_S):
            assert script.finish() == 0
        lab.figure(f"exited in {boot_time() - began:.2f} s")
    assert lab.contenders_become(0, within_s=30)


@contextlib.contextmanager
def away(lab: Lab, how: str) -> Iterator[None]:
    """Have the server cut off, silent, or dead; it dies once for all cases, and comes back with its data."""
    if how != "killed":
        getattr(lab.proxy, how)()
        yield
        lab.proxy.heal()
        return
    if lab.together.wait() == 0:
        lab.server.kill()
    lab.together.wait()
    yield
    if lab.together.wait() == 0:
        lab.server.start()
    lab.together.wait()
