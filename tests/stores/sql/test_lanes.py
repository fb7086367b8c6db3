"""The workers of the blocking way to a database."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from recipes.stores.sql.blocking import _Lane
from tests.stores.striking import struck

MOST = 2
SOON_S = 20.0


class Jobs:
    """What the workers of one lane do: note each job, and wait until they may go on."""

    def __init__(self) -> None:
        self.under_way = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.lane = _Lane(MOST, self.work)
        self.done: list[Any] = []

    def work(self, job: Any) -> None:
        if job == "waits":
            self.under_way.release()
            assert self.go_on.wait(SOON_S)
        self.done.append(job)


@pytest.mark.usefixtures("nothing_in_limbo")
def test_an_interrupt_anywhere_costs_no_worker() -> None:
    for at in range(1, 1000):
        jobs = Jobs()
        put: Any = jobs.lane.put
        hit = struck(lambda put=put: put("interrupted"), at)  # type: ignore[misc]
        for _ in range(MOST):
            put("waits")
        for _ in range(MOST):
            assert jobs.under_way.acquire(timeout=SOON_S), f"a worker is missing after an interrupt at {at}"
        jobs.go_on.set()
        jobs.lane.close()
        for thread in list(jobs.lane._threads):
            thread.join(SOON_S)
            assert not thread.is_alive()
        if not hit:
            assert at > 10, "there is something to interrupt"
            return
    raise AssertionError("it should have come to its end")


def test_a_job_does_not_wait_behind_another_while_there_may_be_more_workers() -> None:
    for _ in range(100):
        jobs = Jobs()
        put: Any = jobs.lane.put
        for _ in range(MOST):
            put("waits")
        for _ in range(MOST):
            assert jobs.under_way.acquire(timeout=SOON_S)
        jobs.go_on.set()
        jobs.lane.close()


def test_no_more_workers_begin_than_may_however_many_are_started() -> None:
    jobs = Jobs()
    for _ in range(3 * MOST):
        threading.Thread(target=jobs.lane._run, daemon=True).start()
    put: Any = jobs.lane.put
    for _ in range(MOST):
        put("waits")
    for _ in range(MOST):
        assert jobs.under_way.acquire(timeout=SOON_S)
    assert len(jobs.lane._threads) == MOST
    jobs.go_on.set()
    jobs.lane.close()


def test_a_worker_that_begins_when_the_lane_is_closed_ends() -> None:
    jobs = Jobs()
    jobs.lane.close()
    late = threading.Thread(target=jobs.lane._run, daemon=True)
    late.start()
    late.join(SOON_S)
    assert not late.is_alive()
