"""Values in ZooKeeper: the data of a node that stays, with a receipt of each session that writes it.

The receipt is an ephemeral child of the value's node, ``~<session>``: it goes with the session, and ``~``
begins the name of no contender. A write is one multi of three parts: the receipt (made, or written if it has
the version that this session knows), a check of each guard, and the data. The receipt comes first. So
whichever part fails, it is known whether the receipt was as expected. Before the first write on a condition
the receipt is made alone: a receipt is of one node, and a data version says nothing of which node it is of.

A version is ``czxid << 32 | data version``. To delete a value is to write null data: the node and its
version stay, and versions rise over deletions. A node made by this package has no data until it is written,
or empty data and version 0 where contenders queue below it: neither is a value. So a new node is made with
null data and written in the same multi.

A node that is deleted by other means than this package loses its receipts with its data, and what was asked
before that may be done twice. Versions rise even then, being those of a later transaction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from recipes._contract.connection import Batch
from recipes._contract.operations import Read, Settle, Stored, Write, Written
from recipes._contract.protocol import RequestContext, Steps
from recipes._record import record
from recipes.errors import StoreUnavailable
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once
from recipes.stores.zookeeper.layout import NO_LOCK, Layout
from recipes.stores.zookeeper.protocol_asking import ANY, EXPIRED, Asking, listed
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Check,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)

__all__ = ["Values"]

AS_CREATED = 0
"""The version of a node whose data nobody has written since."""
NODE_TRIES = 5
MOST_NODES = 2000
"""So many nodes a session remembers; what is not remembered costs a write on a condition one read."""
VERSION_BITS = 32
VERSIONS = 1 << VERSION_BITS
NO_VALUE = Stored()


@record
class Node:
    """The node of a value as this session saw it last.

    Attributes:
        czxid: The transaction that made it; 0: there was none.
        version: How often its data was written.
        written: Whether it had a value.
    """

    czxid: int = 0
    version: int = 0
    written: bool = False


MISSING = Node()


class Values(Asking):
    """One session with ZooKeeper, as far as values go; arguments as `Asking`."""

    ended_is_no: ClassVar[bool] = False
    settles_elsewhere: ClassVar[bool] = True

    def __init__(self, label: str, layout: Layout) -> None:
        super().__init__(label, layout)
        self._receipts = Receipts()
        self._sizes: dict[str, int] = {}  # that the end of the session lists, by contender or path
        self._nodes: dict[str, Node] = {}  # several threads write it: what is stale is found out by comparing

    def read(self, op: Read, context: RequestContext) -> Steps[Stored]:
        """Read the node behind a ``sync``; a watch is set before, and whether or not there is a node."""
        node = self._layout.queue(op.key)
        watch = (Exists(node, context.mailbox, op.key),) if op.watch else ()
        *_, found = yield from self._together((Sync("/"), *watch, Get(node)))
        return self._note(op.key, found)

    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write receipt and data in one multi."""
        # What one connection carries arrives once, and in order.
        return (yield from write_once(self._receipts, op, self._exchange, again=context.again, copies=False))

    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """Write the receipt alone."""
        return (yield from settle_once(self._receipts, op.write, self._exchange))

    def _exchange(self, put: Exchange) -> Steps[Exchanged]:
        for _ in range(NODE_TRIES):
            plan = self._planned(put)
            # Until there is a receipt of it, the node may be another by now, with the same data version.
            begins = plan is not None and plan[1] is not None and not put.expected
            if plan is None or begins:
                here = yield from self._look(put.write.key, begins=begins)
                if _refuses(put, here):
                    return here
                continue
            came = yield from self._try(put, *plan)
            if came is not None:
                return came
        changing = f"the node of {put.write.key!r} is made and deleted over and over"
        raise StoreUnavailable(self._label, changing, unsent=True)  # each try was answered: nothing was done

    def _planned(self, put: Exchange) -> tuple[bool, int | None] | None:
        """Return whether the node is to be made first, and the data version that it must have, if any.

        None in place of both: that is not known, or the value is another than it should be.
        """
        wanted, node = put.write.if_version, self._nodes.get(put.write.key)
        make = node == MISSING and not put.expected
        if put.settles or wanted is None or (make and wanted == 0):
            return make, None
        if node is None or node == MISSING:
            return None
        if wanted:
            return (False, _data_version(wanted)) if node.czxid == wanted >> VERSION_BITS else None
        return None if node.written else (False, node.version)

    def _try(self, put: Exchange, make: bool, version: int | None) -> Steps[Exchanged | None]:
        """Ask once; None: try again, for the node was not as it was last seen."""
        write, node, receipt = put.write, *self._places(put.write.key)
        parts: list[Any] = [Create(node, None)] if make else []
        if put.expected:  # of -1, to which it comes once in 2**32 writes, any version will do
            parts.append(SetData(receipt, put.receipt, _data_version(put.expected - 1)))
        else:
            parts.append(Create(receipt, put.receipt, ephemeral=True))
        reads: tuple[Get, ...] = ()
        if not put.settles:
            parts += (Check(one.entry.ref, AS_CREATED if one.unchanged else ANY) for one in write.guards)
            parts += _compared(node, write.data, version)
            if write.guards or write.if_version is not None:
                reads = (Get(node), Get(receipt)) if make else (Get(node),)
        spent = self._spent()
        came, *found = (yield from Batch((Multi(tuple(parts)), *reads, *spent)))[: 1 + len(reads)]
        if isinstance(came, MultiFailed):
            there = self._answers(tuple(None if isinstance(one, NoNode) else one for one in found))
            return (yield from self._judge(put, came, int(make), there))
        if isinstance(came, SessionExpired) and came.unsent:  # else it may have been done before
            raise StoreUnavailable(self._label, EXPIRED, unsent=True) from came
        if isinstance(came, ZooKeeperError) and not isinstance(came, SessionExpired):
            raise StoreUnavailable(self._label, f"ZooKeeper error {came.code}") from came  # done, or not
        (done,) = self._answers((came,))
        self._lists(receipt)
        stored = None if put.settles else self._note(write.key, (write.data, done[-1]))
        if make and put.settles:
            self._nodes.pop(write.key, None)  # it is not known which transaction made it
        return Exchanged(True, put.expected % VERSIONS + 1, put.receipt, stored)

    def _spent(self) -> tuple[Delete, ...]:
        """Return what deletes the oldest receipts: what ends the session names them all, and has a limit."""
        surplus = self._receipts.surplus()
        spent = tuple(Delete(self._places(key)[1], _data_version(at - 1)) for key, at in surplus)
        for one in spent:
            self._sizes.pop(one.path, None)
        return spent

    def _judge(
        self, put: Exchange, failed: MultiFailed, place: int, found: tuple[Any, ...]
    ) -> Steps[Exchanged | None]:
        """Return what it means that a part failed; None: try again.

        Args:
            put: What was asked.
            failed: Which part, and with what.
            place: That of the receipt among the parts; before it the node is made.
            found: What was read behind it: nothing, the node, or the node and the receipt.
        """
        key, error = put.write.key, failed.error
        stored = self._note(key, found[0]) if found else None
        missing = isinstance(error, NoNode)
        if not missing and not isinstance(error, NodeExists | BadVersion):
            raise self._meant(error)
        if failed.part < place:
            if missing:
                yield from self._make(self._layout.ancestors(key)[:-1])
            elif not found:
                self._nodes.pop(key, None)
            here = _as_found(found[1], stored) if found else None
            return here if here is not None and _refuses(put, here) else None
        if failed.part == place:
            if put.expected or not missing:
                return (yield from self._look(key))
            self._note(key, None)
            return None
        guarded = failed.part > place + len(put.write.guards)
        if put.write.if_version == 0 and stored == NO_VALUE and guarded:
            return None  # deleted once more
        known = self._receipts.known(key)
        if known.version == put.expected:  # as it was found to be
            return Exchanged(False, known.version, known.text, stored, guarded=guarded)
        return replace((yield from self._look(key)), guarded=guarded)

    def _look(self, key: str, *, begins: bool = False) -> Steps[Exchanged]:
        """Read value and receipt, which is made before that if the session ``begins`` to write here."""
        node, receipt = self._places(key)
        first = Create(receipt, b"", ephemeral=True) if begins else Sync("/")
        spent = self._spent() if begins else ()
        replies = (yield from Batch((first, Get(node), Get(receipt), *spent)))[:3]
        hidden = (NoNode, NodeExists)
        _, value, said = self._answers(tuple(None if isinstance(one, hidden) else one for one in replies))
        if said is not None:
            self._lists(receipt)
        return _as_found(said, self._note(key, value))

    def _lists(self, receipt: str) -> None:
        """Count a receipt among what the end of the session lists."""
        if receipt not in self._sizes:
            self._sizes[receipt] = size = listed(receipt)
            self._listed += size

    def _note(self, key: str, found: tuple[bytes | None, Stat] | None) -> Stored:
        """Note the node as it was found, and return the value."""
        nodes = self._nodes
        nodes.pop(key, None)  # the latest is the last
        if len(nodes) >= MOST_NODES:
            for oldest in list(nodes)[: MOST_NODES // 2]:
                nodes.pop(oldest, None)
        if found is None:
            nodes[key] = MISSING
            return NO_VALUE
        data, stat = found
        written = data is not None and (stat.version != 0 or data != b"")
        nodes[key] = Node(stat.czxid, stat.version, written)
        return Stored(data, _version(stat)) if written else NO_VALUE

    def _places(self, key: str) -> tuple[str, str]:
        """Return the nodes of a value and of this session's receipt."""
        node = self._layout.queue(key)
        return node, f"{node}/{NO_LOCK}{self.session_id}"


def _as_found(receipt: tuple[bytes | None, Stat] | None, stored: Stored | None) -> Exchanged:
    """Return that nothing was done, and how the receipt was found to be."""
    if receipt is None:
        return Exchanged(False, 0, b"", stored)
    data, stat = receipt
    return Exchanged(False, stat.version % VERSIONS + 1, data or b"", stored)


def _refuses(put: Exchange, here: Exchanged) -> bool:
    """Whether a write cannot be done, as the receipt and the value were found to be."""
    stored = here.stored or NO_VALUE
    return here.version != put.expected or put.write.if_version not in (None, stored.version)


def _compared(node: str, data: bytes | None, version: int | None) -> tuple[SetData, ...]:
    """Return what writes a node that has this data version, if any."""
    if version == ANY:  # it has come to that: the first of two makes it 0, and is undone if it was another
        return SetData(node, data), SetData(node, data, 0)
    return (SetData(node, data, ANY if version is None else version),)


def _version(stat: Stat) -> int:
    return stat.czxid << VERSION_BITS | stat.version % VERSIONS


def _data_version(version: int) -> int:
    """Return the data version in a value's version; ZooKeeper counts it in 32 bits with a sign."""
    counted = version % VERSIONS
    return counted - VERSIONS if counted >= VERSIONS // 2 else counted
