"""What a holder should stand: lost replies, the end of its session, a fork, and its own second attempt.

Each returns, or raises `Broken` or `DoesNotApply`.
"""

from __future__ import annotations

import threading
import time

from integration import servers
from integration.peers.alone import alone
from integration.peers.stage import PATIENCE_S, Broken, DoesNotApply, Stage, primed

__all__ = [
    "forked_child_holds_nothing",
    "lost_reply_to_acquire",
    "lost_reply_to_release",
    "release_after_a_loss",
    "second_acquire_changes_nothing",
    "told_before_it_is_freed",
    "told_when_it_is_ended",
    "try_leaves_nothing",
    "two_threads_take_turns",
    "with_never_runs_unheld",
]


def lost_reply_to_acquire(stage: Stage) -> None:
    handle, other = stage.client(frail=True).lock("x"), stage.client().lock("x")
    primed(handle)
    lost = stage.lose_reply(stage.acquires)
    acquiring = stage.doing(lambda: handle.acquire(5))
    assert lost.wait(PATIENCE_S)
    if not acquiring.ends(PATIENCE_S):
        raise Broken("`acquire` hangs")
    if acquiring.error is not None:
        if not stage.takes(other, 1):
            raise Broken("`acquire` raises, and the lock stays taken until the lease ends")
        raise Broken("`acquire` raises")
    if len(stage.contenders()) != 1:
        raise Broken("a second contender stands in the queue")
    handle.release()
    if not stage.takes(other, 2):
        raise Broken("the lock stays taken after the release")


def lost_reply_to_release(stage: Stage) -> None:
    handle, other = stage.client(frail=True).lock("x"), stage.client().lock("x")
    assert handle.acquire(5)
    lost = stage.lose_reply(stage.releases)
    releasing = stage.doing(handle.release)
    assert lost.wait(PATIENCE_S)
    if not releasing.ends(PATIENCE_S):
        raise Broken("`release` hangs")
    if not stage.takes(other, 2):
        raise Broken("the lock stays taken")
    if releasing.error is not None:
        said = stage.doing(handle.says_held)
        assert said.ends(PATIENCE_S)
        more = ", and it says that it still holds" if said.result else ""
        raise Broken(f"`release` raises though it was done{more}")


def try_leaves_nothing(stage: Stage) -> None:
    stage.held()
    handle = stage.client().lock("x")
    handle.try_acquire()  # whatever its session needs is there now
    before = stage.leases()
    for _ in range(5):
        assert not handle.try_acquire()
    if not servers.eventually(lambda: stage.leases() <= before, 5):
        raise Broken("each leaves a lease behind, for as long as that lasts")
    if len(stage.contenders()) != 1:
        raise Broken("a contender stays in the queue")


def told_before_it_is_freed(stage: Stage) -> None:
    handle, other = stage.client(frail=True, ttl_s=3).lock("x"), stage.client().lock("x")
    assert handle.acquire(5)
    stage.proxy.blackhole()
    assert stage.takes(other, PATIENCE_S), "the store should end the session"
    asked = stage.doing(handle.says_held)
    if not asked.ends(1):
        raise Broken("nothing notifies it: to know, it has to ask the store, which is out of reach")
    if asked.result:
        raise Broken("it says that it holds, and another does")


def told_when_it_is_ended(stage: Stage) -> None:
    client, other = stage.client(ttl_s=3), stage.client().lock("x")
    handle = client.lock("x")
    assert handle.acquire(5)
    stage.end(client, handle)
    assert stage.takes(other, PATIENCE_S)

    def knows() -> bool:
        stage.doing(handle.renew).ends(1)  # it may say so by an exception
        return not handle.says_held()

    if not servers.eventually(knows, 4, every_s=0.2):
        raise Broken("it goes on saying that it holds")


def with_never_runs_unheld(stage: Stage) -> None:
    holder = stage.held()
    handle, entered = stage.client().lock("x"), threading.Event()
    inside = stage.doing(lambda: handle.inside(entered.set))
    if entered.wait(0.7):
        raise Broken("the body of `with` runs while another holds")
    holder.release()
    if not inside.ends(PATIENCE_S) or not entered.is_set():
        raise Broken("the body of `with` never runs")


def release_after_a_loss(stage: Stage) -> None:
    client, other, third = stage.client(ttl_s=3), stage.client().lock("x"), stage.client().lock("x")
    handle = client.lock("x")
    assert handle.acquire(5)
    stage.end(client, handle)
    assert stage.takes(other, PATIENCE_S)
    stage.doing(handle.release).ends(PATIENCE_S)
    if not stage.contenders() or third.try_acquire():
        raise Broken("the release of one that had lost it frees the lock of the next")


def second_acquire_changes_nothing(stage: Stage) -> None:
    ttl_s = 6
    handle = stage.client(ttl_s=ttl_s).lock("x")
    assert handle.acquire(5)
    (own,) = stage.contenders()
    second = stage.doing(lambda: handle.acquire(0.5))
    if not second.ends(PATIENCE_S):
        raise Broken("the second `acquire` hangs")
    if second.result:
        raise Broken("the second `acquire` says that it holds")

    def gone() -> bool:
        stage.doing(handle.renew).ends(1)
        return own not in stage.contenders()

    if servers.eventually(gone, ttl_s + 4, every_s=0.3):
        raise Broken("the first grant ends: what is renewed from then on is the lease of the second attempt")
    handle.release()
    if not servers.eventually(lambda: not stage.contenders(), 2):
        raise Broken("the lock stays taken after the release")


def two_threads_take_turns(stage: Stage) -> None:
    if not stage.kind.waits:
        raise DoesNotApply("cannot wait")
    handle, inside = stage.client().lock("x"), [0]

    def body() -> None:
        inside[0] += 1
        time.sleep(0.01)
        together.append(inside[0])
        inside[0] -= 1

    together: list[int] = []
    working = [stage.doing(lambda: [handle.inside(body) for _ in range(3)]) for _ in range(2)]
    for one in working:
        if not one.ends(20):
            raise Broken("one of them hangs")
        if one.error is not None:
            raise Broken("one of them fails")
    if set(together) != {1} or len(together) != 6:
        raise Broken("both hold at once")


def forked_child_holds_nothing(stage: Stage) -> None:
    with alone(stage, "forked") as child:
        child.tell("fork")
        said = child.says()
        if said == "held":
            raise Broken("the child says that it holds as well")
        assert said == "not held", said
