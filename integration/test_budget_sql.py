"""What is asked of a database, counted where requests are asked: one transaction for each step."""

from __future__ import annotations

import pytest

from integration.counting import trips, used
from integration.stores import SqlStore
from recipes._run.clock import boot_time
from recipes.stores.sql.protocol import NEXT_S
from tests.contract.world import World

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", ["postgres-15", "mariadb-10.11"], indirect=True),
]
JOINED, REMOVED, GLANCED = ("join",), ("remove",), ("glance",)


@pytest.mark.parametrize("take", ["acquire", "try_acquire"])
@pytest.mark.parametrize("side", ["", "reader", "writer"])
def test_uncontended_acquire_and_release_take_one_transaction_each(world: World, take: str) -> None:
    party = used(world)
    with party.tap.counting() as acquired:
        grant = getattr(party, take)("x")
    with party.tap.counting() as released:
        party.release(grant)
    assert trips(acquired) == [JOINED]
    assert trips(released) == [REMOVED]


def test_try_of_a_held_lock_is_one_transaction_and_writes_nothing(world: World, store: SqlStore) -> None:
    holder, party = used(world), used(world)
    holder.acquire("x")
    before = _last_token(store)
    with party.tap.counting() as seen:
        assert party.try_acquire("x") is None
    assert trips(seen) == [JOINED]
    assert _last_token(store) == before
    assert party.wait_clean()


def test_one_that_is_granted_in_its_turn_has_read_once_if_it_was_notified(world: World) -> None:
    holder, party = used(world), used(world)
    grant = holder.acquire("x")
    started = boot_time()
    with party.tap.counting() as seen:
        waiting = party.queue_up("x", timeout=None)
        holder.release(grant)
        assert waiting.result().held
    first, *others = trips(seen)
    assert first == JOINED
    assert set(others) == {GLANCED}
    by_itself = (boot_time() - started) / NEXT_S if world.store.polls_every_s < 1 else 0
    assert len(others) <= 1 + by_itself


def _last_token(store: SqlStore) -> list[tuple[object, ...]]:
    key = f"{store.prefix}:x"
    return store.server.ask(f"SELECT token FROM {store.tables}queue WHERE name = %s", key)
