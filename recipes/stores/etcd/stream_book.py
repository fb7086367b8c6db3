"""Which call watches what: the state machine of etcd watches, documents in, tellings out. No I/O.

A watch on the wire may serve several armings: a mailbox that comes later joins a watch
on the same key or range, as long as that one has delivered no event. Its revision is then right for
the newcomer as well: every event after it is still to come, or on its way. So there are two watches of the
same at most: one, and another for those who watch by that one already, and want a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from recipes._contract.connection import Mailbox, Request
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.etcd.wire_answers import unavailable, watch_refused

__all__ = ["Arming", "Telling", "WatchBook", "cancel_message", "split"]

Telling = tuple[Callable[[Any], None], Any]
"""Something to call, with what: to be done when no lock is held."""
Wanted = tuple[bytes, bytes, bool]


@dataclass(slots=True, eq=False)
class Arming:
    """One ``Watch`` asked by one caller; ``resolve`` gets the revision, or the error, once."""

    watch: Watch
    resolve: Callable[[int | Exception], None]
    ref: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse a key that has no reference before anything is noted."""
        self.ref = self.watch.queue or self.watch.key.decode("utf-8", "surrogateescape")

    @property
    def wanted(self) -> Wanted:
        """What is watched: armings that want the same share a watch."""
        return self.watch.key, self.watch.end, self.watch.changes

    def answer(self, result: int | Exception) -> Telling:
        """Return what to tell the caller, and forget it: a watch may last for long."""
        resolve, self.resolve = self.resolve, _let_be
        return resolve, result


def _let_be(_: int | Exception) -> None:
    """Tell nobody."""


@dataclass(slots=True, eq=False)
class _Wired:
    """One watch on the wire; ``revision`` is None until the server says ``created``."""

    number: int
    wanted: Wanted
    ref: str
    store: str
    revision: int | None = None
    armings: list[Arming] = field(default_factory=list)


class WatchBook:
    """Keep the armings, and say what to tell whom; numbers are never used twice.

    Attributes:
        told: What has to be delivered; the owner empties it.
    """

    def __init__(self) -> None:
        self.told: list[Telling] = []
        self._wired: dict[int, _Wired] = {}
        self._open: dict[Wanted, list[_Wired]] = {}
        self._of: dict[int, list[_Wired]] = {}  # by id of the mailbox: it need not be hashable
        self._unanswered: dict[int, None] = {}  # creations, in order, given up or not
        self._last = 0

    def __len__(self) -> int:
        """Count the watches on the wire."""
        return len(self._wired)

    def has(self, number: int) -> bool:
        """Say whether watch ``number`` is on the wire."""
        return number in self._wired

    def unanswered(self) -> list[int]:
        """Return the creations that the server has not answered, given up or not."""
        return list(self._unanswered)

    def abandon(self, number: int) -> None:
        """Take note that creation ``number`` will not be answered: its connection is closed."""
        self._unanswered.pop(number, None)

    def arm(self, arming: Arming, store: str, *, twice: bool = True) -> int | None:
        """Note ``arming``; return the number of a watch to create, or None if it joined one.

        Without ``twice`` nobody has a second watch of the same: each would cost a connection.
        """
        watch, wanted = arming.watch, arming.wanted
        mine = self._same(watch.mailbox, wanted)
        others = [wired for wired in self._open.get(wanted, ()) if wired not in mine]
        if watch.again and (not mine or not twice):  # the event has come meanwhile, or it is to have no other
            self.told.append(arming.answer(0))
            return None
        confirmed = [wired.revision for wired in mine if wired.revision is not None]
        if confirmed and (not watch.again or len(mine) > 1):  # it watches already, and goes on
            self.told.append(arming.answer(confirmed[0]))
            return None
        found = others if watch.again else mine or others
        wired = found[-1] if found else self._made(arming, store)
        wired.armings.append(arming)
        self._of.setdefault(id(watch.mailbox), []).append(wired)
        if wired.revision is not None:
            self.told.append(arming.answer(wired.revision))
        return None if found else wired.number

    def _made(self, arming: Arming, store: str) -> _Wired:
        self._last += 1
        wired = _Wired(self._last, arming.wanted, arming.ref, store)
        self._wired[self._last] = wired
        self._open.setdefault(arming.wanted, []).append(wired)
        self._unanswered[self._last] = None
        return wired

    def create_message(self, number: int) -> dict[str, Any]:
        """Return the message that creates watch ``number``: from now on, with no start revision.

        A start revision beyond the current one would make etcd serve it up to 100 ms late.
        """
        key, end, changes = self._wired[number].wanted
        request: dict[str, Any] = {"key": key, "watch_id": number}
        if end:
            request["range_end"] = end
        if not changes:
            request["filters"] = ["NOPUT"]
        return {"create_request": request}

    def drop(self, arming: Arming) -> list[int]:
        """Undo ``arming``, whose caller gave up; return the watches to cancel."""
        return self._without(arming.watch.mailbox, arming)

    def watches(self, mailbox: Mailbox) -> bool:
        """Say whether ``mailbox`` watches anything; for the thread that waits at it."""
        return id(mailbox) in self._of

    def watched_by(self, mailbox: Mailbox | None) -> bool:
        """Say whether ``mailbox`` watches something, and nobody else does."""
        return len(self._of) == 1 and id(mailbox) in self._of

    def forget(self, mailbox: Mailbox) -> list[int]:
        """Drop all that ``mailbox`` watches; return the watches to cancel."""
        return self._without(mailbox, None)

    def take(self, result: dict[str, Any], only: int | None = None) -> list[int]:
        """Take one ``result`` of a stream; return the watches to cancel, their one event being delivered.

        ``only`` is the watch of a connection that has no other. A document that is not
        shaped like a watch answer raises LookupError, TypeError or ValueError.
        """
        number = int(result.get("watch_id", 0))
        if result.get("created"):
            if number not in self._unanswered and result.get("canceled"):
                # A refusal bears the number -1 in some versions; creations are answered in order.
                number = only or next(iter(self._unanswered), number)
            self._unanswered.pop(number, None)
        wired = self._wired.get(number)
        if wired is None:  # late news of a watch that was cancelled, or a sign of life
            return []
        if result.get("canceled"):
            self._cancelled(result, wired)
            return []
        if result.get("created"):
            self._created(wired, int(result["header"]["revision"]))
        _, end, changes = wired.wanted
        for event in result.get("events", ()):
            if event.get("type", "PUT") == "DELETE" and not end:
                return self._fire(wired, Gone(wired.ref))
            if changes:
                return self._fire(wired, Changed(wired.ref))
        return []

    def lose(self, numbers: list[int], error: Exception) -> None:
        """Give up watches whose connection failed: waiters get ``error``, mailboxes ``Disturbed``."""
        lost = [wired for wired in map(self._wired.get, numbers) if wired is not None]
        self._disturb(lost, error)
        for wired in lost:
            self._remove(wired)
        # Nobody answers for what was given up on that connection either.
        self._unanswered = {number: None for number in self._unanswered if number in self._wired}

    def lose_all(self, error: Exception) -> None:
        """Give up all watches, as `lose` does; of what an interrupted call left half noted nothing stays."""
        self._disturb(list(self._wired.values()), error)
        for kept in (self._wired, self._open, self._of, self._unanswered):
            kept.clear()

    def numbers(self) -> list[int]:
        """Return all watches on the wire."""
        return list(self._wired)

    def _created(self, wired: _Wired, revision: int) -> None:
        if wired.revision is None:
            wired.revision = revision
            self.told += [arming.answer(revision) for arming in wired.armings]

    def _fire(self, wired: _Wired, event: Gone | Changed) -> list[int]:
        """Tell each mailbox once, by whichever of its watches is first."""
        self._remove(wired)
        told = {id(arming.watch.mailbox): arming.watch.mailbox for arming in wired.armings}
        self.told += [(mailbox.post, event) for mailbox in told.values()]
        emptied = [wired.number]
        for double in list(self._open.get(wired.wanted, ())):
            emptied += self._leave(double, lambda arming: id(arming.watch.mailbox) in told, 0)
        return emptied

    def _same(self, mailbox: Mailbox, wanted: Wanted) -> list[_Wired]:
        """Return the watches on the wire by which a mailbox watches just this."""
        found = {wired.number: wired for wired in self._of.get(id(mailbox), ()) if wired.wanted == wanted}
        return list(found.values())

    def _cancelled(self, result: dict[str, Any], wired: _Wired) -> None:
        if "compact_revision" in result:
            self._disturb([wired], unavailable(wired.store, "the watch was cancelled by a compaction"))
        else:
            self._disturb([wired], watch_refused(wired.store, str(result.get("cancel_reason", ""))))
        self._remove(wired)

    def _disturb(self, lost: list[_Wired], error: Exception) -> None:
        """Answer with an error whose watch was not confirmed; notify each of the other mailboxes once."""
        disturbed: dict[int, Mailbox] = {}
        for wired in lost:
            if wired.revision is None:
                self.told += [arming.answer(error) for arming in wired.armings]
            else:
                disturbed |= {id(arming.watch.mailbox): arming.watch.mailbox for arming in wired.armings}
        self.told += [(mailbox.post, Disturbed()) for mailbox in disturbed.values()]

    def _without(self, mailbox: Mailbox, only: Arming | None) -> list[int]:
        emptied: list[int] = []
        for wired in list(self._of.get(id(mailbox), ())):
            error = unavailable(wired.store, "the watch was given up before it was confirmed")
            emptied += self._leave(
                wired, lambda arming: arming.watch.mailbox is mailbox and only in (None, arming), error
            )
        return emptied

    def _leave(self, wired: _Wired, leaves: Callable[[Arming], bool], answer: int | Exception) -> list[int]:
        """Take armings off a watch, and answer those that were not answered; returns it if none is left."""
        gone = [arming for arming in wired.armings if leaves(arming)]
        wired.armings = [arming for arming in wired.armings if not leaves(arming)]
        for arming in gone:
            self._unlist(wired, arming)
            if wired.revision is None:
                self.told.append(arming.answer(answer))
        if gone and not wired.armings:
            self._remove(wired)
            return [wired.number]
        return []

    def _remove(self, wired: _Wired) -> None:
        del self._wired[wired.number]
        same = self._open[wired.wanted]
        same.remove(wired)
        if not same:
            del self._open[wired.wanted]
        for arming in wired.armings:
            self._unlist(wired, arming)

    def _unlist(self, wired: _Wired, arming: Arming) -> None:
        box = id(arming.watch.mailbox)
        mine = self._of[box]
        mine.remove(wired)
        if not mine:
            del self._of[box]


def cancel_message(number: int) -> dict[str, Any]:
    """Return the message that ends watch ``number``."""
    return {"cancel_request": {"watch_id": number}}


def split(parts: Sequence[Request[Any]]) -> tuple[dict[int, Watch], dict[int, Post]]:
    """Return the watches and the unary calls of a batch, by position."""
    watches = {position: part for position, part in enumerate(parts) if isinstance(part, Watch)}
    posts = {position: part for position, part in enumerate(parts) if isinstance(part, Post)}
    if len(watches) + len(posts) != len(parts):
        raise AssertionError("a batch for etcd should hold nothing but Post and Watch")
    return watches, posts
