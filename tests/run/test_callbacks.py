"""Where a blocking client's callbacks run: beside each other, in order in a lane, in no thread at rest."""

from __future__ import annotations

import io
import logging
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes._run import callbacks
from recipes._run.callbacks import Callbacks, Lane
from tests.threads import named, until_ended

SOON_S = 10.0


def ended() -> None:
    until_ended("recipes-callbacks", SOON_S)


def test_no_thread_rests() -> None:
    ran = threading.Event()
    Callbacks().lane().put(ran.set)
    assert ran.wait(SOON_S)
    ended()


def test_those_of_a_lane_run_in_order() -> None:
    lane, seen, last = Callbacks().lane(), [], threading.Event()
    for number in range(1000):
        lane.put(lambda number=number: seen.append(number))
    lane.put(last.set)
    assert last.wait(SOON_S)
    assert seen == list(range(1000))


def test_lanes_do_not_wait_for_each_other() -> None:
    pool, go, ran = Callbacks(), threading.Event(), threading.Event()
    blocked = pool.lane()
    blocked.put(lambda: go.wait(SOON_S))
    pool.lane().put(ran.set)
    assert ran.wait(SOON_S)
    assert not go.is_set()
    behind = threading.Event()
    blocked.put(behind.set)
    assert not behind.is_set(), "it waits for the one before it"
    go.set()
    assert behind.wait(SOON_S)
    ended()


def test_so_many_threads_at_most_and_the_rest_runs_as_one_comes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_THREADS", 2)
    pool, go = Callbacks(), threading.Event()
    running: queue.SimpleQueue[int] = queue.SimpleQueue()

    def block(number: int) -> Callable[[], object]:
        return lambda: (running.put(number), go.wait(SOON_S))

    for number in range(5):
        pool.lane().put(block(number))
    assert {running.get(timeout=SOON_S), running.get(timeout=SOON_S)} == {0, 1}
    assert len(named("recipes-callbacks")) == 2
    assert running.empty()
    go.set()
    assert {running.get(timeout=SOON_S) for _ in range(3)} == {2, 3, 4}
    ended()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_one_raises_ends_nothing(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    lane, ran = Callbacks().lane(), threading.Event()

    def fail() -> None:
        raise error("mine")

    lane.put(fail)
    lane.put(ran.set)
    assert ran.wait(SOON_S)
    assert "a callback failed" in caplog.text
    ended()


def test_a_log_that_raises_costs_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """Each callback fails, and then the log that says so."""
    pool, ran, handler = Callbacks(), threading.Event(), logging.StreamHandler(io.StringIO())
    handler.addFilter(lambda record: bool(1 // 0))

    def fail() -> None:
        raise RuntimeError("mine")

    logger = logging.getLogger("recipes")
    logger.addHandler(handler)
    try:
        for _ in range(callbacks.MOST_THREADS + 1):
            pool.lane().put(fail)
        pool.lane().put(ran.set)
        assert ran.wait(SOON_S)
        ended()
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr().err.count("'a callback failed' could not be logged") == (
        callbacks.MOST_THREADS + 1
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_somebody_ended_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_THREADS", 1)
    pool, ran = Callbacks(), threading.Event()
    behind = pool.lane()

    class Struck(Lane):
        def run(self) -> None:
            behind.put(ran.set)  # no thread is free for it
            raise SystemError("ended")

    Struck(pool._run).put(lambda: None)
    assert ran.wait(SOON_S)
    ended()


def test_without_a_thread_to_be_had_they_run_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, first, second = Callbacks(), threading.Event(), threading.Event()

    def none(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        pool.lane().put(first.set)  # raises nothing: the thread that renews may have called it
    assert not first.is_set()
    pool.lane().put(second.set)
    assert second.wait(SOON_S)
    assert first.wait(SOON_S)
    ended()


def test_an_interrupt_while_a_thread_starts_costs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_THREADS", 1)
    pool, ran = Callbacks(), threading.Event()

    def struck(_thread: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", struck)
        with pytest.raises(KeyboardInterrupt):
            pool.lane().put(lambda: None)
    pool.lane().put(ran.set)
    assert ran.wait(SOON_S)
    ended()


def test_none_is_lost_and_none_runs_twice_under_load() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        pool, seen, done = Callbacks(), [], threading.Semaphore(0)
        lanes = [pool.lane() for _ in range(20)]

        def put(first: int) -> None:
            for number in range(first, first + 200):
                lanes[number % 20].put(lambda number=number: (seen.append(number), done.release()))

        putting = [threading.Thread(target=put, args=(first,)) for first in range(0, 1000, 200)]
        for thread in putting:
            thread.start()
        for _ in range(1000):
            assert done.acquire(timeout=SOON_S)
        for thread in putting:
            thread.join()
        ended()
        assert sorted(seen) == list(range(1000))
    finally:
        sys.setswitchinterval(before)
