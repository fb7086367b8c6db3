from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import recipes
from recipes import testing


class Reporter:
    """The service to test: of all its processes, one at a time writes a report."""

    def __init__(self, url: str, archive: list[str]) -> None:
        self.client = recipes.connect(url)
        self.archive = archive

    def publish(self, pages: Iterable[str]) -> None:
        with self.client.lock("reports").acquire(timeout=3600) as grant:
            for page in pages:
                grant.check()
                self.archive.append(page)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def store(pool: ThreadPoolExecutor) -> Iterator[testing.Store]:
    with testing.Store() as store:  # closed first: then no thread of the pool waits any more
        yield store


def test_one_writes_at_a_time(store: testing.Store, pool: ThreadPoolExecutor) -> None:
    archive: list[str] = []
    first, second = Reporter(store.url, archive), Reporter(store.url, archive)
    beside: list[Future[None]] = []

    def long_report() -> Iterator[str]:
        yield "first, begins"
        beside.append(pool.submit(second.publish, ["second"]))
        store.wait_for_waiters("reports")
        store.clock.advance(1800)  # the session is renewed meanwhile, the second goes on waiting
        yield "first, ends"

    first.publish(long_report())
    beside[0].result(timeout=10)
    assert archive == ["first, begins", "first, ends", "second"]


def test_it_stops_when_the_lock_is_lost(store: testing.Store) -> None:
    archive: list[str] = []
    reporter = Reporter(store.url, archive)

    def interrupted_report() -> Iterator[str]:
        yield "before"
        with store.pause(reporter.client):  # the store cannot be reached
            store.clock.advance(15)  # for as long as a session lasts
        yield "after"

    with pytest.raises(recipes.LockLost):
        reporter.publish(interrupted_report())
    assert archive == ["before"]


def test_it_gives_up_after_an_hour(store: testing.Store) -> None:
    archive: list[str] = []
    store.connect().lock("reports").acquire()
    with store.clock.jumping(), pytest.raises(recipes.LockTimeout):
        Reporter(store.url, archive).publish(["never"])
    assert archive == []


def test_a_lost_answer_leaves_nothing_behind(store: testing.Store) -> None:
    archive: list[str] = []
    reporter = Reporter(store.url, archive)
    store.drop_reply(reporter.client, "acquire")
    reporter.publish(["once"])
    assert archive == ["once"]
    assert store.holders("reports") == store.waiters("reports") == []
