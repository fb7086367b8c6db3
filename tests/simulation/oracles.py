"""The promises, checked at every step that could break them."""

from __future__ import annotations

from typing import Any

from tests.simulation.world import Violation, World

__all__ = ["Oracle"]


class Oracle:
    """Watches all clients and the store of one schedule.

    S1 and S3: tokens and a fenced register. S2: whoever is admitted is alone. S4: held
    never comes back. S5 and S7: nobody deletes what is not his. L2, L3 and L5: order,
    wake-ups, leftovers.
    """

    def __init__(self, world: World, store: Any, *, admits: int = 1, wake_within_s: float) -> None:
        self.world = world
        self.store = store
        self.admits = admits
        self.wake_within_s = wake_within_s
        self.live: list[tuple[Any, Any]] = []
        self.ended: list[tuple[Any, Any]] = []
        self.returned = 0
        self.tokens: set[int] = set()
        self.gate = 0
        self.register: list[int] = []
        self.grants = 0
        self.head_since: dict[str, float] = {}
        self.healthy_since = world.now
        # Forced expiry and deletion by an operator are exempt from S2.
        self.exempt: set[Any] = set()
        self.removed: set[str] = set()

    # Called by the clients.

    def asking(self, client: Any) -> int:
        """An acquire is called: its token must be larger than all that were returned before."""
        return self.returned

    def admitted(self, client: Any, hold: Any) -> None:
        """A grant came to be, inside the client."""
        self.grants += 1
        world = self.world
        token = hold.place.token
        world.note(client.name, "admitted", token)
        if not hold.remaining(client.runtime.now()) > 0:
            raise Violation("S4: a grant was made that is not held")
        if token in self.tokens:
            raise Violation(f"S3: token {token} was given twice")
        self.tokens.add(token)
        self._alone(client, hold)
        self._in_order(hold)
        self._woken_in_time(client, hold)
        self.live.append((client, hold))

    def granted(self, client: Any, hold: Any, began: int) -> None:
        """An acquire returned."""
        if hold.place.token <= began:
            raise Violation(f"S3: token {hold.place.token} after {began} had been returned")
        self.returned = max(self.returned, hold.place.token)

    def write(self, client: Any, hold: Any) -> None:
        """A holder writes to a fenced register, whether it still holds or not."""
        token = hold.place.token
        if token >= self.gate:
            self.gate = token
            self.register.append(token)

    def releasing(self, client: Any, hold: Any, was_held: bool) -> bool:
        """A release is called."""
        self.observe()
        return was_held

    # Checks.

    def _alone(self, client: Any, hold: Any) -> None:
        others = 0
        if hold.epoch in self.exempt or hold.place.spot.id in self.removed:
            return
        for other, held in self.live:
            if other.paused or other.dead or held.epoch in self.exempt:
                continue
            if held.place.spot.id in self.removed:
                continue
            if held.remaining(other.runtime.now()) > 0:
                others += 1
        if others >= self.admits:
            raise Violation(f"S2: {client.name} was admitted beside {others} other(s)")

    def _in_order(self, hold: Any) -> None:
        """L3, and the safety that needs no clock: nobody of a live session stands before."""
        if hold.place.spot.id in self.removed or hold.epoch in self.exempt:
            return
        ahead = [token for token, _ in self.store.standing(hold.place.spot.queue) if token < hold.place.token]
        if len(ahead) >= self.admits:
            raise Violation(f"L3: token {hold.place.token} was admitted before {ahead}")

    def _woken_in_time(self, client: Any, hold: Any) -> None:
        since = self.head_since.pop(hold.place.spot.id, None)
        if since is None:
            return
        since = max(since, self.healthy_since, client.healthy_since)
        waited = self.world.now - since
        if waited > self.wake_within_s:
            raise Violation(f"L2: {client.name} was first in the queue for {waited:.1f} s before it was told")

    def observe(self) -> None:
        """Look at everything once: what was lost must stay lost."""
        still = []
        for client, hold in self.live:
            if hold.remaining(client.runtime.now()) > 0:
                still.append((client, hold))
            else:
                self.ended.append((client, hold))
        self.live = still
        for client, hold in self.ended:
            if hold.remaining(client.runtime.now()) > 0:
                raise Violation(f"S4: token {hold.place.token} of {client.name} is held again")
        self._heads()

    def _heads(self) -> None:
        standing = self.store.standing("q")
        for _, contender in standing[: self.admits]:
            self.head_since.setdefault(contender, self.world.now)

    def stuck(self, waiting: list[Any]) -> None:
        """At the end nobody may still wait."""
        if waiting:
            names = ", ".join(task.name for task in waiting)
            raise Violation(f"L2: still waiting at the end: {names}")

    def finish(self) -> None:
        """Everything was closed: nothing may be left."""
        left = self.store.leftovers()
        if left:
            raise Violation(f"L5: left on the store: {left}")
        if self.store.watch_count():
            raise Violation(f"L8: {self.store.watch_count()} watches are left")
        if self.register != sorted(self.register):
            raise Violation("S1: the fenced register went backwards")
