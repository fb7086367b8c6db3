"""The requests of multi-locks, counted: those of their parts, one after the other, and no more."""

from __future__ import annotations

import pytest

from integration.counting import COUNTED, LOOKED, RELEASED, on_the_wire, requests, trips, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from tests.contract.multilock import acquire, multilock
from tests.contract.world import Party, World

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]

NAMES = ("a", "b", "c")


def ready(world: World, **options: str) -> Party:
    """Return a client whose connections and directories are there, also those of the parts."""
    party = used(world, **options)
    party.release(acquire(party, multilock(party, *NAMES)))
    return party


def test_free_parts_take_what_each_takes(proxy: Proxy, world: World, store: ServerStore, kind: str) -> None:
    party = ready(world, url=proxy.url(store.prefix))
    with proxy.counting() as acquiring, party.tap.counting() as acquired:
        grant = acquire(party, multilock(party, *NAMES))
    with party.tap.counting() as verified:
        assert party.verify(grant)
    with proxy.counting() as releasing, party.tap.counting() as released:
        party.release(grant)
    assert trips(acquired) == LOOKED[kind] * len(NAMES)
    assert trips(released) == RELEASED[kind] * len(NAMES)
    assert len(verified) == len(NAMES)
    assert on_the_wire(acquiring) == requests(acquired), acquiring
    assert on_the_wire(releasing) == len(NAMES), releasing


def test_waiting_for_a_part_asks_nothing(world: World) -> None:
    holder, party = ready(world), ready(world)
    held = holder.acquire("b")
    waiting = party.api.start(lambda: multilock(party, *NAMES).acquire(timeout=20))
    party.tap.wait_parked()
    with party.tap.counting() as seen:
        assert not waiting.wait(0.5)
    assert seen == []
    holder.release(held)
    assert party.release(waiting.result())


def test_a_try_that_finds_a_part_held_takes_back_what_it_took(world: World, kind: str) -> None:
    holder, party = ready(world), ready(world)
    holder.acquire("b")
    with party.tap.counting() as seen:
        assert party.api.do(multilock(party, *NAMES).try_acquire) is None
    one, other = ("/kv/txn",), ("Children",)
    look = [one] if kind == "etcd" else [other]
    free = ([] if kind == "etcd" else [other]) + LOOKED[kind]
    assert trips(seen) == free + look + RELEASED[kind]
