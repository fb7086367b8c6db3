"""Fault 42: a signal handler uses the client amid any of its calls, on real servers.

In memory and on SQLite ``tests/run/test_handlers.py`` does it at more places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

import recipes
from integration import servers
from integration.chaos.stages import staged
from integration.faults.labs import Lab
from integration.needing import needed
from tests.heap import INTERRUPTED
from tests.run.handlers import CALLS, CELL_CALLS, Party, Storm

pytestmark = INTERRUPTED

STORM_S = 8
STRIDE = {"etcd": 37, "zookeeper": 23, "redis": 23}
OTHERS = {"postgres": 37, "mariadb": 37, "memcached": 7, "redlock": 11}


@pytest.fixture
def party(url: str, server: servers.Server) -> Iterator[Party]:
    """Yield a party whose sessions outlast the test."""

    def connect() -> recipes.Client:
        return recipes.connect(url, session_timeout=20, **server.options)

    with connect() as other:
        found = Party(connect, other)
        yield found
        found.client.close()


def test_fault_42_a_handler_may_make_any_call_amid_any_other(
    party: Party, server: servers.Server, figure: Callable[[str], None]
) -> None:
    storm = Storm(party, stride=STRIDE[server.kind])
    storm.over(iter(CALLS))
    figure(f"{storm.struck} places, {storm.refused} calls refused")
    assert storm.struck > len(CALLS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", OTHERS)
def test_fault_42_a_handler_may_make_any_call_on_other_stores(
    store: str, prefix: str, figure: Callable[[str], None]
) -> None:
    with needed(store, lambda: staged(store, session_s=20)) as stage:
        url, calls = stage.way(proxied=False).url(prefix), CALLS if stage.queues else CELL_CALLS

        def connect() -> recipes.Client:
            return recipes.connect(url, session_timeout=stage.session_s, **stage.options)

        with connect() as other:
            other.lock("granted").acquire(timeout=60).release()  # some grant nothing at first
            party = Party(connect, other, queues=stage.queues)
            storm = Storm(party, OTHERS[store], calls)
            storm.over(iter(calls))
            party.client.close()
        figure(f"{storm.struck} places, {storm.refused} calls refused")
        assert storm.struck > len(calls)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("outer", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("server", servers.ASKED, indirect=True)
def test_fault_42_at_every_place(party: Party, outer: Callable[[Party], None]) -> None:
    storm = Storm(party, stride=1)
    storm.over(iter([outer]))


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_42_a_storm_of_signals_whose_handler_uses_the_client(lab: Lab) -> None:
    """Wherever they strike: kazoo's code, and that of Python's own library, too."""
    script = lab.worker("handled", STORM_S, lab.prefix, session_s=15)
    found = json.loads(script.next_line(STORM_S + 60))
    lab.figure(f"{found}")
    assert found["struck"] > 100
    assert found["done"] > 50
    assert found["worst_s"] < 10  # of all that one handler did, on a busy machine
    assert (found["left"], found["ended"]) == (0, "ClientClosed")
    assert found["closed_s"] < 5
    assert lab.contenders_become(0), lab.contenders()
    script.tell("go on")
