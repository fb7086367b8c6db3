"""Bugs to plant in the read-write lock."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any
from unittest import mock

from recipes._contract.contenders import Ahead
from recipes._contract.operations import Rewrite, Snapshot
from recipes._contract.rule import Nearest, Rule
from recipes._contract.wakeups import Changed
from recipes._programs import queueing
from recipes._programs.hold import HeldState
from recipes._programs.waiters import InProcessWaiters
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.readwrite import SHARED
from recipes.stores.etcd import codec
from recipes.stores.etcd import protocol as etcd
from recipes.stores.etcd.protocol import EtcdProtocol, key_of
from recipes.stores.zookeeper import protocol as zookeeper
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Create, Delete
from tests.simulation.bugs import swap

#: As in ``users.MIXED``, with one side replaced.
BESIDE = (SHARED, SHARED, WRITER, EXCLUSIVE)


def mixed(*instead: Rule) -> tuple[Rule, ...]:
    """Return a mixture in which these stand for the true ones of their kind."""
    kinds = {one.kind for one in instead}
    return (*instead, *instead, *(one for one in BESIDE if one.kind not in kinds))


def _let_past_waiting(exclusive: Ahead) -> Ahead:
    return exclusive[-1:] if exclusive and not exclusive[-1].downgraded else ()


def _past_downgraded(ahead: Ahead) -> Ahead:
    return () if ahead and ahead[0].downgraded else ahead[:1]


#: A reader looks at whoever holds, and at no writer that waits.
OVERTAKES = Rule("R", _let_past_waiting, exclusive_only=True, minds_marks=True, steps_up=False)
#: Readers step up, as writers do, and all wake at every release.
HERD = Rule("R", SHARED.blocked_by, exclusive_only=True, minds_marks=True)
#: A writer minds writers alone.
BLIND_WRITER = Rule("W", exclusive_only=True)
#: A writer goes in beside one that downgraded.
BESIDE_DOWNGRADED = Rule("W", _past_downgraded, minds_marks=True)
#: A reader waits for readers, too: nobody shares.
UNSHARED = Rule("R")
#: A reader never sees that a writer downgraded.
STUBBORN = Rule("R", Nearest(), exclusive_only=True, minds_marks=True, steps_up=False)


def shares_too_late() -> list[Any]:
    """The holder counts as exclusive until the store has answered."""

    def share(self: HeldState) -> None:
        pass

    def downgrade(hold: HeldState) -> Any:
        stands = yield from original(hold)
        before(hold)
        return stands

    original, before = queueing.downgrade, HeldState.share
    return [
        mock.patch.object(HeldState, "share", share),
        mock.patch("tests.simulation.users.downgrade", downgrade),
    ]


def own_readers_not_told() -> list[Any]:
    return swap(InProcessWaiters, "marked", lambda self, contender_id, mark: None)


def no_look_when_others_were_ahead() -> list[Any]:
    """A reader that knew of two writers takes the going of the nearest for its turn."""

    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        if mine.ticket.kind == "R" and getattr(event, "ref", None) == (armed[0].ref if armed else ""):
            return Snapshot(mine, (), complete=True, position=0), ()
        return (yield from original(rule, mine, snapshot, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def etcd_watches_deletions_alone() -> list[Any]:
    def watches(*args: Any, **kept: Any) -> Any:
        return tuple(replace(watch, changes=False) for watch in original(*args, **kept))

    original = EtcdProtocol._watches
    return swap(EtcdProtocol, "_watches", watches)


def etcd_state_not_compared() -> list[Any]:
    def compare_seen(target: Any, mine: Any) -> Any:
        return codec.compare_present(target.ref.encode(), before=mine.token)

    return swap(etcd, "_compare_seen", compare_seen)


def etcd_by_rename() -> list[Any]:
    """Delete the writer's key and put a reader's in one transaction: another place, another token."""

    def rewrite(self: EtcdProtocol, op: Rewrite, context: Any) -> Generator[Any, Any, int | None]:
        key = key_of(op.entry)
        renamed = key.replace(b"/W-", b"/R-")
        then = [codec.delete(key), codec.put(renamed, b"downgraded\n", self._lease)]
        reply = yield from self._txn([codec.compare_created(key, op.entry.token)], then=then)
        return 1 if reply.get("succeeded") else None

    return swap(EtcdProtocol, "rewrite", rewrite)


def etcd_marks_whatever_is_there() -> list[Any]:
    """Put without comparing: it comes back after it was deleted."""

    def rewrite(self: EtcdProtocol, op: Rewrite, context: Any) -> Generator[Any, Any, int]:
        yield from self._txn(then=[codec.put(key_of(op.entry), b"downgraded\n", self._lease)])
        return 1

    return swap(EtcdProtocol, "rewrite", rewrite)


def zookeeper_by_rename() -> list[Any]:
    def rewrite(self: ZooKeeperProtocol, op: Rewrite, context: Any) -> Generator[Any, Any, int]:
        yield from self._one(Delete(op.entry.ref))
        path = op.entry.ref[:-10].replace("-W-", "-R-")
        yield from self._one(Create(path, ephemeral=True, sequence=True))
        return 1

    return swap(ZooKeeperProtocol, "rewrite", rewrite)


def zookeeper_asked_twice_is_gone() -> list[Any]:
    """The reply to the first try was lost, and the second finds another version."""

    def rewrite(self: ZooKeeperProtocol, op: Rewrite, context: Any) -> Generator[Any, Any, int | None]:
        return (yield from original(self, replace(op, version=0), context))

    original = ZooKeeperProtocol.rewrite
    return swap(ZooKeeperProtocol, "rewrite", rewrite)


def zookeeper_state_not_compared() -> list[Any]:
    return swap(zookeeper, "_as_seen", lambda found, target, mine: found is not None)


def zookeeper_state_not_read() -> list[Any]:
    """A look takes every writer for one that did not downgrade."""

    def with_states(self: Any, queue: Any, nearest: Any, rule: Any) -> Generator[Any, Any, Any]:
        yield from ()
        return nearest

    return swap(ZooKeeperProtocol, "_with_states", with_states)


def downgrades_unwatched() -> list[Any]:
    """Of a change nothing is told."""

    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Changed):
            return snapshot, armed
        return (yield from original(rule, mine, snapshot, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)
