"""The requests of values on ZooKeeper, counted: a multi, and behind it a read where one may be of use.

The first write of a session to a value that it has not read may find no node, and makes it: two round
trips. A later one is a single request. One on a condition has to know that the node is the one that was read,
and makes the receipt before: once for each session and value.
"""

from __future__ import annotations

import pytest

from integration.counting import on_the_wire, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from integration.test_budget_values import asks
from tests.contract.values import Watcher, add, count_down, delete, get, put, put_if, total
from tests.contract.world import Party, World

pytestmark = [
    pytest.mark.measured,
    pytest.mark.usefixtures("no_periodic_reading", "places"),
    pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True),
]

READ = ("Sync", "Get")
SET = ("Multi",)
COMPARED = ("Multi", "Get")
MADE = ("Multi", "Get", "Get")
BEGUN = ("Create", "Get", "Get")


@pytest.fixture
def party(world: World, proxy: Proxy, store: ServerStore) -> Party:
    """Return a client whose connections are there, behind the proxy."""
    return used(world, url=proxy.url(store.prefix))


@pytest.fixture
def other(world: World) -> Party:
    """Return another client."""
    return used(world)


@pytest.fixture
def places(other: Party) -> None:
    """Have the nodes there below which values are made."""
    put(other, b"", "first")
    add(other)
    other.api.do(lambda: other.client.counter("config").set_if(0, 1))
    count_down(other, 1)


def test_a_value_is_read_in_one_round_trip(proxy: Proxy, party: Party, other: Party) -> None:
    assert asks(proxy, party, [READ], lambda: get(party)) is None
    put(other, b"1")
    assert asks(proxy, party, [READ], lambda: get(party)).data == b"1"


def test_a_first_write_takes_two_round_trips_and_a_later_one_one(
    proxy: Proxy,
    party: Party,
    other: Party,
) -> None:
    asks(proxy, party, [SET, SET], lambda: put(party, b"1"))
    for n in range(3):
        put(other, b"theirs")
        asks(proxy, party, [SET], lambda n=n: put(party, b"%d" % n))
    put(other, b"theirs", "another")
    asks(proxy, party, [SET], lambda: put(party, b"1", "another"))


def test_a_condition_costs_a_read_in_the_same_round_trip(
    proxy: Proxy,
    party: Party,
    other: Party,
) -> None:
    put(other, b"1")
    version = asks(proxy, party, [READ], lambda: get(party)).version
    assert asks(proxy, party, [BEGUN, COMPARED], lambda: put_if(party, b"2", version)) is True
    assert asks(proxy, party, [COMPARED], lambda: put_if(party, b"3", version)) is False
    assert asks(proxy, party, [READ, COMPARED], lambda: delete(party)) is True
    assert asks(proxy, party, [COMPARED], lambda: put_if(party, b"4", 0)) is True
    assert asks(proxy, party, [READ], lambda: get(party, "new")) is None


def test_an_addition_is_one_round_trip_while_what_is_remembered_holds(
    proxy: Proxy,
    party: Party,
    other: Party,
) -> None:
    assert asks(proxy, party, [READ, BEGUN, COMPARED], lambda: add(party)) == 1
    for n in range(2, 5):
        assert asks(proxy, party, [COMPARED], lambda: add(party)) == n
    assert asks(proxy, party, [READ], lambda: total(party)) == 4
    add(other)
    assert asks(proxy, party, [COMPARED, COMPARED], lambda: add(party)) == 6, "the refusal brings the number"
    assert asks(proxy, party, [COMPARED], lambda: add(party)) == 7


def test_a_counter_that_is_not_there_is_made_with_its_first_addition(
    proxy: Proxy,
    party: Party,
) -> None:
    counter = party.client.counter("new")
    assert asks(proxy, party, [READ, MADE], lambda: party.api.do(counter.add)) == 1
    assert asks(proxy, party, [COMPARED], lambda: party.api.do(counter.add)) == 2


def test_a_guard_costs_no_round_trip(proxy: Proxy, party: Party, other: Party) -> None:
    put(other, b"0")
    grant = party.acquire("x")
    value = grant.guarding(party.client.value("config"))
    for what in (b"1", b"2"):
        asks(proxy, party, [COMPARED], lambda what=what: party.api.do(lambda: value.set(what)))
    party.release(grant)


def test_a_change_costs_all_watchers_of_a_client_one_read(
    proxy: Proxy,
    party: Party,
    other: Party,
) -> None:
    many = [Watcher(party, party.client.value("config")) for _ in range(20)]
    assert [one.next() for one in many] == [None] * 20
    for what in (b"1", b"2", b"3"):
        with proxy.counting() as counts:
            put(other, what)
            assert {one.next().data for one in many} == {what}
            assert many[0].next(0.2) == "nothing"
        assert counts.requests == {"sync": 1, "exists": 1, "get": 1}
    with proxy.counting() as counts:
        assert many[0].next(1) == "nothing"
    assert on_the_wire(counts) == 0, counts
    for one in many:
        one.close()
