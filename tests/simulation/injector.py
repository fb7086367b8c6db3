"""Who lets faults happen, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.fates import DOUBLED
from tests.simulation.faults import AIMED, FATES, FAULTS, KINDS, LONG, LOSSES, NUMBERS, SHORT
from tests.simulation.world import FAULT, HEALED, NEVER

if TYPE_CHECKING:
    from tests.simulation.run import Scene

__all__ = ["Injector"]


class Injector:
    """Strikes a few faults at random moments, or one at a given request; heals them after a while.

    Attributes:
        next_at: The number of requests at which to strike next.
        target: Whom to strike; None: anybody.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.world = scene.world
        self.rng = rng = scene.world.rng
        self.done: list[str] = []
        self.healing: list[tuple[float, Callable[[], None]]] = []
        self.target: Any = None
        self.world.timers.append(self._next_healing)
        self.world.ticks.append(self._tick)
        self.kinds = KINDS[scene.store.name]
        if scene.use.writes and scene.store.name != "zookeeper":
            self.kinds = [*self.kinds, DOUBLED, DOUBLED]
        if not scene.use.forgives:
            self.kinds = [kind for kind in self.kinds if kind not in LOSSES]
        self.aimed = AIMED[scene.store.name] if scene.flavour.aimed else ()
        self.plan: list[tuple[int, str | None]] = []
        if scene.schedule.fault_at is None:
            within = scene.enough * 0.9
            self.plan = [(int(3 + within * rng.random()), None) for _ in range(rng.choice((1, 1, 2, 3, 4)))]
            if self.aimed:
                self.plan.append((int(3 + within * rng.random()), rng.choice(self.aimed)))
            self.plan.sort(key=_at, reverse=True)
        elif scene.schedule.fault_at[1] in FATES:
            scene.store.fated_at, kind = scene.schedule.fault_at
            self.strike(kind)
        elif scene.schedule.fault_at[1]:
            self.plan = [scene.schedule.fault_at]
        self.next_at: float = self.plan[-1][0] if self.plan else NEVER

    def now(self) -> None:
        """Strike what is due: the kind that is planned, or one that can strike now."""
        _, kind = self.plan.pop()
        if kind is None:
            while not self.strike(self.rng.choice(self.kinds)):
                continue
        elif kind in self.aimed:
            if not self.strike(kind):
                self.after(1, kind)
        else:
            self.target = self.world.asker
            self.strike(kind)
            self.target = None
        self.next_at = self.plan[-1][0] if self.plan else NEVER

    def after(self, requests: int, kind: str) -> None:
        """Plan a fault for when there were some more requests."""
        self.plan.append((self.world.requests + requests, kind))
        self.plan.sort(key=_at, reverse=True)

    def strike(self, kind: str) -> bool:
        """Let one kind of fault happen now; False if there is nothing that it could strike."""
        world = self.world
        for tick in world.ticks:
            tick()  # what happened up to now counts
        said = FAULTS[kind][1](self)
        if said is None:
            return False
        world.note("FAULT", kind, said)
        world.mark(FAULT, NUMBERS[kind])
        self.done.append(kind)
        self.scene.oracle.left += 2  # a client may leave the queue, with all its contenders
        return True

    def heal(self) -> None:
        """End everything that lasts."""
        self.next_at = NEVER
        healing, self.healing = self.healing, []
        for _, act in healing:
            act()
        self.world.note("HEALED")
        self.world.mark(HEALED, 0)
        self.scene.oracle.healthy_since = self.world.now

    def later(self, within: tuple[float, float], act: Callable[[], None]) -> float:
        """Do something after a while; returns after how long."""
        seconds = self.rng.uniform(*within)
        self.healing.append((self.world.now + seconds, act))
        return round(seconds, 2)

    def client(self) -> Any:
        """Return one client that lives and runs (the target's, if there is one), or None."""
        if self.target is not None:
            client = self.target.client
            return None if client.dead or client.paused else client
        fit = [client for client in self.scene.clients if not (client.dead or client.paused)]
        return self.rng.choice(fit) if fit else None

    def connection(self) -> Any:
        """Return the connection of a client's current session, or None."""
        client = self.client()
        session = None if client is None else client.runtime.state.session
        return None if session is None else session.connection

    def duration(self) -> tuple[float, float]:
        """Return shorter or longer than a session, at random."""
        return SHORT if self.rng.random() < 0.5 else LONG

    def _next_healing(self) -> float:
        return min([at for at, _ in self.healing]) if self.healing else NEVER

    def _tick(self) -> None:
        if not self.healing:
            return
        now = self.world.now
        due = [act for at, act in self.healing if at <= now]
        if due:
            self.healing = [entry for entry in self.healing if entry[0] > now]
            for act in due:
                act()
            self.scene.oracle.healthy_since = now


def _at(planned: tuple[int, str | None]) -> int:
    return planned[0]
