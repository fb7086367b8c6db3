"""Wall clocks that jump, and renewals that come no more."""

from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path
from unittest import mock

import pytest

from integration.faults.actors import AsyncActor
from integration.faults.labs import LASTING_S, SESSION_S, Lab, at_once
from integration.faults.looking import hold_fault
from integration.faults.workers import Worker
from integration.harness.finding import find_faketime
from integration.lateness import PutOff
from integration.needing import needed
from recipes._run.clock import boot_time

pytestmark = pytest.mark.long
SOON_S = 20.0
HOUR_S = 3600


def test_fault_22_wall_clock_jumps_an_hour(lab: Lab, tmp_path: Path) -> None:
    session_s = 15.0  # of a holder that nothing but the jumps may make doubt its session
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    environment = {
        "LD_PRELOAD": str(needed("libfaketime", find_faketime)),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    address = lab.server.url(lab.prefix)
    with Worker("faults.worker", lab.api, address, session_s, environment=environment) as holder:
        token = holder.ask("acquire", lab.name, SOON_S)
        waiting = lab.actor().start_acquire(lab.name, timeout=150)
        lab.seen.wait("lock.queued", name=lab.name)
        for jump in (HOUR_S, -HOUR_S, 0):
            before = holder.ask("wall")
            offset.write_text(f"{jump:+d}\n")
            assert abs(holder.ask("wall") - before) > HOUR_S / 2  # it did jump
            began, late = boot_time(), PutOff(holder.pid)
            hold_fault(session_s)
            assert holder.ask("state") == {"held": True, "token": token, "reason": None}
            assert holder.ask("verify") is True
            late_s = lab.pace.late_s(began) + late.seconds
            assert boot_time() - began < session_s + SESSION_S + late_s
        for event in ("lock.suspect", "lock.lost", "session.lost"):
            assert holder.ask("told", event) == 0
        assert not waiting.done()
        assert holder.ask("release") is True
        assert waiting.result(SOON_S).token > token


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@at_once(how=("raises", "dies"))
def test_fault_29_renewing_ends(lab: Lab, how: str) -> None:
    one = lab.actor(session_timeout=LASTING_S)
    held = one.acquire(lab.name)
    waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    if how == "raises":
        with mock.patch.object(held.grant._hold.session.protocol, "renew", side_effect=ZeroDivisionError):
            assert held.wait_lost(2 * LASTING_S)
    else:
        end_keepalive(one)
        hold_fault(LASTING_S)
    assert held.held is False
    granted = waiting.result(LASTING_S + SOON_S)
    assert held.held is False
    assert granted.verify()
    assert granted.release()
    again = one.acquire(lab.name, timeout=SOON_S)  # it renews again
    assert held.wait_lost(5)
    hold_fault(LASTING_S)
    assert again.verify()
    assert again.held
    assert again.token > granted.token
    assert len(lab.seen.of("lock.lost", token=held.token)) == 1


def end_keepalive(one: object) -> None:
    """End the thread or task that renews, from outside."""
    runtime = one.client._runtime  # type: ignore[attr-defined]
    if isinstance(one, AsyncActor):
        one._loop.call_soon_threadsafe(runtime._keepalive.cancel)
        return
    thread: threading.Thread = runtime._keepalive
    assert thread.ident is not None
    # It is raised between two steps of Python: when the thread wakes for the next renewal.
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


@at_once()
def test_fault_29_renewing_starves(lab: Lab) -> None:
    hog = lab.worker("hog")
    granted = lab.actor(session_timeout=LASTING_S).acquire("hogged", timeout=SESSION_S + 2 * SOON_S)
    granted_at = boot_time()
    seen = json.loads(hog.next_line())
    assert seen["seen_at"] <= seen["deadline"]
    assert seen["seen_at"] <= granted_at  # S2
    lab.figure(f"held until {seen['deadline'] - seen['seen_at']:.6f} s before the deadline")
    assert seen["deadline"] - seen["over_at"] < 0.5  # ``over_at`` is later by what it was put off
    assert granted.verify()
    assert granted.release()
    assert json.loads(hog.next_line()) == {"told": True, "again": True}
