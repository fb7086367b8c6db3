"""A guarded write of a holder that was stopped past its session never lands; without the guard it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.conftest import FIXTURES
from integration.exactly_once.run import STORES as MADE
from integration.needing import needed
from integration.pausing.guarded import paused
from integration.pausing.guarded_writer import Term
from recipes import Versioned

STORES = (*FIXTURES, "sqlite")
OWN = ("redis-7", "postgres-15", "mariadb-10.11", "sqlite")
FEW, ALL = 20, 1000


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    if request.param in OWN:
        with needed(request.param, MADE[request.param]) as one:
            yield one
    else:
        yield request.getfixturevalue(FIXTURES[request.param]).start()


def test_no_write_of_a_paused_holder_lands(store: servers.Server, figure: Callable[[str], None]) -> None:
    result = paused(store, FEW, "gate")
    figure(f"{result}")
    assert result.wrong == []
    assert result.pauses >= FEW
    assert result.writes > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_of_a_thousand_paused_holders_no_write_lands(
    store: servers.Server, figure: Callable[[str], None]
) -> None:
    result = paused(store, ALL, "thousand")
    figure(f"{result}")
    assert result.wrong == []
    assert result.pauses >= ALL


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_without_the_guard_it_is_seen_to_land(etcd35: servers.Etcd) -> None:
    assert paused(etcd35.start(), ALL, "plain", how="plain").wrong


def read(token: int, version: int) -> Versioned:
    return Versioned(b"%d x" % token, version)


def test_what_a_term_may_read() -> None:
    term = Term(7)
    term.saw(read(5, 1))
    term.saw(read(5, 1))
    term.wrote(done=True)
    term.saw(read(7, 2))
    term.saw(read(9, 3))  # lost, and not known yet
    assert (term.wrong, term.writes) == ([], 1)


@pytest.mark.parametrize(
    "found",
    [
        [read(5, 1), read(5, 2)],  # the last holder wrote once more
        [None, read(5, 2)],
        [read(7, 2), read(5, 3)],
    ],
)
def test_what_a_term_may_not_read(found: list[Versioned | None]) -> None:
    term = Term(7)
    for one in found:
        term.saw(one)
    assert term.wrong == ["a write of 5 landed under 7"]


def test_what_a_term_may_not_write() -> None:
    term = Term(7)
    term.saw(read(9, 3))
    term.wrote(done=False)
    assert term.wrong == ["7 may still write after 9 wrote"]
