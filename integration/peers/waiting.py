"""What a waiter should stand: timeouts, interrupts, and the loss of its connection, its session, its history.

Each returns, or raises `Broken` or `DoesNotApply`.
"""

from __future__ import annotations

import time

from integration import servers
from integration.faults.looking import L5_S
from integration.peers.alone import alone
from integration.peers.stage import PATIENCE_S, Broken, DoesNotApply, Doing, Stage, primed
from integration.peers.subjects import Handle

__all__ = [
    "compaction_while_waiting",
    "deadline_in_silence",
    "deadline_is_one",
    "interrupt_leaves_nothing",
    "reconnect_while_waiting",
    "session_ends_while_waiting",
    "timeout_leaves_nothing",
    "timeouts_mean_the_same",
]

OUTLASTS_S = 30
"""Of a session that goes on while the connection is silent, and as long as its contender is looked for."""
STAYS = "its contender stays in the queue, and blocks those that come later, while its session lives"


def timeout_leaves_nothing(stage: Stage) -> None:
    stage.held()
    timeout_s = 5  # it waits when the connection is lost, on a busy machine too
    waiting = stage.waiting(stage.client(frail=True, ttl_s=OUTLASTS_S).lock("x"), timeout=timeout_s)
    stage.proxy.blackhole()
    waiting.ends(timeout_s + 0.5)  # it gives up, and what it sends then is lost
    stage.proxy.cut()
    stage.proxy.heal()
    if not waiting.ends(PATIENCE_S):
        raise Broken("`acquire` hangs")
    assert not waiting.result
    if not servers.eventually(lambda: len(stage.contenders()) == 1, L5_S):
        raise Broken(STAYS)


def deadline_in_silence(stage: Stage) -> None:
    if not stage.kind.waits:
        raise DoesNotApply("`acquire` takes no timeout")
    handle = stage.client(frail=True).lock("x")
    primed(handle)
    stage.proxy.blackhole()
    acquiring = stage.doing(lambda: handle.acquire(1))
    if not acquiring.ends(4):
        raise Broken("`acquire` with a timeout of 1 s is under way after 4 s")


def deadline_is_one(stage: Stage) -> None:
    stage.held()
    if not stage.kind.waits:
        raise DoesNotApply("cannot wait")
    if not stage.kind.queues:
        raise DoesNotApply("polls: nothing wakes it")
    ahead = stage.plant("orphan")
    start = time.monotonic()
    waiting = stage.waiting(stage.client().lock("x"), timeout=2)
    waiting.ends(start + 1.2 - time.monotonic())
    stage.store.remove(ahead)
    if not waiting.ends(start + 2.8 - time.monotonic()):
        raise Broken("the timeout begins again each time a contender ahead leaves")
    assert not waiting.result


def timeouts_mean_the_same(stage: Stage) -> None:
    if not stage.kind.waits:
        raise DoesNotApply("cannot wait")
    holder = stage.held()
    handle = stage.client().lock("x")
    acquire = getattr(handle, "acquire_by_its_timeout", handle.acquire)
    for timeout in (0, 0.3):
        start = time.monotonic()
        acquiring = stage.doing(lambda timeout=timeout: acquire(timeout))
        if not acquiring.ends(timeout + 0.7):
            holder.release()
            raise Broken(f"`acquire(timeout={timeout:g})` waits on")
        if acquiring.result:
            raise Broken(f"`acquire(timeout={timeout:g})` says that it holds beside another")
        if time.monotonic() - start < timeout:
            raise Broken(f"`acquire(timeout={timeout:g})` gives up too soon")
    waiting = stage.doing(lambda: acquire(None))
    if waiting.ends(1):
        raise Broken("`acquire(timeout=None)` does not wait")
    holder.release()
    if not waiting.ends(PATIENCE_S) or not waiting.result:
        raise Broken("`acquire(timeout=None)` does not get the lock")


def interrupt_leaves_nothing(stage: Stage) -> None:
    if not stage.kind.waits:
        raise DoesNotApply("cannot wait")
    stage.held()
    with alone(stage, "interrupted") as child:
        before = len(stage.contenders())
        child.tell("wait")
        if stage.kind.queues:
            assert servers.eventually(lambda: len(stage.contenders()) > before, PATIENCE_S)
        assert child.says() == "waits"
        child.interrupt()
        if child.says() != "KeyboardInterrupt":
            raise Broken("Ctrl-C does not end `acquire`")
        if not servers.eventually(lambda: len(stage.contenders()) == before, L5_S):
            raise Broken(STAYS)


def reconnect_while_waiting(stage: Stage) -> None:
    holder = stage.held()
    waiting = stage.waiting(stage.client(frail=True).lock("x"), timeout=20)
    stage.proxy.cut()
    waiting.ends(1.5)  # who polls has asked meanwhile
    stage.proxy.heal()
    _gets_it_from(holder, waiting)


def session_ends_while_waiting(stage: Stage) -> None:
    if not stage.kind.queues:
        raise DoesNotApply("has no queue")
    holder, client, third = stage.held(), stage.client(ttl_s=3), stage.client().lock("x")
    waiting = stage.waiting(client.lock("x"), timeout=20)
    own = stage.contenders()[1]
    stage.end(client, None)
    assert servers.eventually(lambda: own not in stage.contenders(), 5)
    if not servers.eventually(lambda: len(stage.contenders()) == 2, 5):
        raise Broken("it waits on without a place in the queue")
    _gets_it_from(holder, waiting)
    if third.try_acquire():
        raise Broken("another holds beside it")


def compaction_while_waiting(stage: Stage) -> None:
    if not isinstance(stage.server, servers.Etcd):
        raise DoesNotApply("ZooKeeper keeps no history")
    holder = stage.held()
    waiting = stage.waiting(stage.client(frail=True).lock("x"), timeout=20)
    stage.proxy.blackhole()
    stage.store.forget_history()
    if stage.kind.queues:  # a watch that is made again from where it was begins in what is forgotten
        stage.proxy.reset()
    stage.proxy.heal()
    _gets_it_from(holder, waiting)


def _gets_it_from(holder: Handle, waiting: Doing) -> None:
    if waiting.ends(0.5):
        raise Broken("the waiting `acquire` raises")
    holder.release()
    if not waiting.ends(5) or not waiting.result:
        raise Broken("the waiter does not get the lock")
