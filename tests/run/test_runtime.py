from __future__ import annotations

import os
import uuid

import pytest

from recipes import events
from recipes._contract.operations import Entry, Ticket
from recipes._programs.cleaner import Job
from recipes._programs.hold import HeldState
from recipes._run.clock import boot_time
from recipes._run.retries import LONGEST_PAUSE_S
from recipes._run.runtime import Runtime, new_id
from recipes.errors import StoreUnavailable
from recipes.events import Transition, subscribe
from recipes.stores.memory import MemoryBackend, MemoryProtocol, MemoryServer
from tests.run.doubles import HandRuntime

LABELS = {"name": "x", "recipe": "lock", "mode": "exclusive", "attempt": 1}


def test_ids_are_uuids_and_differ() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(str(uuid.UUID(made)) == made for made in ids)


def test_the_clock_is_the_time_since_boot() -> None:
    before = boot_time()
    assert boot_time() >= before > 0
    assert Runtime.now() >= before


def test_pauses_grow_and_are_jittered() -> None:
    runs = []
    for _ in range(30):
        retries = HandRuntime().retries()
        runs.append([retries.after(StoreUnavailable("h", "cut"), 0.0) for _ in range(12)])
        assert not retries.over
    for number in range(12):
        pauses = [run[number] for run in runs]
        assert all(0 <= pause <= min(0.02 * 2**number, LONGEST_PAUSE_S) for pause in pauses)
        assert len(set(pauses)) > 1
    assert max(run[11] for run in runs) > 0.5


def test_a_block_that_was_left_stays_so_until_it_is_released() -> None:
    """A second interrupt struck between the two, and nobody released it."""

    class Block:
        left = 0

        def leave(self) -> None:
            self.left += 1
            if self.left == 1:
                raise KeyboardInterrupt

    runtime, block = HandRuntime(), Block()
    runtime.left.append(block)
    with pytest.raises(KeyboardInterrupt):
        runtime.sweep()
    runtime.sweep()
    assert (block.left, list(runtime.left)) == (2, [])


def test_records_without_a_place_get_the_stores_label() -> None:
    runtime, seen = HandRuntime(), list[Transition]()
    leave = subscribe(seen.append)
    Runtime.emit(runtime, Transition("store.retry", reason="x"))
    Runtime.emit(runtime, Transition("store.retry", reason="x", store="elsewhere"))
    leave()
    Runtime.emit(runtime, Transition("store.retry", reason="nobody looks"))
    assert [t.store for t in seen] == ["memory://", "elsewhere"]
    assert not events._hooks


def test_a_session_that_is_given_up_is_ended_on_the_store_whatever_is_raised_as_that_is_reported() -> None:
    class Struck(HandRuntime):
        def emit(self, transition: Transition) -> None:
            raise KeyboardInterrupt

    runtime = Struck()
    session = runtime.live()
    session.take_up(HeldState(Entry(Ticket("q", "lock", "id"), "ref", 7), session, None, 0.0, LABELS))
    with pytest.raises(KeyboardInterrupt):
        runtime.give_up("the thread that renews was ended")
    assert [(job.session, job.ends_session) for job in runtime.jobs] == [(session, True)]


def test_how_long_a_job_is_tried() -> None:
    """A ticket until it is gone, a session for as long as it may live, one that never began for a moment."""
    runtime = HandRuntime()
    session = runtime.live()
    assert runtime.settles_within(Job(session, Ticket("q", "lock", "id"))) is None
    assert runtime.settles_within(Job(session, None)) == runtime.settings.session_timeout_s
    assert runtime.settles_within(Job(session, None, within_s=1.0)) == 1.0


class OnABeat(MemoryBackend):
    """A store that gains by renewals that come together."""

    def protocol(self) -> MemoryProtocol:
        made = super().protocol()
        made.renews_on_a_beat = True  # type: ignore[misc]
        return made


def test_the_sessions_of_a_process_are_renewed_together_and_another_process_has_another_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = HandRuntime(OnABeat(MemoryServer()))
    runtime.on_a_beat = True  # type: ignore[misc]

    def dues(pid: int) -> set[float]:
        monkeypatch.setattr(os, "getpid", lambda: pid)
        found = set()
        for _ in range(10):
            found.add(round(runtime.live().clock.due, 6))  # type: ignore[union-attr]
            runtime.clock.time += 0.1
        return found

    assert len(dues(7)) <= 2
    assert not dues(8) & dues(9)
    runtime.on_a_beat = False  # type: ignore[misc]
    assert len(dues(7)) == 10
