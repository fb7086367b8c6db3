"""The requests of values, counted: one to read, one to write, and one more for what another has written."""

from __future__ import annotations

from typing import Any

import pytest

from integration import servers
from integration.counting import on_the_wire, requests, trips, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from tests.contract.values import Watcher, add, count_down, delete, get, put, put_if, total
from tests.contract.world import Party, World

pytestmark = [
    pytest.mark.measured,
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.parametrize("server", servers.ETCDS, indirect=True),
]

READ, WRITTEN = ("/kv/range",), ("/kv/txn",)


@pytest.fixture
def party(world: World, proxy: Proxy, store: ServerStore) -> Party:
    """Return a client whose connections are there, behind the proxy."""
    return used(world, url=proxy.url(store.prefix))


@pytest.fixture
def other(world: World) -> Party:
    """Return another client."""
    return used(world)


def asks(proxy: Proxy, party: Party, expected: list[tuple[str, ...]], call: Any) -> Any:
    """See that a call asks this and nothing else, and return what it returns."""
    with proxy.counting() as counts, party.tap.counting() as seen:
        returned = call()
    assert trips(seen) == expected
    assert on_the_wire(counts) == requests(seen), counts
    assert counts.connections == 0
    return returned


def test_a_value_is_read_with_one_request(proxy: Proxy, party: Party, other: Party) -> None:
    assert asks(proxy, party, [READ], lambda: get(party)) is None
    put(other, b"1")
    assert asks(proxy, party, [READ], lambda: get(party)).data == b"1"


def test_a_value_is_written_with_one_request(proxy: Proxy, party: Party, other: Party) -> None:
    for n in range(3):
        asks(proxy, party, [WRITTEN], lambda n=n: put(party, b"%d" % n))
        put(other, b"theirs")
    asks(proxy, party, [WRITTEN], lambda: put(party, b"1", "another"))


def test_a_condition_costs_nothing(proxy: Proxy, party: Party, other: Party) -> None:
    put(other, b"1")
    version = get(other).version  # type: ignore[union-attr]
    assert asks(proxy, party, [WRITTEN], lambda: put_if(party, b"2", version)) is True
    assert asks(proxy, party, [WRITTEN], lambda: put_if(party, b"3", version)) is False


def test_a_value_is_read_before_it_is_deleted(proxy: Proxy, party: Party) -> None:
    """For the answer says whether there was one."""
    put(party, b"1")
    assert asks(proxy, party, [READ, WRITTEN], lambda: delete(party)) is True
    assert asks(proxy, party, [READ], lambda: delete(party)) is False


def test_an_addition_is_one_request_while_what_is_remembered_holds(
    proxy: Proxy, party: Party, other: Party
) -> None:
    assert asks(proxy, party, [READ, WRITTEN], lambda: add(party)) == 1
    for n in range(2, 5):
        assert asks(proxy, party, [WRITTEN], lambda: add(party)) == n
    assert asks(proxy, party, [READ], lambda: total(party)) == 4
    add(other)
    assert asks(proxy, party, [WRITTEN, WRITTEN], lambda: add(party)) == 6, "the refusal has the number"
    assert asks(proxy, party, [WRITTEN], lambda: add(party)) == 7


def test_a_latch_is_counted_down_with_one_request_while_what_is_remembered_holds(
    proxy: Proxy, party: Party
) -> None:
    assert asks(proxy, party, [READ, WRITTEN], lambda: count_down(party, 3)) == 2
    assert asks(proxy, party, [WRITTEN], lambda: count_down(party, 3)) == 1


def test_a_guard_costs_nothing(proxy: Proxy, party: Party) -> None:
    grant = party.acquire("x")
    value = grant.guarding(party.client.value("config"))
    for what in (b"1", b"2"):
        asks(proxy, party, [WRITTEN], lambda what=what: party.api.do(lambda: value.set(what)))
    party.release(grant)


def test_a_change_costs_all_watchers_of_a_client_one_watch_and_one_read(
    proxy: Proxy, party: Party, other: Party
) -> None:
    many = [Watcher(party, party.client.value("config")) for _ in range(20)]
    assert [one.next() for one in many] == [None] * 20
    for what in (b"1", b"2", b"3"):
        with proxy.counting() as counts:
            put(other, what)
            assert {one.next().data for one in many} == {what}
            assert many[0].next(0.2) == "nothing"
        assert counts.requests["/v3/kv/range"] == 1, counts
        assert on_the_wire(counts) - 1 == counts.requests["/v3/watch chunk"] <= 3
    assert many[0].next(0.5) == "nothing"  # the last watches that told are cancelled behind
    with proxy.counting() as counts:
        assert many[0].next(1) == "nothing"
    assert on_the_wire(counts) == 0, counts
    for one in many:
        one.close()
