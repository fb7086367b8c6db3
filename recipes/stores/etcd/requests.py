"""What etcd can be asked, by its JSON gateway or by gRPC, and what it can answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from recipes._contract.connection import Mailbox, Request
from recipes._record import record

__all__ = ["EtcdError", "LogIn", "Post", "Watch"]

Json = Mapping[str, Any]


class EtcdError(Exception):
    """An answer that etcd calls an error, as a gRPC status.

    Codes in use: 5 not found (a dead lease), 7 permission denied, 8 exhausted (no
    space, too many requests), 9 failed precondition (a lease that exists), 11 out
    of range (compacted), 14 unavailable (no leader), 16 unauthenticated.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


@record
class Post(Request[Json]):
    """A unary call: ``body`` is what it says, and ``path`` what the gateway has for it below ``/v3``.

    Body and reply are documents of bytes and numbers, as `codec` makes and reads them; what is zero or
    false may be left out of a reply. A gRPC error is raised as ``EtcdError``. One that is ``urgent`` does
    not wait behind others of the client: what the session lives by. One that ``frees`` does not wait behind
    those that ask for something: it lets go.
    """

    path: str
    body: Json
    urgent: bool = field(default=False, compare=False)
    frees: bool = field(default=False, compare=False)


@record
class LogIn(Request[int]):
    """Get a token for all requests from now on, unless there is one from a login later than number ``after``.

    The reply is the number of the login in force. A refusal is raised as ``EtcdError``.
    """

    after: int


@record
class Watch(Request[int]):
    """Watch one key, from now on, on the stream that all watches of the client share.

    The reply is the revision of ``created``: every event after that revision will be
    posted to ``mailbox`` as ``Gone(ref)`` (deleted) or, only if ``changes``,
    ``Changed(ref)`` (put), with the key as text (``layout.ref_of``). One event ends the watch.

    One that is ``again`` is another watch on the wire than the one that the mailbox has already, though not a
    third. An event that both would tell is posted once.

    With an ``end`` it watches all keys from ``key`` up to that, the contenders of ``queue``; any event is
    posted as ``Changed(queue)``. Without, a ``queue`` is the name of the value at that key, and events
    name it so.
    """

    key: bytes
    mailbox: Mailbox
    changes: bool = False
    end: bytes = b""
    queue: str = ""
    again: bool = False
