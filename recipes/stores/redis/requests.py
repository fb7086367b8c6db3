"""What a Redis server is asked: one run of the script on the keys of one queue, or a plain command."""

from __future__ import annotations

from typing import Any

from recipes._contract.connection import Mailbox, Request
from recipes._record import record

__all__ = ["STARTING", "Command", "Listen", "Run", "Scan", "Sure", "Track", "Word"]

Word = str | bytes | int
"""One word of a command."""
STARTING = b"starting"
"""So begins the reply of a run that grants nothing yet; the next is in how many milliseconds it may."""


@record
class Run(Request[Any]):
    """One act of the script, carried out whole; the reply is the server's, numbers and bytes.

    The transport puts the moment until which nothing is granted (see `restart_grace`) before ``words``.

    Attributes:
        keys: The keys; all are in the slot of the first.
        words: The act, and its arguments.
        mailbox: Which is notified of ``refs``, from before this is sent.
        refs: What to listen to: contenders, or the queue.
    """

    keys: tuple[str, ...]
    words: tuple[Word, ...]
    mailbox: Mailbox | None = None
    refs: tuple[str, ...] = ()


@record
class Command(Request[Any]):
    """A plain command about one key; the reply is the server's.

    Attributes:
        words: The command.
        key: Decides which server of a cluster is asked.
    """

    words: tuple[Word, ...]
    key: str


@record
class Sure(Request[Any]):
    """Requests sent together, which count only if all replicas acknowledge them; the reply is a tuple.

    An exception stands for a part that failed.

    Attributes:
        parts: The requests.
        bell: The channel of the session that these begin: the connection is subscribed to it before they
            are sent, and stays so. Empty: they begin none.
        grants: A grant waits for these, of which there may be many at once: what renews is not held up by it.
    """

    parts: tuple[Request[Any], ...]
    bell: str = ""
    grants: bool = False


@record
class Scan(Request[Any]):
    """Read the names of all keys that match, on every server; the reply is a set of texts."""

    pattern: str


@record
class Track(Request[Any]):
    """Have ``mailbox`` notified, with ``Changed(ref)``, when a key that others write changes or goes.

    The reply is the key's value now, or None.
    """

    key: str
    ref: str
    mailbox: Mailbox


@record
class Listen(Request[None]):
    """Have ``mailbox`` notified of ``refs``, also of what arrived a moment ago; nothing is sent."""

    refs: tuple[str, ...]
    mailbox: Mailbox
