"""The program of a member that works on its share of a set of items: partitions.

Every item is a lock of its own, so that no item has two holders, whatever members believe of each other;
what they believe only says which member asks for which. An item that belongs to another from now on is kept
until its user has let go of it: until then the other waits in line for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from recipes._contract.deadline import Expired
from recipes._contract.operations import Program
from recipes._contract.wakeups import Event
from recipes._programs.crew import Beside, Crew
from recipes._programs.hold import HeldState
from recipes._programs.observing import Observer, Over, Topic
from recipes._programs.queueing import Attempt, acquire, release, verify
from recipes._programs.rewriting import rewrite
from recipes._programs.steps import Emit, Now, Wait
from recipes._record import record
from recipes._rules.exclusive import EVERYBODY
from recipes._rules.roster import members
from recipes._rules.sharing import Sharing, mark_of
from recipes.errors import ClientClosed, SessionLost, StoreError

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox
    from recipes._contract.contenders import Contender
    from recipes.events import Transition

__all__ = ["Partitioning", "Portion", "closed", "share"]

AGAIN_S = 1.0
"""After how long a member that shares no more tries again to have the others see that."""
MOST_AT_ONCE = 100
"""So many items are asked for, or given back, before it looks again at whose they are."""


class Moved(Exception):
    """The item belongs to another member now."""


@record
class Portion:
    """What a member has of the items at one time.

    Attributes:
        number: 1 for the first that was shown, and so on.
        items: The grants of those that are its own.
        leaving: The grants of those that are another's, as soon as they are released.
    """

    number: int
    items: Mapping[str, Any]
    leaving: Mapping[str, Any]


class Partitioning:
    """What one member has of a set of items, and what is asked of it.

    Args:
        items: All items.
        membership: The member.
        attempt: Makes the attempt to hold an item.
        grant: Makes what users see of what is held.
        lost: Makes the error of a membership that is lost.
        pause_s: Between two portions that are shown: what comes one by one is shown together.

    Attributes:
        mark: That of all who share the same items.
        topic: Shows the portions.
        stepped: The number of the portion that the user has done with: what was leaving in it may go.
        left: Whether the member was released, though it may turn out that it was lost before.
        closing: Whether it is to give everything back.
        counts: Whether the other members may leave it a share.
        over: Whether nothing runs any more.
        on_over: Called then, and
        closers: notified.
    """

    def __init__(
        self,
        items: tuple[str, ...],
        membership: HeldState,
        attempt: Callable[[str], Attempt],
        grant: Callable[[HeldState], Any],
        lost: Callable[[], Exception],
        *,
        pause_s: float,
    ) -> None:
        self.membership = membership
        self.mark = mark_of(items)
        self.topic = Topic()
        self.stepped = 0
        self.closers: list[Mailbox] = []
        self.left = self.closing = self.counts = self.over = False
        self.on_over: Callable[[], object] = bool
        self._sharing = Sharing(items)
        self._attempt, self._grant, self.lost, self._pause_s = attempt, grant, lost, pause_s
        self._seen: tuple[Contender, ...] = ()
        self._present: tuple[str, ...] = ()
        self._counted = False
        self._mine: dict[str, None] = {}
        self._held: dict[str, HeldState] = {}
        self._leaving: dict[str, tuple[HeldState, int]] = {}
        self._shown, self._shown_at = Portion(0, {}, {}), -math.inf
        self._crew = Crew()
        self._ends_by: dict[str, object] = {}

    def claim(self, who: object) -> bool:
        """Whether this is the first to claim that it ends by it; of several threads one is."""
        return self._ends_by.setdefault("", who) is who

    def end(self) -> None:
        """Notify everyone that nothing runs any more."""
        self.over = True
        if self.topic.error is None:  # an interrupt
            self.topic.fail(ClientClosed())
        self.on_over()
        self._notify_closers()

    def lapse(self) -> None:
        """Keep what is held, for another program to go on: other code has ended the one that ran."""
        self._take_granted()  # what is on its way is withdrawn
        self._crew = Crew()
        self._ends_by = {}
        self.topic.lapse()
        self._notify_closers()

    def _notify_closers(self) -> None:
        for mailbox in self.closers:
            mailbox.post(Event())

    def look(self, contenders: tuple[Contender, ...]) -> bool:
        """See who shares the items now, and so which belong to this member.

        False: it was among them and is not any more. Then all stays as it is, until it is known to be lost.
        """
        if contenders is self._seen:
            return True
        self._seen, listed = contenders, members(contenders)
        present = tuple(one.contender.kind for one in listed if one.contender.mark == self.mark)
        if present == self._present:
            return True
        own, self._present = self.membership.entry.ticket.kind, present
        if own not in present:
            return not self._counted
        self._mine, self._counted = dict.fromkeys(self._sharing.of(own, present)), True
        return True

    def arrange(self, now: float) -> bool:
        """Have what is not its own given back, and ask for what is; whether it has all begun."""
        for item, hold in list(self._held.items()):
            if hold.remaining(now) <= 0:  # lost, or released by its user
                del self._held[item]
            elif item not in self._mine:
                self._part_with(item, hold)
        for item, (hold, since) in list(self._leaving.items()):
            if hold.remaining(now) <= 0:
                del self._leaving[item]
            elif since <= self.stepped:
                self._give_back(hold)
        for item in self._asked_for():
            if item not in self._mine:
                self._crew.stop(item, Moved())
        known = self._held.keys() | self._leaving.keys()
        wanted = [item for item in self._mine if item not in known and item not in self._crew]
        for item in wanted[:MOST_AT_ONCE]:
            self._crew.start(item, acquire(self._attempt(item)))
        return not wanted

    def _part_with(self, item: str, hold: HeldState) -> None:
        """Let an item go: after its user, if that may know of it."""
        del self._held[item]
        known = self._shown.items.get(item) is hold.grant
        self._leaving[item] = hold, self._shown.number + 1 if known else 0

    def _give_back(self, hold: HeldState) -> None:
        if hold not in self._crew:
            self._crew.start(hold, give_back(hold), hold)

    def _asked_for(self) -> list[str]:
        return [key for key in self._crew if isinstance(key, str)]

    def show(self, now: float) -> float:
        """Show what is held and what is leaving, unless the user knows, or nobody counts this member yet.

        Returns:
            After how many seconds to try again: the last was shown just now.
        """
        items = {item: self._held[item].grant for item in self._mine if item in self._held}
        leaving = {item: hold.grant for item, (hold, since) in self._leaving.items() if since}
        seen = self._shown
        news = items != seen.items or not leaving.keys() <= seen.leaving.keys()
        if not (news if seen.number else self._counted):
            return math.inf
        early_s = self._shown_at + self._pause_s - now
        if early_s > 0:
            return early_s
        self._shown, self._shown_at = Portion(seen.number + 1, items, leaving), now
        self.topic.show(self._shown)
        return math.inf

    def leave(self, now: float) -> float | None:
        """Ask for nothing any more, and give everything back if that is wanted; returns for how long to wait.

        None: nothing is left.
        """
        for item in self._asked_for():
            self._crew.stop(item, Moved())
        holds = [*self._held.values(), *(hold for hold, _ in self._leaving.values())]
        left = {hold: hold.remaining(now) for hold in holds if hold.remaining(now) > 0}
        if self.closing or self.left or self.membership.released:
            for hold in list(left)[:MOST_AT_ONCE]:
                self._give_back(hold)
        return min(left.values(), default=math.inf) if left or len(self._crew) else None

    def run(self, at_most_s: float) -> Program[list[Exception]]:
        """Have the crew go on, and wait until there is something to look at; returns what went wrong."""
        yield from Beside(self._crew, at_most_s if at_most_s < math.inf else None)
        return self._take_granted()

    def _take_granted(self) -> list[Exception]:
        """Note what is held since this was asked last; returns what went wrong."""
        errors: list[Exception] = []
        for ended in self._crew.take_ended():
            if isinstance(ended.key, str) and isinstance(ended.result, HeldState):
                self._grant(ended.result)
                self._held[ended.key] = ended.result
            elif ended.error is not None and not isinstance(ended.error, Moved | SessionLost):
                errors.append(ended.error)
        return errors


def share(parts: Partitioning, observer: Observer) -> Program[None]:
    """Hold the own share of the items until that is closed, or the membership is lost.

    After a loss, and after an error, what is held is kept until it is closed: its user may work on it.
    What is not held is left to the other members. Nothing is done if it has ended before this began, or if
    another runs. If other code ends this, it can be begun once more.
    """
    if not parts.claim(object()):
        return
    try:
        if parts.topic.error is None:
            yield from _share(parts, observer)
        yield from _end(parts)
    except BaseException as error:
        if isinstance(error, Exception | GeneratorExit):
            parts.end()
        else:
            parts.lapse()
        raise
    parts.end()


def _share(parts: Partitioning, observer: Observer) -> Program[None]:
    """Take part until that ends, and show why it has."""
    parts.counts = parts.counts or not parts.closing  # as it began: others may share since
    try:
        if parts.counts:
            yield from _take_part(parts, observer)
    except GeneratorExit:
        raise
    except Exception as error:
        parts.topic.fail(error)
    else:
        parts.topic.fail(Over())


def _end(parts: Partitioning) -> Program[None]:
    """Have the others leave it out, and give everything back once that is wanted."""
    while True:
        parts.counts = parts.counts and not (yield from _leave_out(parts))
        left = parts.leave((yield from Now()))
        if left is None and not parts.counts:
            return
        pause = AGAIN_S if parts.counts else math.inf
        yield from parts.run(pause if left is None else min(left, pause))


def _leave_out(parts: Partitioning) -> Program[bool]:
    """Have the other members leave this one out; whether they do. The store may refuse to write that."""
    member = parts.membership
    if parts.left or member.remaining((yield from Now())) <= 0:  # it goes, or is gone
        return True
    try:
        yield from rewrite(member, "", None, EVERYBODY.depth)
    except StoreError:
        return not member.mark  # as the store shows it: it may never have been written
    except ClientClosed:  # its session ends
        return True
    return True


def _take_part(parts: Partitioning, observer: Observer) -> Program[None]:
    """Take part in the sharing until it is closed."""
    member = parts.membership
    if not (yield from rewrite(member, parts.mark, None, EVERYBODY.depth)):
        raise parts.lost()
    while not parts.closing:
        now = yield from Now()
        left = member.remaining(now)
        if parts.left or member.released:
            parts.closing = True
            return
        if left <= 0:
            raise parts.lost()
        if not parts.look(observer.look()):
            if not (yield from verify(member)):
                raise parts.lost()
            continue  # what came while that was asked again is not notified once more
        pause = parts.show(now) if parts.arrange(now) else 0.0
        for error in (yield from parts.run(min(left, pause))):
            raise error


def give_back(hold: HeldState) -> Program[None]:
    """Release an item, unless it was lost or released."""
    unheard: list[Transition] = []
    if hold.release((yield from Now()), unheard.append):
        yield from release(hold)
    for transition in unheard:
        yield from Emit(transition)


def closed(parts: Partitioning) -> Program[None]:
    """Wait until nothing runs any more; what is not given back by then is so later."""
    try:
        while not parts.over:
            parts.topic.go_on()
            yield from Wait()
    except Expired:
        return
