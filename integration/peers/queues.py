"""What a queue should stand: names, numbers, strangers.

Each returns, or raises `Broken` or `DoesNotApply`.
"""

from __future__ import annotations

from integration import servers
from integration.peers.stage import PATIENCE_S, Broken, DoesNotApply, Stage, primed

__all__ = [
    "any_text_is_a_name",
    "counter_ends",
    "foreign_contender",
    "malformed_contender",
    "no_name_is_refused",
    "orphaned_contender",
    "reader_and_lock",
    "removed_directory",
]


def counter_ends(stage: Stage) -> None:
    if stage.kind.backend != "ZooKeeper":
        raise DoesNotApply("etcd counts to 2 to the power of 63")
    handles = [stage.client().lock("x") for _ in range(2)]
    for turn in range(6):
        holder, other = handles[turn % 2], handles[turn % 2 - 1]
        if not holder.acquire(5):
            raise Broken("the lock stays taken")
        if other.try_acquire():
            raise Broken("two hold at once: the last number is given to both")
        holder.release()


def any_text_is_a_name(stage: Stage) -> None:
    client = stage.client()
    for said, name in (("日本語", "日本語"), ("a name of 1 000 characters", "x" * 1000)):
        locking = stage.doing(lambda name=name: primed(client.lock(name)))
        assert locking.ends(PATIENCE_S)
        if locking.error is not None:
            raise Broken(f"{said}: {type(locking.error).__name__}")


def no_name_is_refused(stage: Stage) -> None:
    client = stage.client()
    making = stage.doing(lambda: client.lock(""))
    assert making.ends(PATIENCE_S)
    if making.error is None:
        taking = stage.doing(lambda: primed(making.result))
        assert taking.ends(PATIENCE_S)
        where = {"ZooKeeper": "the root of the store", "etcd": "the directory of all locks"}
        if taking.error is None:
            raise Broken(f"it locks {where[stage.kind.backend]}")
        raise Broken("it is refused only by the store")


def foreign_contender(stage: Stage) -> None:
    _waits_for(stage, "foreign", "it holds beside a contender of Curator's layout")


def orphaned_contender(stage: Stage) -> None:
    _waits_for(stage, "orphan", "it holds beside it")


def malformed_contender(stage: Stage) -> None:
    foreign = stage.plant("malformed")
    handle = stage.client().lock("x")
    taking = stage.doing(lambda: handle.acquire(1))
    if not taking.ends(PATIENCE_S) or taking.error is not None:
        raise Broken("`acquire` fails on it")
    if foreign not in stage.contenders():
        raise Broken("it is deleted")


def reader_and_lock(stage: Stage) -> None:
    if not stage.kind.shares:
        raise DoesNotApply("has no readers")
    assert stage.client().reader("x").acquire(PATIENCE_S)
    if stage.client().lock("x").try_acquire():
        raise Broken("the lock is taken beside a reader of the name")


def removed_directory(stage: Stage) -> None:
    if stage.kind.backend != "ZooKeeper":
        raise DoesNotApply("etcd has no directories")
    handle = stage.client().lock("x")
    primed(handle)
    stage.store.remove_directory("x")
    for _ in range(2):
        again = stage.doing(lambda: primed(handle))
        assert again.ends(PATIENCE_S)
        if again.error is None:
            return
    raise Broken(f"{type(again.error).__name__} from then on")


def _waits_for(stage: Stage, kind: str, otherwise: str) -> None:
    foreign = stage.plant(kind)
    handle = stage.client().lock("x")
    if handle.acquire(0.5):
        raise Broken(otherwise)
    assert servers.eventually(lambda: stage.contenders() == [foreign], 5), "it should be left alone"
    stage.store.remove(foreign)
    if not handle.acquire(3):
        raise Broken("the lock stays taken when it is gone")
