"""What can go wrong in a schedule, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import Cancelled
from tests.simulation.world import FAULT, HEALED, NEVER

if TYPE_CHECKING:
    from tests.simulation.run import Scene

__all__ = ["FAULTS", "Injector"]

SHORT, LONG = (0.3, 2.0), (2.5, 9.0)


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
        self.plan: list[tuple[int, str | None]] = []
        if scene.schedule.fault_at is None:
            within = scene.schedule.enough * 0.9
            self.plan = [(int(3 + within * rng.random()), None) for _ in range(rng.choice((1, 1, 2, 3, 4)))]
            self.plan.sort(reverse=True)
        elif scene.schedule.fault_at[1] in FATES:
            scene.store.fated_at, kind = scene.schedule.fault_at
            self.strike(kind)
        else:
            self.plan = [scene.schedule.fault_at]
        self.next_at: float = self.plan[-1][0] if self.plan else NEVER

    def now(self) -> None:
        """Strike what is due: the kind that is planned, or one that can strike now."""
        _, kind = self.plan.pop()
        self.next_at = self.plan[-1][0] if self.plan else NEVER
        if kind is not None:
            self.target = self.world.asker
            self.strike(kind)
            self.target = None
        else:
            while not self.strike(self.rng.choice(self.kinds)):
                continue

    def strike(self, kind: str) -> bool:
        """Let one kind of fault happen now; False if there is nothing that it could strike."""
        world = self.world
        for tick in world.ticks:
            tick()  # what happened up to now counts
        world.note("FAULT", kind)
        said = FAULTS[kind][1](self)
        if said is None:
            return False
        world.mark(FAULT, self.kinds.index(kind))
        self.done.append(kind)
        self.scene.oracle.left += 2  # a client may leave the queue, with all its contenders
        world.note("...", kind, said)
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

    def link(self) -> Any:
        """Return the link of a client's current session, or None."""
        client = self.client()
        epoch = None if client is None else client.runtime.board.epoch
        return None if epoch is None else epoch.link

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


def pause(injector: Injector) -> Any:
    client = injector.client()
    if client is None:
        return None
    client.stop()

    def go_on() -> None:
        client.stop(paused=False)
        client.healthy_since = injector.world.now
        injector.world.fire()

    return client.name, injector.later(injector.duration(), go_on)


def crash(injector: Injector) -> Any:
    client = injector.client()
    alive = [other for other in injector.scene.clients if not other.dead]
    if client is None or len(alive) < 2:
        return None
    client.die()
    return client.name


def cut(injector: Injector) -> Any:
    link = injector.link()
    if link is None or link.cut:
        return None
    link.set_cut(True)
    broken = link.disturb if injector.scene.store.name == "etcd" else link.break_
    tells = injector.rng.random() < 0.5  # or the connection is silent, and nobody notices
    if tells:
        broken()

    def heal() -> None:
        link.set_cut(False)
        if not tells:
            broken()

    return link.client.name, injector.later(injector.duration(), heal)


def half_cut(injector: Injector) -> Any:
    link = injector.link()
    if link is None or link.half_cut:
        return None
    link.set_half_cut(True)

    def heal() -> None:
        link.set_half_cut(False)

    return link.client.name, injector.later(injector.duration(), heal)


def fated(kind: str) -> Callable[[Injector], Any]:
    def strike(injector: Injector) -> Any:
        injector.scene.store.fated = kind
        if kind == "late request":
            injector.later(LONG, injector.scene.store.land)
        return injector.world.requests

    return strike


def cancel(injector: Injector) -> Any:
    tasks = [
        task
        for task in injector.scene.users
        if not (task.done or task.client.paused)
        and (task.receiving or task.asked is not None)
        and injector.target in (None, task)
    ]
    if not tasks:
        return None
    task = injector.rng.choice(tasks)
    if task.asked is not None:
        task.asked.abandoned = True
    injector.world.resume(task, None, Cancelled())
    return task.name


def end_session(injector: Injector) -> Any:
    """End a session on the store behind the client's back, as an operator or an early expiry does."""
    link = injector.link()
    if link is None:
        return None
    epoch = link.client.runtime.board.epoch
    injector.scene.oracle.exempt[epoch] = injector.world.now
    store = injector.scene.store
    if store.name == "etcd":
        lease = int(epoch.id, 16)
        if lease in store.server.leases:
            store.server.revoke(lease)
    else:
        store.end(link.session)
    return link.client.name


def remove_contender(injector: Injector) -> Any:
    """Delete one contender by hand."""
    store, oracle = injector.scene.store, injector.scene.oracle
    standing = store.standing("q")
    if not standing:
        return None
    token, contender, *_ = injector.rng.choice(standing)
    oracle.removed[token] = injector.world.now
    oracle.calm = False  # who waits behind it in the same client hears of it by the next renewal
    if store.name == "etcd":
        for key, entry in list(store.server.keys.items()):
            if entry.created == token:
                store.server.delete(key)
    else:
        for path, node in list(store.leader.tree.items()):
            if node.stat.czxid == token and node.owner:
                store.delete(path)
    return contender


def leader_change(injector: Injector) -> Any:
    injector.scene.store.server.leader_changed()
    return True


def compaction(injector: Injector) -> Any:
    for link in injector.scene.store.links:
        link.compacted()
    return True


def lossy(injector: Injector) -> Any:
    store = injector.scene.store
    store.lossy = 0.5
    injector.scene.oracle.calm = False

    def heal() -> None:
        store.lossy = 0.0

    return injector.later(SHORT, heal)


def cut_off_server(injector: Injector) -> Any:
    server = injector.rng.choice(injector.scene.store.servers[1:])
    if server.cut_off:
        return None
    server.set_cut_off(True)

    def heal() -> None:
        server.set_cut_off(False)

    return server.number, injector.later(LONG, heal)


BOTH, ETCD, ZOOKEEPER = ("etcd", "zookeeper"), ("etcd",), ("zookeeper",)
FAULTS: dict[str, tuple[tuple[str, ...], Callable[[Injector], Any]]] = {
    "pause": (BOTH, pause),
    "crash": (BOTH, crash),
    "cut": (BOTH, cut),
    "half cut": (BOTH, half_cut),
    "lost request": (BOTH, fated("lost request")),
    "lost reply": (BOTH, fated("lost reply")),
    "late request": (ETCD, fated("late request")),
    "cancel": (BOTH, cancel),
    "session ended": (BOTH, end_session),
    "contender removed": (BOTH, remove_contender),
    "leader change": (ETCD, leader_change),
    "compaction": (ETCD, compaction),
    "lossy watches": (ETCD, lossy),
    "server cut off": (ZOOKEEPER, cut_off_server),
}
FATES = ("lost request", "lost reply", "late request")
KINDS = {
    store: [kind for kind, (stores, _) in FAULTS.items() if store in stores]
    for store in ("etcd", "zookeeper")
}
