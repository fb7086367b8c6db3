"""What is asked about queues from outside of them: who stands where, and an operator's removal."""

from __future__ import annotations

from dataclasses import replace

from recipes._contract.operations import Expel, Queues, Standing, Survey
from recipes._contract.protocol import Steps, Turn
from recipes.stores.zookeeper.layout import DOWNGRADED, NO_LOCK, dubious, is_downgraded
from recipes.stores.zookeeper.protocol_calls import ZooKeeperCalls
from recipes.stores.zookeeper.requests import Children, Exists, Get, Sync

__all__ = ["ZooKeeperOutside"]

AT_ONCE = 100  # listings sent together


class ZooKeeperOutside(ZooKeeperCalls):
    """The operations that are about nobody's own contender."""

    def expel(self, op: Expel, turn: Turn) -> Steps[bool]:
        """Delete a node if it is the one that was created then: no other gets its name, with its number."""
        _, stat = yield from self._together((Sync("/"), Exists(op.ref)))
        if stat is None or stat.czxid != op.token:
            return turn.again  # asked again: it was I who deleted it
        return (yield from self._delete(op.ref, again=turn.again))

    def survey(self, op: Survey, turn: Turn) -> Steps[tuple[Standing, ...]]:
        """List the queue, then read the nodes at its head, together."""
        queue = op.queue
        _, names = yield from self._together((Sync("/"), Children(self._layout.queue(queue))))
        children = self._layout.children(names or ())
        self._notice(queue, names or (), children)
        if dubious(children):
            children = yield from self._by_czxid(queue, children)
        head = [self._layout.parse(queue, name) for _, name in reversed(children)][: op.most]
        found = yield from self._together(tuple(Get(contender.ref) for contender in head))
        standing = []
        for contender, there in zip(head, found, strict=True):
            if there is not None:
                data, stat = there
                downgraded = bool(contender.id) and is_downgraded(data)
                shown = replace(contender, session=f"{stat.owner & (2**64 - 1):x}", downgraded=downgraded)
                note = data.removeprefix(DOWNGRADED).decode("utf-8", "replace")
                standing.append(Standing(shown, stat.czxid, note))
        return tuple(standing)

    def queues(self, op: Queues, turn: Turn) -> Steps[tuple[str, ...]]:
        """List the locks' nodes, which stay when a lock is free, and each of them until enough are taken."""
        (names,) = yield from self._together((Children(self._layout.root),))
        found: list[str] = []
        waiting = sorted(name for name in names or () if not name.startswith(NO_LOCK))
        while waiting and len(found) < op.most:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            listed = yield from self._together(tuple(Children(self._layout.queue(name)) for name in some))
            pairs = zip(some, listed, strict=True)
            found += [name for name, inside in pairs if self._layout.children(inside or ())]
        return tuple(found[: op.most])
