"""What is asked about queues from outside of them: who stands where, and an operator's removal."""

from __future__ import annotations

from recipes._contract.operations import Expel, Queues, Standing, Survey
from recipes._contract.protocol import Steps, Turn
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import DOWNGRADED
from recipes.stores.etcd.protocol_calls import EtcdCalls
from recipes.stores.etcd.protocol_keys import ref_key

__all__ = ["EtcdOutside"]


class EtcdOutside(EtcdCalls):
    """The operations that are about nobody's own contender."""

    def expel(self, op: Expel, turn: Turn) -> Steps[bool]:
        """Delete a key if it is the one that was created then."""
        key = ref_key(op.ref)
        reply = yield from self._txn([codec.compare_created(key, op.token)], then=[codec.delete(key)])
        return bool(reply.get("succeeded")) or turn.again  # asked again: it was I who deleted it

    def survey(self, op: Survey, turn: Turn) -> Steps[tuple[Standing, ...]]:
        """Read the first created keys of the queue, in one call."""
        found = yield from self._post("/kv/range", codec.oldest(*self._layout.whole(op.queue), op.most))
        return tuple(
            Standing(
                self._layout.parse(op.queue, kv.key, kv.value),
                kv.created,
                kv.value.removeprefix(DOWNGRADED).decode("utf-8", "replace"),
            )
            for kv in codec.keys(found)
        )

    def queues(self, op: Queues, turn: Turn) -> Steps[tuple[str, ...]]:
        """Read one key of each queue: the first there is, then the first behind that queue."""
        names: list[str] = []
        start, end = self._layout.locks
        while len(names) < op.most:
            found = codec.keys((yield from self._post("/kv/range", codec.span(start, end, 1))))
            if not found:
                break
            name = self._layout.name_of(found[0].key)
            if name is not None:
                names.append(name)
            start = self._layout.behind(found[0].key)
        return tuple(names)
