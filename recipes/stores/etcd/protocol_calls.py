"""How the etcd protocol asks: what a reply, or an error, means to all of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from recipes._contract.connection import Batch, Request
from recipes._contract.operations import Downgrade, StoreOp, Withdraw
from recipes._contract.protocol import Steps, StoreProtocol, Turn
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol_login import DENIED, UNKNOWN, Asking
from recipes.stores.etcd.protocol_revision import Revision
from recipes.stores.etcd.requests import EtcdError, Post

__all__ = ["NOT_FOUND", "EtcdCalls", "Json"]

T = TypeVar("T")
NOT_FOUND = 5

Json = Mapping[str, Any]


class EtcdCalls(StoreProtocol):
    """The calls of one session; no operation yet.

    Args:
        label: Where the store is, for errors.
        layout: Where its keys are.
        named: Whether there is a user to log in as.
    """

    def __init__(self, label: str, layout: Layout, *, named: bool) -> None:
        self._label = label
        self._layout = layout
        self._asking = Asking(label, named=named)
        self._revision = Revision()

    def start(self, op: StoreOp[T], turn: Turn) -> Steps[Any]:
        """Return the generator that carries out ``op``; what lets go is asked ahead of what asks for more."""
        steps = super().start(op, turn)
        return _freeing(steps) if isinstance(op, Withdraw | Downgrade) else steps

    def _txn(
        self, compare: Any = (), then: Any = (), otherwise: Any = (), *, urgent: bool = False
    ) -> Steps[Json]:
        try:
            return (yield from self._post("/kv/txn", codec.txn(compare, then, otherwise), urgent=urgent))
        except StoreFull:
            if then:
                raise
        # Beyond its quota etcd refuses a transaction that only reads, and serves reads. The own key (or the
        # anchor) comes first in ``otherwise`` and is read last: what stands later stood all the while.
        own, *others = (Post("/kv/range", read["request_range"], urgent) for read in otherwise)
        parts = [*(yield from self._together(tuple(others)))]
        parts.insert(0, (yield from self._post(own.path, own.body, urgent=urgent)))
        return {"responses": [{"response_range": part} for part in parts]}

    def _post(self, path: str, body: Json, *, urgent: bool = False) -> Steps[Json]:
        known = self._revision.known
        try:
            reply: Json = yield from self._asking.ask(Post(path, body, urgent))
        except EtcdError as error:
            raise self._meant(error) from error
        self._revision.take(reply, known if path.startswith("/kv/") else 0)  # others: a member that may lag
        return reply

    def _together(self, requests: tuple[Request[Any], ...]) -> Steps[tuple[Any, ...]]:
        if not requests:
            return ()
        known = self._revision.known
        replies: tuple[Any, ...] = yield from self._asking.ask(Batch(requests))
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(reply, EtcdError):
                raise self._meant(reply) from reply
            if isinstance(reply, Exception):
                raise reply
            if isinstance(request, Post):
                self._revision.take(reply, known)
        return replies

    def _meant(self, error: EtcdError) -> SessionLost | StoreRefused:
        if error.code == NOT_FOUND:
            return SessionLost("the lease has ended on the store")
        if error.code in (DENIED, UNKNOWN):
            return StoreDenied(self._label, self._denial(error))
        return StoreRefused(self._label, error.message)

    def _denial(self, error: EtcdError) -> str:
        """Return what to do about a denial."""
        if not self._asking.named:
            return f"{error.message} (this etcd asks for a user: pass username= and password=)"
        ranges = [f"from {start} up to {end}" for start, end in self._layout.everything()]
        keys = f"the keys {' and '.join(ranges)}" if ranges else "all keys"
        return f"{error.message} (a role of the user has to permit reading and writing {keys})"


def _freeing(steps: Steps[T]) -> Steps[T]:
    """Carry out ``steps``, and say of every call that it frees."""
    try:
        request = next(steps)
        while True:
            try:
                reply = yield replace(request, frees=True) if isinstance(request, Post) else request
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                request = steps.throw(error)
            else:
                request = steps.send(reply)
    except StopIteration as stop:
        done: T = stop.value
        return done
