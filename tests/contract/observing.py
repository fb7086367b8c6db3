"""Observing a queue: what is there now, and what it comes to be, by one watch for all who observe."""

from __future__ import annotations

from typing import Any

from recipes import AsyncClient, Closed
from recipes._api.observing import AsyncObserving, Observing
from recipes._contract.contenders import Contender
from recipes._contract.names import encode
from recipes._programs.observing import Observed
from recipes._run.clock import boot_time
from tests.contract.world import LONG, Party, World, until

SOON_S = 5.0
"""Less than it takes until a queue is read again whatever is notified."""


def _seen(contenders: tuple[Contender, ...]) -> list[tuple[str, int, bool]]:
    return [(one.kind, one.token, one.downgraded) for one in contenders]


class Watcher:
    """One that observes the queue of a lock."""

    def __init__(self, party: Party, name: str) -> None:
        kind: Any = AsyncObserving if isinstance(party.client, AsyncClient) else Observing
        self._face = party.api
        self._observing = kind(party.client._runtime, Observed(encode(name), 100), _seen)

    def next(self, within_s: float = SOON_S) -> list[tuple[str, int, bool]] | None:
        """Return what is new; None if nothing is."""
        found: list[tuple[str, int, bool]] | None = self._face.do(lambda: self._observing.next(within_s))
        return found

    def until(self, seen: list[tuple[str, int, bool]]) -> bool:
        """Wait until it sees this; states on the way may be skipped or not."""
        while (found := self.next()) is not None:
            if found == seen:
                return True
        return False

    def ended(self) -> bool:
        """Wait for what is next; whether there will never be anything again."""
        try:
            self.next(2 * SOON_S)
        except Closed:
            return True
        return False

    def waits(self) -> bool:
        """Whether anybody waits for what is next."""
        joined = self._observing._joined
        return bool(joined and joined[0].topic.waiting)

    def close(self) -> None:
        """Close it, in the test's own thread or task."""
        self._face.do(self._observing.close)


class Observations:
    """A queue as its observers see it: what is there, and each change."""

    def test_what_comes_changes_and_goes_is_seen(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        seen = Watcher(b, "x/y")
        assert seen.next() == [], "nothing was ever there"
        grant = a.writer.acquire("x/y")
        assert seen.until([("W", grant.token, False)])
        a.downgrade(grant)
        assert seen.until([("W", grant.token, True)])
        waiting = b.queue_up("x/y")
        found = seen.next()
        assert found is not None
        assert found[0][1] == grant.token
        a.release(grant)
        assert seen.until([("W", waiting.result().token, False)])
        b.release(waiting.result())
        assert seen.until([])

    def test_many_who_observe_are_one_watch(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        started = boot_time()
        many = [Watcher(b, "x") for _ in range(50)]
        assert [one.next() for one in many] == [[]] * 50
        grant = a.acquire("x")
        assert all(one.until([("W", grant.token, False)]) for one in many)
        assert 2 <= b.tap.looks() <= 4 + (boot_time() - started) / world.store.polls_every_s

    def test_closing_ends_a_wait_of_another_and_all_later_ones(self, world: World) -> None:
        a = world.client(**LONG)
        closed, other = Watcher(a, "x"), Watcher(a, "x")
        assert closed.next() == other.next() == []
        waiting = a.api.spawn(closed.ended)
        assert until(closed.waits, SOON_S)
        closed.close()
        assert waiting.result()
        assert closed.ended(), "nor does it begin anew"
        grant = a.acquire("x")
        assert other.until([("W", grant.token, False)]), "and nobody else is disturbed"
        closed.close()

    def test_one_that_was_closed_before_it_began_asks_for_nothing(self, world: World) -> None:
        a = world.client(**LONG)
        closed = Watcher(a, "x")
        closed.close()
        assert closed.ended()
        assert not a.client._runtime.hub._watched
