"""What the file can be asked: each request is one transaction, done whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from recipes._contract.connection import Mailbox, Request
from recipes._contract.contenders import Ahead
from recipes._contract.rule import Order
from recipes.stores.sqlite.layout import Target

__all__ = [
    "Ask",
    "Demote",
    "Evict",
    "Finish",
    "Join",
    "List",
    "ListQueues",
    "NoSession",
    "Present",
    "Remove",
    "Row",
    "See",
    "Seen",
    "Standing",
    "Start",
    "Touch",
    "Watched",
]


T = TypeVar("T")
Row = tuple[int, str, str, str, int, str]


class NoSession(Exception):
    """The session has ended: its time was over, its process has died, or somebody removed it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A queue as seen from one contender.

    Attributes:
        own: Its token; None if it does not stand there.
        ahead: The nearest contenders ahead that count for the recipe, nearest first.
        complete: There are no more than these.
        position: How many stand ahead who count.
        armed: References of those ahead that are watched from here on.
        known: References of those ahead of whose going the session is told, watched or not.
    """

    own: int | None
    ahead: Ahead = ()
    complete: bool = True
    position: int = 0
    armed: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What has become of contenders.

    Attributes:
        owners: Those that stand, and whose they are.
        downgraded: Those of them that have downgraded.
        due: The time of some session is over.
    """

    owners: dict[Target, str]
    downgraded: frozenset[Target] = frozenset()
    due: bool = False


@dataclass(frozen=True, slots=True)
class Ask(Request[T]):
    """What all requests share: whose they are, and what the transport has to know of them.

    Attributes:
        session: The session that asks.
    """

    grows: ClassVar[bool] = False  # takes room in the file, and so is refused when there is little left

    session: str


@dataclass(frozen=True, slots=True)
class Start(Ask[None]):
    """Start the session, for so many seconds."""

    grows: ClassVar[bool] = True

    ttl_s: float


@dataclass(frozen=True, slots=True)
class Touch(Ask[tuple[float, frozenset[int]]]):
    """Renew the session; the reply is for how long, and the tokens of those places that stand as its own."""

    places: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Finish(Ask[None]):
    """End the session, and all that hangs on it; nothing happens if it has ended."""


@dataclass(frozen=True, slots=True)
class Join(Ask["Seen | None"]):
    """Join a queue at its tail, and watch what blocks: now, or once others ahead have gone.

    Attributes:
        queue: Its encoded name.
        kind: Of the contender.
        id: Of the attempt.
        order: The recipe: who counts, who blocks, and whom to watch.
        again: It may stand there already: then that is what is looked at.
        mailbox: Who hears when a watched contender goes; None: nothing is watched.
        only_free: Join only if that grants at once; the reply None says that it would not.
        note: What others may read beside it.
    """

    grows: ClassVar[bool] = True

    queue: str
    kind: str
    id: str
    order: Order
    again: bool = False
    mailbox: Mailbox | None = None
    only_free: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class See(Ask[Seen]):
    """Watch these contenders, and look at the queue from one's own place.

    Attributes:
        queue: Its encoded name.
        token: The own contender's.
        order: The recipe.
        targets: Whom to watch.
        mailbox: Who hears.
        known: The session is told of the targets anyway: nothing has to be written.
    """

    queue: str
    token: int
    order: Order
    targets: tuple[Target, ...]
    mailbox: Mailbox
    known: bool = False

    @property
    def watches(self) -> bool:
        """Whether something is written: who watches whom."""
        return bool(self.targets) and not self.known


@dataclass(frozen=True, slots=True)
class Present(Ask[frozenset[int]]):
    """Say which of these contenders stand as they were seen; with a mailbox, watch those that do.

    Attributes:
        downgraded: Of the others, the tokens of those that were seen to have downgraded; None: no
            matter.
        mine: The own contender, who waits; among those asked for it counts if it is this session's.
        targets: The others.
        mailbox: Who hears when one of the others goes.
    """

    targets: tuple[Target, ...]
    mine: Target
    mailbox: Mailbox | None = None
    downgraded: frozenset[int] | None = None

    @property
    def watches(self) -> bool:
        """Whether something is written: who watches whom."""
        return self.mailbox is not None and bool(self.targets)


@dataclass(frozen=True, slots=True)
class Remove(Ask[bool]):
    """Delete the own contender; whether it was there.

    Attributes:
        queue: Its queue.
        id: Of the attempt that made it.
        token: Its token; None: whatever token it got.
    """

    queue: str
    id: str
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Expel(Ask[bool]):
    """Delete anybody's contender; whether it was there. The token is no other's, ever."""

    queue: str
    token: int


@dataclass(frozen=True, slots=True)
class Demote(Ask[bool]):
    """Mark the own contender as downgraded, in its place; whether it was there. All its watchers hear."""

    queue: str
    token: int


@dataclass(frozen=True, slots=True)
class List(Ask[tuple[Row, ...]]):
    """Return so many rows of a queue, from its head on: a contender's, and what was noted beside it."""

    queue: str
    most: int


@dataclass(frozen=True, slots=True)
class ListQueues(Ask[tuple[str, ...]]):
    """Return the names of so many queues in which anybody stands."""

    most: int


@dataclass(frozen=True, slots=True)
class Evict(Ask[None]):
    """End the sessions whose time is over, and those whose process has died; these have no row, maybe."""

    suspects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Watched(Ask[Standing]):
    """Say which of these contenders stand, and whether the time of any session is over."""

    targets: tuple[Target, ...]
