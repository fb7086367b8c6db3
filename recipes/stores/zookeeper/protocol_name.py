"""The protocol of ``layout="name"``: one ephemeral node for each lock, ``<root>/<name>/lock``.

So do programs that create one ephemeral node and wait until it is gone; this shares a lock with them. The
node's data is the value of the cell, if this package made it: the session and the contender. Its lease is the
session, and the token is ``czxid``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from recipes._contract.connection import Batch, Mailbox
from recipes._contract.operations import Check, Checked, List, Listing, Op, Open, Opened
from recipes._contract.protocol import RequestContext, Steps
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.stores._kit.cell import Cell, CellProtocol, Claim, Drop, Keep, Peek, Take, shown
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import NO_SESSION, PARENT_TRIES, ZooKeeperProtocol
from recipes.stores.zookeeper.protocol_asking import ANOTHERS, MOST_LISTED, Asking, listed
from recipes.stores.zookeeper.requests import (
    Create,
    Delete,
    Exists,
    Get,
    NodeExists,
    NoNode,
    Stat,
    Sync,
)

__all__ = ["NameProtocol"]

FREE, STRANGER = Cell(), "?"


class NameProtocol(Asking, CellProtocol):
    """One session with ZooKeeper; arguments as `Asking`. Renewals count as `ZooKeeperProtocol` has it."""

    renewals_per_ttl: ClassVar[int] = ZooKeeperProtocol.renewals_per_ttl
    renewal_lag: ClassVar[float] = ZooKeeperProtocol.renewal_lag

    def __init__(self, label: str, layout: Layout) -> None:
        Asking.__init__(self, label, layout)
        CellProtocol.__init__(self, "", float, longest_poll_s=None)  # nothing is polled: no jitter

    def act(self, op: Op[Any], context: RequestContext) -> Steps[Any]:
        """Carry out `Open`, or an act on cells."""
        match op:
            case Open():
                granted = yield from self._connected(op.ttl_s)
                return Opened(self.session_id, granted.timeout_s)
            case Take():
                return (yield from self._take(op, context))
            case Peek():
                return (yield from self._look_at(op.cell, context.mailbox, Sync("/")))
            case Keep():
                return (yield from self._ours(op.claims))
            case Drop():
                ours = yield from self._ours(op.claims)
                mine = (self._path(cell) for (cell, _), its in zip(op.claims, ours, strict=True) if its)
                yield from self._together(tuple(map(Delete, mine)))
                return ours
            case _:
                raise AssertionError(f"{op!r} should be an act")

    # A watch of what is not there stays for as long as the connection: none is set that nobody asked for.

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Look whose the cell is, and watch it only for one that waits for its holder."""
        if op.targets:
            return (yield from super().check(op, context))
        (stands,) = yield from self._ours(((op.mine.ticket.queue, self._value(op.mine.ticket.id)),))
        return Checked(op.mine.token == 0 or stands, frozenset())

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Look at the holder."""
        if op.watch:
            return (yield from super().listing(op, context))
        cell = yield from self._look_at(op.queue, None, Sync("/"))
        return Listing(shown(op.queue, cell))

    def _take(self, op: Take, context: RequestContext) -> Steps[Cell]:
        """Create the node; a failed create is behind all that a read has to show."""
        path = self._path(op.cell)
        if self._listed > MOST_LISTED:
            self._count_listed(listed(self._path(cell)) for cell in self._cells.copy().values())
        self._listed += listed(path)
        create = Create(path, op.value.encode(), ephemeral=True)
        for _ in range(PARENT_TRIES):
            (created,) = yield Batch((create,))
            if isinstance(created, NoNode):
                yield from self._make(self._layout.ancestors(op.cell))
            elif isinstance(created, NodeExists):
                there = yield from self._look_at(op.cell, context.mailbox)
                return there if there.value else Cell(STRANGER, 0, 0.0)  # it was taken, and can be taken now
            else:
                ((made, stat),) = self._answers((created,))
                if made != path:
                    raise StoreUnavailable(self._label, ANOTHERS.format(made))
                return Cell(op.value, stat.czxid)
        raise StoreUnavailable(self._label, f"the node of lock {op.cell!r} is deleted over and over")

    def _ours(self, claims: tuple[Claim, ...]) -> Steps[tuple[bool, ...]]:
        """Have the leader answer, and read each cell behind it; whether it has the value."""
        reads = tuple(Get(self._path(cell)) for cell, _ in claims)
        synced, *found = yield from Batch((Sync("/"), *reads))
        _, *seen = self._answers((synced, *map(_seen, found)))
        for (cell, _), one in zip(claims, found, strict=True):
            if isinstance(one, StoreDenied):  # one of another user, unless it was closed to its own
                (stat,) = yield from Batch((Exists(self._path(cell)),))
                if isinstance(stat, Stat) and _session_of(stat) == self.session_id:
                    raise one
        pairs = zip(claims, seen, strict=True)
        return tuple(self._cell(cell, one).value == value for (cell, value), one in pairs)

    def _look_at(self, cell: str, mailbox: Mailbox | None, *before: Sync) -> Steps[Cell]:
        """Read a node; with a mailbox its next event is ``Changed(cell)``, whether or not it is there.

        Of one that may not be read it is known that it is there, and since when.
        """
        path = self._path(cell)
        *replies, read = yield from Batch((*before, Exists(path, mailbox, cell), Get(path)))
        there = (None if isinstance(one, NoNode) else one for one in replies)
        *_, stat, found = self._answers((*there, _seen(read)))
        if isinstance(read, StoreDenied) and stat is not None:
            return self._cell(cell, (None, stat))
        return self._cell(cell, found)

    def _cell(self, cell: str, found: tuple[bytes | None, Stat] | None) -> Cell:
        """Return what a node says; one whose data does not name its session is another program's."""
        if found is None:
            return FREE
        data, stat = found
        if not stat.owner:
            self._notices.add(self._path(cell), f"{self._path(cell)} is {NO_SESSION}")
        value = (data or b"").decode("utf-8", "replace")
        ours = value.startswith(f"{_session_of(stat)}/")
        return Cell(value if ours else STRANGER, stat.czxid)

    def _path(self, cell: str) -> str:
        return f"{self._layout.queue(cell)}/lock"


def _session_of(stat: Stat) -> str:
    return f"{stat.owner & (2**64 - 1):x}"


def _seen(read: Any) -> Any:
    """Return what was read of a node; None: it is not there, or is somebody else's, who keeps it closed."""
    return None if isinstance(read, NoNode | StoreDenied) else read
