"""What an answer of etcd, or an error, means to all operations of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipes._contract.connection import Batch, Request
from recipes._contract.operations import Entry
from recipes._contract.protocol import Steps, StoreProtocol
from recipes._contract.wakeups import Disturbed
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout, ref_key
from recipes.stores.etcd.protocol_login import DENIED, UNKNOWN, Asking
from recipes.stores.etcd.requests import EtcdError, Post, Watch

__all__ = ["NOT_FOUND", "NO_ANCHOR", "AskingProtocol", "compare_stands", "key_of", "stands"]

Json = Mapping[str, Any]

NOT_FOUND = 5
NO_ANCHOR = "the session's anchor key is gone from the store"
WENT_BACK = "the store has gone back to an earlier state: it was wiped, or restored from a backup"


class AskingProtocol(StoreProtocol):
    """The part of `EtcdProtocol` that asks; the arguments are the same."""

    def __init__(self, label: str, layout: Layout, lease: int, *, named: bool = False) -> None:
        self._label = label
        self._layout = layout
        self._asking = Asking(label, named=named)
        self._lease = lease
        self.session_id = f"{lease:x}"
        self._anchor = layout.anchor(self.session_id)
        self._anchored = 0  # the revision at which the anchor was put last; threads may share it
        self._latest = 0  # revision that the majority answered with; threads may note one a little older

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
        known = self._latest
        reply = yield from self._reply(Post(path, body, urgent))
        self._take(reply, known if path.startswith("/kv/") else 0)  # others: a member that may lag
        return reply

    def _reply(self, post: Post) -> Steps[Json]:
        """Ask, and return the reply, of whatever revision."""
        try:
            reply: Json = yield from self._asking.ask(post)
        except EtcdError as error:
            raise self._meant(error) from error
        return self._whole(post, reply)

    def _whole(self, post: Post, reply: Json) -> Json:
        """Return a reply that has all that is read of it."""
        if post.path.startswith("/kv/") and not codec.whole(post.body, reply):
            raise StoreUnavailable(self._label, "what it sent is no whole reply of etcd")
        return reply

    def _watched(self, watch: Watch | None, post: Post) -> Steps[Json]:
        """Read, and arm a watch side by side; read again if the watch began later than the read.

        What cannot be watched is read all the same, and shown as disturbed: so it is read again soon.
        """
        if watch is None:
            (found,) = yield from self._together((post,))
            return found  # type: ignore[no-any-return]
        since, found = yield from self._together((watch, post), deaf=True)
        if isinstance(since, Exception):
            watch.mailbox.post(Disturbed())
        elif since > codec.revision(found):
            found = yield from self._post(post.path, post.body)
        return found  # type: ignore[no-any-return]

    def _together(self, requests: tuple[Request[Any], ...], *, deaf: bool = False) -> Steps[tuple[Any, ...]]:
        """Ask all of these; if it may be ``deaf``, an error stands for what could not be watched alone."""
        if not requests:
            return ()
        known = self._latest
        replies: tuple[Any, ...] = yield from self._asking.ask(Batch(requests))
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(reply, EtcdError):
                raise self._meant(reply) from reply
            if isinstance(reply, Exception):
                if deaf and isinstance(request, Watch) and isinstance(reply, StoreUnavailable):
                    continue
                raise reply
            if isinstance(request, Post):
                self._take(self._whole(request, reply), known)
        return replies

    def _take(self, reply: Json, known: int) -> None:
        """Note the revision of an answer to what was asked when ``known`` was the latest.

        Raises:
            SessionLost: It is an earlier one. What was held may have been forgotten, and what was
                released may stand again.
        """
        at = codec.revision(reply)
        if 0 < at < known:
            raise SessionLost(WENT_BACK)
        self._latest = max(self._latest, at)

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


def key_of(entry: Entry) -> bytes:
    """Return the key that an entry is."""
    return ref_key(entry.ref)


def compare_stands(entry: Entry) -> Json:
    """Return the comparison that says what `stands` does."""
    return codec.compare_created(key_of(entry), entry.token)


def stands(response: Json, entry: Entry) -> bool:
    """Whether the own key is there, among others or alone, as it was created."""
    key = key_of(entry)
    return any(kv.key == key and kv.created == entry.token for kv in codec.keys(response))
