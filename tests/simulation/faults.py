"""What can go wrong in a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from recipes.stores.redis.requests import Command
from tests.simulation.clients import Cancelled
from tests.simulation.fates import DOUBLED, VERY_LATE
from tests.simulation.redis_store import KEYS
from tests.simulation.standing import Given

if TYPE_CHECKING:
    from tests.simulation.injector import Injector

__all__ = ["AIMED", "FATES", "FAULTS", "KINDS", "LONG", "LOSSES", "NUMBERS", "SHORT", "remove"]

SHORT, LONG = (0.3, 2.0), (2.5, 9.0)
VERY_LATE_S = (*15 * (70.0,), 900.0)
LATE_WRITES_S = (*31 * (12.0,), 900.0)
"""As long as any session of one that was given up, and then: it ends with the session, whenever that is."""


def pause(injector: Injector) -> Any:
    client = injector.client()
    if client is None:
        return None
    return client.name, injector.later(injector.duration(), stopped(injector, client))


def stopped(injector: Injector, client: Any) -> Callable[[], None]:
    """Stop a process; returns what lets it go on: with what came meanwhile, or with its timers."""
    client.stop()

    def go_on() -> None:
        client.stop(paused=False)
        client.healthy_since = injector.world.now
        if injector.rng.random() < 0.5:
            injector.world.fire()
        else:
            injector.world.listening = client

    return go_on


def crash(injector: Injector) -> Any:
    client = injector.client()
    alive = [other for other in injector.scene.clients if not other.dead]
    if client is None or len(alive) < 2:
        return None
    client.die()
    return client.name


def cut(injector: Injector) -> Any:
    connection = injector.connection()
    if connection is None or connection.cut:
        return None
    connection.set_cut(True)
    broken = connection.break_ if injector.scene.store.name == "zookeeper" else connection.disturb
    tells = injector.rng.random() < 0.5  # or the connection is silent, and nobody notices
    if tells:
        broken()

    def heal() -> None:
        connection.set_cut(False)
        if not tells:
            broken()

    return connection.client.name, injector.later(injector.duration(), heal)


def half_cut(injector: Injector) -> Any:
    connection = injector.connection()
    if connection is None or connection.half_cut:
        return None
    connection.set_half_cut(True)

    def heal() -> None:
        connection.set_half_cut(False)

    return connection.client.name, injector.later(injector.duration(), heal)


def fated(kind: str) -> Callable[[Injector], Any]:
    def strike(injector: Injector) -> Any:
        store, rng = injector.scene.store, injector.rng
        store.fated, store.creates_only = kind, False
        # Contenders are not kept from coming twice, as no way there doubles what it carries; values are.
        store.writes_only = injector.scene.use.writes and (kind == DOUBLED or rng.random() < 0.75)
        if kind == "late request":
            injector.later(LONG, store.land)
        elif kind in (VERY_LATE, DOUBLED):
            late_s = LATE_WRITES_S if injector.scene.use.writes else VERY_LATE_S
            store.very_late_s, store.creates_only = rng.choice(late_s), rng.random() < 0.75
        return injector.world.requests

    return strike


def cancel(injector: Injector) -> Any:
    tasks = [
        task
        for task in (*injector.scene.users, *injector.scene.observers)
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
    connection = injector.connection()
    if connection is None:
        return None
    session = connection.client.runtime.state.session
    injector.scene.oracle.exempt[session] = injector.world.now
    store = injector.scene.store
    if store.name == "etcd":
        lease = int(session.id, 16)
        if lease in store.server.leases:
            store.server.revoke(lease)
    elif store.name == "redis":
        store.end(session.id)
    elif store.name in SQL:
        store.end_session(session.id)
    else:
        store.end(connection.session)
    return connection.client.name


def remove_contender(injector: Injector) -> Any:
    """Delete one contender by hand."""
    store, oracle = injector.scene.store, injector.scene.oracle
    standing = oracle.standing()
    if not standing:
        return None
    queue, one = injector.rng.choice(standing)
    oracle.given_to.setdefault(one.contender, (queue, one.token))  # it may not have been looked at yet
    remove(store, oracle, (queue, one.token))
    return one.contender


def remove(store: Any, oracle: Any, given: Given) -> None:
    """Delete this contender."""
    oracle.removed[given] = oracle.world.now
    queue, token = given
    oracle.calm = False  # who waits behind it in the same client is notified of it by the next renewal
    if store.name == "etcd":
        for key, entry in list(store.server.keys.items()):
            if entry.created == token:
                store.server.delete(key)
    elif store.name in (*CELL, *REDIS, *SQL):
        store.expel(queue, token)
    else:
        for path, node in list(store.leader.tree.items()):
            if node.stat.czxid == token and node.owner:
                store.delete(path)


def leader_change(injector: Injector) -> Any:
    injector.scene.store.server.leader_changed()
    return True


def compaction(injector: Injector) -> Any:
    for connection in injector.scene.store.connections:
        connection.compacted()
    return True


def lossy(injector: Injector) -> Any:
    store = injector.scene.store
    store.lossy = 0.5
    injector.scene.oracle.calm = False

    def heal() -> None:
        store.lossy = 0.0

    return injector.later(SHORT, heal)


def restart(injector: Injector) -> Any:
    """Start the server again, with all that it had written."""
    store = injector.scene.store
    store.restart(len(store.master.log))
    return True


def restart_without(injector: Injector) -> Any:
    """Start the server again, with the first of what it had written, or nothing."""
    store = injector.scene.store
    upto = 0 if injector.rng.random() < 0.4 else injector.rng.randint(0, len(store.master.log))
    store.restart(upto)
    return upto


def failover(injector: Injector) -> Any:
    """Cut the master off from its replica, which takes over; some clients go on to ask the old one."""
    store, rng = injector.scene.store, injector.rng
    old = store.master
    if not store.replicas or not old.replicated:
        return None
    old.replicated = False
    has = rng.randint(old.sure, len(old.log))

    def take_over() -> None:
        if old is not store.master:
            return
        store.promote(has)
        store.split += 1
        for connection in store.connections:
            if rng.random() < 0.5:
                connection.move()

        injector.later(LONG, lambda: store.retire(old))

    return injector.later(SHORT, take_over)


def flush(injector: Injector) -> Any:
    """Delete everything on the server, which admits a second holder."""
    store, oracle = injector.scene.store, injector.scene.oracle
    for client in injector.scene.clients:
        for session in client.sessions:
            if KEYS.session(session.protocol.session_id) not in store.master.acts.keys:
                continue  # it has ended, or begins later
            oracle.exempt[session] = injector.world.now
    store.master.do(Command(("FLUSHALL",), ""))
    store.loses()
    store.wrote()
    return True


def stranger(injector: Injector) -> Any:
    """Have a program of others take the key of a lock, which is free or not, or delete it; and let it go."""
    store, oracle, rng = injector.scene.store, injector.scene.oracle, injector.rng
    names = [queue for queue in oracle.queues if not queue.startswith("~")]
    if not names:
        return None
    name = rng.choice(names)
    taken = store.master.acts.get(KEYS.base(name)) is not None
    # A server that starts drops none, and the renewal of a holder writes its key anew.
    if taken and (rng.random() < 0.8 or injector.world.now < store.grants_from):
        return None
    for one in oracle.free(store.standing(name)) if taken else ():
        oracle.removed[name, one.token] = injector.world.now
        oracle.deprived.add((name, one.token))
    oracle.calm = False
    value = f"theirs-{rng.random()}"
    if not taken or rng.random() < 0.5:
        store.foreign("SET", name, value, "PX", rng.choice((300, 2_000, 3_000)))
    else:
        store.foreign("DEL", name)
    injector.later(injector.duration(), lambda: store.foreign("DEL", name, value))
    return name, taken


def server_killed(injector: Injector) -> Any:
    """Kill the database, and start it again."""
    injector.scene.store.restart()
    return True


def standby(injector: Injector) -> Any:
    """Have a standby take over, which lacks the last of what was committed, not the first."""
    store, rng = injector.scene.store, injector.rng
    has = len(store.db.log)
    upto = max(1, has - rng.choice((0, 1, 2, 3, 5, 10, 40)))
    store.promote(upto)
    return has - upto


def backend_terminated(injector: Injector) -> Any:
    """End one transaction that is open, as an operator or a full disk does."""
    db = injector.scene.store.db
    if not db.open:
        return None
    db.end(injector.rng.choice(list(db.open)))
    return True


def cut_off_server(injector: Injector) -> Any:
    server = injector.rng.choice(injector.scene.store.servers[1:])
    if server.cut_off:
        return None
    server.set_cut_off(True)

    def heal() -> None:
        server.set_cut_off(False)

    return server.number, injector.later(LONG, heal)


# Aimed at renewals: what the clocks are about shows within moments that chance seldom meets.


def renewing(injector: Injector) -> Any:
    """Return the client that holds the lock and has just sent the last request of a renewal, or None."""
    task, scene = injector.world.asker, injector.scene
    client = task.client
    if task is not client.runtime.keepalive or client.paused or client.runtime.state.session is None:
        return None
    holds = any(holder is client for holder, _ in scene.oracle.live)
    return client if holds and scene.store.ends_renewal(injector.world) else None


def slow_renewal(injector: Injector) -> Any:
    """Answer a renewal late, and no other in time."""
    client = renewing(injector)
    if client is None:
        return None
    connection = client.runtime.state.session.connection
    connection.set_half_cut(True)

    def answered() -> None:
        connection.set_half_cut(False)
        if injector.scene.store.name == "zookeeper":
            injector.after(1, "renewed, then cut off")
            return
        connection.set_mute(True)
        injector.later((3.0, 7.0), lambda: connection.set_mute(False))

    return client.name, injector.later((0.5, 1.0), answered)


def late_renewal(injector: Injector) -> Any:
    """Hold a renewal back on its way to the server, and cut that off soon after the next ones."""
    client = renewing(injector)
    if client is None or client.runtime.state.session.connection.cut:
        return None
    connection = client.runtime.state.session.connection
    connection.set_cut(True)

    def arrives() -> None:
        connection.set_cut(False)
        injector.after(injector.rng.randint(1, 8), "renewed, then cut off")

    return client.name, injector.later((0.1, 1.5), arrives)


def cut_off_when_renewed(injector: Injector) -> Any:
    """Have a follower lose the leader as soon as it has passed on a renewal."""
    client = renewing(injector)
    if client is None:
        return None
    server = client.runtime.state.session.connection.server
    if server.number == 0:
        return None

    def lose() -> None:
        server.set_cut_off(True)
        injector.later((3.0, 9.0), lambda: server.set_cut_off(False))

    return client.name, injector.later((0.001, 0.05), lose)


def late_commit(injector: Injector) -> Any:
    """Stop a process, and have its renewal begin just before the session is over, and be committed later."""
    client = renewing(injector)
    if client is None:
        return None
    store, session = injector.scene.store, client.runtime.state.session.id
    row = store.db.tables["session"].get(session)
    if row is None or row.expires_at / store.rate / 1e6 < injector.world.now + 0.1:
        return None
    store.hold_open(row.expires_at / store.rate / 1e6 - 0.01, injector.rng.uniform(0.1, 0.9))
    return client.name, injector.later(LONG, stopped(injector, client))


def pause_in_renewal(injector: Injector) -> Any:
    """Stop a process that waits for the answer to a renewal, for longer than the session lasts."""
    client = renewing(injector)
    if client is None:
        return None
    return client.name, injector.later(LONG, stopped(injector, client))


ETCD, ZOOKEEPER, REDIS, SQL = ("etcd",), ("zookeeper",), ("redis",), ("sql", "sql-polling")
CELL = ("cell",)
SESSIONS = (*ETCD, *ZOOKEEPER, *REDIS, *SQL)
"""Those that know of sessions."""
ALL = (*SESSIONS, *CELL)
APART = (*ETCD, *REDIS, *SQL, *CELL)
"""Where requests go beside each other, and one may arrive long after those that were sent later."""
FAULTS: dict[str, tuple[tuple[str, ...], Callable[[Injector], Any]]] = {
    "pause": (ALL, pause),
    "crash": (ALL, crash),
    "cut": (ALL, cut),
    "half cut": (ALL, half_cut),
    "lost request": (ALL, fated("lost request")),
    "lost reply": (ALL, fated("lost reply")),
    "late request": (APART, fated("late request")),
    VERY_LATE: (APART, fated(VERY_LATE)),
    "cancel": (ALL, cancel),
    "session ended": (SESSIONS, end_session),
    "contender removed": (ALL, remove_contender),
    "leader change": (ETCD, leader_change),
    "compaction": (ETCD, compaction),
    "lossy watches": (("etcd", "redis", "sql"), lossy),
    "server cut off": (ZOOKEEPER, cut_off_server),
    "slow renewal": (ALL, slow_renewal),
    "renewed, then cut off": (ZOOKEEPER, cut_off_when_renewed),
    "paused in a renewal": (ALL, pause_in_renewal),
    "late renewal": (ZOOKEEPER, late_renewal),
    DOUBLED: (CELL, fated(DOUBLED)),
    "restart": (REDIS, restart),
    "restart without some data": (REDIS, restart_without),
    "failover": (REDIS, failover),
    "flush": (REDIS, flush),
    "stranger": (REDIS, stranger),
    "server killed": (SQL, server_killed),
    "standby": (SQL, standby),
    "backend terminated": (SQL, backend_terminated),
    "late commit of a renewal": (SQL, late_commit),
}
NUMBERS = {kind: number for number, kind in enumerate(FAULTS)}
FATES = ("lost request", "lost reply", "late request", VERY_LATE, DOUBLED)
LOSSES = ("restart without some data", "failover", "flush", "standby")
AIM = (
    "slow renewal",
    "renewed, then cut off",
    "paused in a renewal",
    "late renewal",
    "late commit of a renewal",
)
AIMED, KINDS = (
    {
        store: [kind for kind, (at, _) in FAULTS.items() if store in at and (kind in AIM) is aimed]
        for store in ALL
    }
    for aimed in (True, False)
)
