from collections.abc import Iterable, Iterator

import pytest

import recipes
from recipes import testing


class Reporter:
    """The code to test: of all processes, one at a time writes a report."""

    def __init__(self, url: str, archive: list[str]) -> None:
        self.client = recipes.connect(url)
        self.archive = archive

    def publish(self, pages: Iterable[str]) -> None:
        with self.client.lock("reports").acquire(timeout=3600) as grant:
            for page in pages:
                grant.check()
                self.archive.append(page)


@pytest.fixture
def store() -> Iterator[testing.Store]:
    with testing.Store() as store:  # in memory: no server, and time stands still
        yield store


def test_it_gives_up_after_an_hour(store: testing.Store) -> None:
    archive: list[str] = []
    store.connect().lock("reports").acquire()
    with store.clock.jumping(), pytest.raises(recipes.LockTimeout):
        Reporter(store.url, archive).publish(["never"])
    assert archive == []


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
