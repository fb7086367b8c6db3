"""What ZooKeeper can be asked, and what it can answer."""

from __future__ import annotations

from typing import Any

from recipes._contract.connection import Mailbox, Request
from recipes._record import record

__all__ = [
    "BadVersion",
    "Check",
    "Children",
    "Close",
    "Connect",
    "Create",
    "Delete",
    "Exists",
    "Get",
    "Multi",
    "MultiFailed",
    "NoNode",
    "NodeExists",
    "SessionExpired",
    "SessionInfo",
    "SetData",
    "Stat",
    "Sync",
    "ZooKeeperError",
]


class ZooKeeperError(Exception):
    """An answer that ZooKeeper calls an error; ``code`` is its number."""

    code = 0


class NoNode(ZooKeeperError):
    """The node, or the parent of the node to be made, does not exist."""

    code = -101


class BadVersion(ZooKeeperError):
    """The node has another version than the one named."""

    code = -103


class NodeExists(ZooKeeperError):
    """The node to be made exists."""

    code = -110


class SessionExpired(ZooKeeperError):
    """The session has ended on the server; every ephemeral node of it is gone.

    Attributes:
        unsent: It is known that the request was not sent.
    """

    code = -112

    def __init__(self, *said: str, unsent: bool = False) -> None:
        super().__init__(*said)
        self.unsent = unsent


class MultiFailed(ZooKeeperError):
    """A part of a `Multi` failed, and nothing of it was done; ``code`` is that of the part.

    Attributes:
        part: Which of the parts, counted from 0; those before it would have been done.
        error: What that part failed with.
    """

    def __init__(self, part: int, error: ZooKeeperError) -> None:
        super().__init__(part, error)
        self.part = part
        self.error = error
        self.code = error.code


@record
class Stat:
    """What is used of a node's stat."""

    czxid: int
    owner: int
    version: int


@record
class SessionInfo:
    """The session as the server granted it: the id, and the timeout in seconds."""

    id: int
    timeout_s: float


@record
class Connect(Request[SessionInfo]):
    """Start the connection's one session, asking for this timeout. A connection never starts a second one."""

    timeout_s: float


@record
class Close(Request[bool]):
    """End the session on the server if it can be reached, and in no case resume it.

    The reply says whether a server has confirmed that; else the session may live on for its timeout.
    """


@record
class Create(Request[tuple[str, Stat]]):
    """Make a node; the reply has the full path, with the sequence number if one was asked for.

    A node may have no data at all (None), which is not the same as empty data.
    """

    path: str
    data: bytes | None = b""
    ephemeral: bool = False
    sequence: bool = False


@record
class Children(Request[tuple[str, ...]]):
    """The names of a node's children, in no order; with a mailbox a listing begins to be watched.

    The first event of whatever is watched for the listing of ``queue`` is ``Changed(queue)`` and ends it.
    """

    path: str
    mailbox: Mailbox | None = None
    queue: str = ""


@record
class Get(Request[tuple[bytes | None, Stat]]):
    """Data and stat of a node; with a mailbox it is watched: ``Gone(path)`` or ``Changed(path)``.

    Data is None where the node has none at all, as one that was made with None.
    With a ``queue`` as well it is a part of the listing of that queue, unless that has ended already.
    """

    path: str
    mailbox: Mailbox | None = None
    queue: str = ""


@record
class Exists(Request["Stat | None"]):
    """A node's stat, or None; with a mailbox a listing begins, as with `Children`, where there is no node."""

    path: str
    mailbox: Mailbox | None = None
    queue: str = ""


@record
class SetData(Request[Stat]):
    """Replace a node's data if it has this version (-1: any)."""

    path: str
    data: bytes | None
    version: int = -1


@record
class Delete(Request[None]):
    """Delete a node if it has this version (-1: any)."""

    path: str
    version: int = -1


@record
class Sync(Request[None]):
    """Flush the channel between the server and the leader: later reads show what was committed before."""

    path: str


@record
class Check(Request[None]):
    """Do nothing if the node has this version (-1: any), and fail otherwise; a part of a `Multi` only."""

    path: str
    version: int = -1


@record
class Multi(Request[tuple[Any, ...]]):
    """Do all of these in one step, in this order, or nothing of it: `Create`, `SetData`, `Delete`, `Check`.

    The reply has one for each part: the path of what was made, the stat of what was written. If one fails,
    `MultiFailed` says which.
    """

    parts: tuple[Create | SetData | Delete | Check, ...]

    @property
    def path(self) -> str:
        """The node of the first part: a multi can be sent together with other requests."""
        return self.parts[0].path
