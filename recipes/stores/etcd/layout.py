"""Keys: where contenders, values, session anchors, tombstones and receipts live, and who a key says it is.

``<root>/<name>/<kind>-<lease hex>-<uuid>`` is a contender: ``R`` a reader, ``W`` a writer, ``S2.10`` two
permits of ten. Go's ``concurrency.Mutex`` and ``etcdctl lock`` put ``<name>/<lease hex>`` beside it; every
key below ``<name>/`` is a contender, and in the queue of a lock all that is not ``R-`` is exclusive.
Queues of other recipes are ``<root>/~<recipe>/<name>/``. For what the value of a contender says see
`recipes._contract.contents`. A shared value is the key ``<root>/~<recipe>/<name>``, as it was written.

``~`` is in no encoded name and in no root. What belongs to the sessions of all roots is below
``~session/``, outside of every root (the anchor is ``~session/<root>/<lease hex>``, tombstones and receipts
are below that): those other clients count whatever is below ``<name>/``, and
that may be another's root. What begins with ``~`` below ``<name>/`` is no contender either (nor what
sorts behind it, which is not ASCII): other recipes of a root of that name have their keys there.
"""

from __future__ import annotations

import re
from dataclasses import replace

from recipes._contract.contenders import Contender
from recipes._contract.contents import Contents, unpack
from recipes._contract.operations import Ticket
from recipes._contract.rule import Rule
from recipes.stores.etcd.codec import Kv

__all__ = ["Layout", "prefix_end", "ref_key", "ref_of"]

_OURS = re.compile(r"(?P<kind>[A-Z][0-9]*(\.[0-9]+)?)-(?P<lease>[0-9a-f]{1,16})-(?P<id>[0-9a-f-]{36})")
_GO = re.compile(r"[0-9a-f]{1,16}")
_SHARED = "R-"
_NO_LEASE = "bound to no lease; it stands in the way until somebody deletes it"
_NO_KIND = "no contender of any known kind; it is waited for"
_NAME = re.compile(rb"[A-Za-z0-9_.%-]+")
_NO_CONTENDER = b"~"  # sorts behind all that a contender begins with
_SESSIONS = "~session/"
_RECEIPTS = "~receipt/"  # behind all tombstones, which begin with the id of a ticket


class Layout:
    """The keys below one root.

    Args:
        root: The path of the URL, without slashes around it; may be empty.
    """

    def __init__(self, root: str) -> None:
        self._base = f"{root}/" if root else ""
        self._sessions = f"{_SESSIONS}{self._base}"

    def queue(self, name: str) -> bytes:
        """Return the prefix that all contenders of an encoded name share."""
        return f"{self._base}{name}/".encode()

    def contender(self, ticket: Ticket, lease: str) -> bytes:
        """Return the key of an attempt of the session with this lease."""
        kind = "W" if ticket.kind == "lock" else ticket.kind
        return b"%b%b-%b-%b" % (self.queue(ticket.queue), kind.encode(), lease.encode(), ticket.id.encode())

    def anchor(self, lease: str) -> bytes:
        """Return the key that stands as long as the session does."""
        return f"{self._sessions}{lease}".encode()

    def tombstone(self, ticket_id: str, lease: str) -> bytes:
        """Return the key that keeps a withdrawn attempt from landing late."""
        return f"{self._sessions}{lease}/{ticket_id}".encode()

    def tombstones(self, lease: str) -> tuple[bytes, bytes]:
        """Return the range of all tombstones of the session with this lease, and of nothing else of it."""
        start = f"{self._sessions}{lease}/".encode()
        return start, start + _NO_CONTENDER

    def value(self, key: str) -> bytes:
        """Return the key of a value, which `queue_of` has named."""
        return f"{self._base}{key}".encode()

    def receipt(self, key: str, lease: str) -> bytes:
        """Return the key by which the session with this lease knows what it wrote to a value."""
        return f"{self._sessions}{lease}/{_RECEIPTS}{key}".encode()

    def everything(self) -> list[tuple[str, str]]:
        """Return the ranges of all keys: of contenders, values, sessions; without a root there are none."""
        starts = (self._base, self._sessions) if self._base else ()
        return [(start, prefix_end(start.encode()).decode()) for start in starts]

    def whole(self, name: str) -> tuple[bytes, bytes]:
        """Return the range of all contenders of an encoded name."""
        start = self.queue(name)
        return start, start + _NO_CONTENDER

    @property
    def locks(self) -> tuple[bytes, bytes]:
        """Return the range of all locks; ``~`` sorts behind every encoded name."""
        return self._base.encode() or b"\0", f"{self._base}~".encode()

    def name_of(self, key: bytes) -> str | None:
        """Return the encoded name of the lock in whose queue a key is; None if it is in none."""
        name, slash, rest = key[len(self._base) :].partition(b"/")
        is_one = slash and _NAME.fullmatch(name) and not rest.startswith(_NO_CONTENDER)
        return name.decode() if is_one else None

    def behind(self, key: bytes) -> bytes:
        """Return where those keys begin that are below no lock of this one, nor before it."""
        end = key.find(b"/", len(self._base))
        return key + b"\0" if end < 0 else prefix_end(key[: end + 1])

    def ranges(self, name: str, rule: Rule) -> list[tuple[bytes, bytes]]:
        """Return the key ranges that hold the contenders a recipe looks at."""
        start, end = self.whole(name)
        if not rule.exclusive_only:
            return [(start, end)]
        shared = start + _SHARED.encode()
        return [(start, shared), (prefix_end(shared), end)]

    def parse(self, name: str, kv: Kv) -> Contender:
        """Return which contender a key of a queue is, with its mark and its version."""
        ref, version = ref_of(kv.key), kv.version - 1
        ours = _OURS.fullmatch(ref, len(self.queue(name)))
        if ours is None:
            return Contender(ref, version=version)
        mark = unpack(name, kv.value).mark
        return Contender(ref, ours["id"], ours["kind"], ours["lease"], mark, version=version)

    def listed(self, name: str, kv: Kv) -> Contender:
        """Return all that a key and its value say.

        What other clients write says who they are, or what their user wants to be known.
        """
        contender, value = self.parse(name, kv), kv.value
        says = unpack(name, value) if contender.id else Contents("", value.decode("utf-8", "replace"), value)
        return replace(contender, token=kv.created, **says._asdict())

    def foreign(self, name: str, key: bytes, lease: int) -> str | None:
        """Return what to report of a key that may never go, or that nobody knows."""
        ref, start = ref_of(key), len(self.queue(name))
        if not lease:
            return _NO_LEASE
        known = _OURS.fullmatch(ref, start) or _GO.fullmatch(ref, start)
        return None if known else _NO_KIND


def prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that start with ``prefix`` (which ends below 0xff)."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def ref_of(key: bytes) -> str:
    """Return a key as text, injectively; `ref_key` is the way back."""
    return key.decode("utf-8", "surrogateescape")


def ref_key(ref: str) -> bytes:
    """Return the key that a reference names."""
    return ref.encode("utf-8", "surrogateescape")
