"""The scenes: each lets one thing fail, and waits until it was told."""

from __future__ import annotations

from collections.abc import Callable

from integration import servers
from integration.failing.stage import LOCK, SOON_S, Stage
from integration.faults.workers import Worker
from integration.harness.etcd import Etcd

__all__ = ["SCENES"]

KILLED_SESSION_S = 6.0
"""Of the holder that is killed: its session ends by itself while another waits."""
TIMEOUT_S = 3.0
"""Time enough to queue and to see who is ahead, on a busy machine too."""


def holder_killed(stage: Stage) -> None:
    with Worker("faults.worker", "blocking", stage.server.url(stage.prefix), KILLED_SESSION_S) as holder:
        holder.ask("acquire", LOCK, 5.0)
        waiting = stage.queue_up(stage.waiter())
        holder.kill()
        waiting.result(SOON_S).release()


def way_cut_for_long(stage: Stage) -> None:
    stage.hold_until_lost(stage.holder(), stage.proxy.blackhole)


def nothing_answers(stage: Stage) -> None:
    client = stage.holder()
    stage.proxy.blackhole()
    stage.raised(lambda: client.lock(LOCK).try_acquire())
    stage.raised(lambda: client.lock(LOCK).acquire(timeout=0.6))
    if not isinstance(stage.server, Etcd):  # on etcd renewals are further apart, and nothing is doubted yet
        stage.until("session.suspect")


def nobody_listens(stage: Stage) -> None:
    stage.proxy.cut()
    stage.raised(stage.holder)


def way_reset(stage: Stage) -> None:
    held = stage.waiter().lock(LOCK).acquire()
    waiting = stage.queue_up(stage.holder())
    stage.proxy.reset()
    stage.pass_s(1.0)
    held.release()
    waiting.result(SOON_S).release()


def session_ended_of_holder(stage: Stage) -> None:
    client = stage.holder()
    stage.hold_until_lost(client, lambda: stage.end(client.session.id))


def session_ended_of_waiter(stage: Stage) -> None:
    held = stage.waiter().lock(LOCK).acquire()
    client = stage.holder()
    waiting = stage.queue_up(client)
    stage.end(client.session.id)
    stage.until("lock.queued", 2)
    held.release()
    waiting.result(SOON_S).release()


def contender_removed(stage: Stage) -> None:
    stage.hold_until_lost(stage.holder(), stage.remove_first)


def orphan_in_the_way(stage: Stage) -> None:
    client = stage.waiter()
    client.lock(LOCK).acquire().release()
    if isinstance(stage.server, Etcd):
        stage.server.put(f"{stage.prefix}/{LOCK}/orphan", "")
    else:
        with servers.kazoo_client(stage.server) as kazoo:
            kazoo.create(f"/{stage.prefix}/{LOCK}/orphan-lock-", b"", sequence=True)
    stage.raised(lambda: client.lock(LOCK).acquire(timeout=TIMEOUT_S))


def somebody_holds(stage: Stage) -> None:
    grant = stage.waiter().lock(LOCK).acquire()
    stage.raised(lambda: stage.holder().lock(LOCK).acquire(timeout=TIMEOUT_S))
    stage.raised(lambda: stage.holder().lock(LOCK).acquire(max_waiters=0))
    grant.release()


SCENES: dict[str, Callable[[Stage], None]] = {
    "the holder is killed": holder_killed,
    "the way to the store is silent for longer than a session": way_cut_for_long,
    "a call while nothing answers": nothing_answers,
    "a start while nobody listens": nobody_listens,
    "a connection is reset": way_reset,
    "the store ends a holder's session": session_ended_of_holder,
    "the store ends a waiter's session": session_ended_of_waiter,
    "an operator removes a holder's contender": contender_removed,
    "an entry that belongs to no session is in the way": orphan_in_the_way,
    "somebody else holds for too long": somebody_holds,
}
