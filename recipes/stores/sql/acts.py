"""What each operation does to the tables: acts, pure generators of statements; each is one transaction.

The first statement of an act that writes locks the row of its queue. What the act reads it reads behind
that, in statements of their own: a statement that locks and reads sees the tables as they were before it
waited. Without the lock the later of two tokens might be committed first. Where nobody is notified, an act
that removes or rewrites contenders locks their queues behind that, for it may wait for a guard.

An act that only reads needs no lock. What is ahead of a contender was committed before it, for each
drew its token under the lock.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from recipes._contract.contenders import Ahead, Contender
from recipes._contract.operations import Entry, Listing, Snapshot, Stored, Ticket
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Gone
from recipes._record import record
from recipes.errors import SessionLost
from recipes.stores._kit.queue import ENDED, Put, kind_of, ref_of, target_of
from recipes.stores.receipts import Exchanged
from recipes.stores.sql.requests import Ask, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import OBSERVERS

__all__ = ["Acts", "Elsewhere", "Seen", "Starting", "expect_same", "starting_us"]

T = TypeVar("T")
Steps = Generator[tuple[Ask, ...], list[Any], T]

WITHDRAWN = "its contender was withdrawn"
GRAVE_US = 3_600_000_000
"""So long a copy of a request may be on its way."""
DAY_US = 86_400_000_000
STALE_AT_ONCE, NAMES_AT_ONCE = 20, 500
MANY_IDLE = NAMES_AT_ONCE // 10
"""Where so many of the queues that were read are idle, it is worth to read the next ones soon."""
LOCKED_S = 0.01
"""Whether one that is dead, and that a guard has locked, can be deleted is tried again after so long."""


class Starting(Exception):
    """Nothing is granted for so many microseconds more, as the server took over from another."""

    def __init__(self, left_us: int) -> None:
        self.left_us = left_us


class Elsewhere(Exception):
    """What is known of the server does not hold: it is another one, or its clock was set back."""


def expect_same(work: Work, server: str) -> None:
    """Raise if this is another server than the one of which it is known from when on it grants."""
    if work.server is not None and server != work.server:
        raise Elsewhere


def starting_us(work: Work, now_us: int) -> int:
    """Return for how much longer nothing is granted; raises if that would be longer than it may be."""
    left_us = max(0, work.starting_until_us - now_us)
    if left_us > work.grace_us:
        raise Elsewhere
    return left_us


@record
class Seen:
    """A row of a contender."""

    token: int
    kind: str
    session: str
    id: str
    mark: str
    version: int
    expires_at: int | None
    now: int
    server: str
    owner: str = ""
    data: bytes = b""

    @property
    def over(self) -> bool:
        """Whether its session is over; of one that ended while it joined there is no row."""
        return self.expires_at is None or self.expires_at <= self.now

    def contender(self, queue: str, *, listed: bool = False) -> Contender:
        """Return it as a store shows it."""
        ref = ref_of(queue, self.token)
        if not listed:
            return Contender(ref, self.id, self.kind, self.session, self.mark)
        token, owner, data = self.token, self.owner, bytes(self.data)
        return Contender(ref, self.id, self.kind, self.session, self.mark, token, owner, data, self.version)


class Acts:
    """The acts of one session.

    Args:
        statements: For the tables and the dialect.
        root: Where the keys of its queues and values begin.
        bell: What the channels of sessions begin with.
        me: The session's id.
    """

    def __init__(self, statements: Statements, root: str, bell: str, me: str) -> None:
        self._say, self._root, self._bell, self._me = statements, f"{root}:", bell, me

    @property
    def channel(self) -> str:
        """What the session is notified on; empty if the server notifies nobody."""
        return self._bell + self._me if self._say.notifies else ""

    def _key(self, queue: str) -> str:
        return self._root + queue

    # Sessions.

    def open(self, work: Work, ttl_us: int) -> Steps[None]:
        """Begin a session, and notify it: so it is known whether it can be."""
        say = self._say
        said = [say.notify(self.channel, "open")] if say.notifies else []
        yield (say.begin_session(self._me, ttl_us), *said)

    def renew(self, work: Work) -> Steps[list[tuple[str, int, str]]]:
        """Renew the session, and return where it stands."""
        (renewed,) = yield (self._say.renew(self._me),)
        if not renewed:
            raise SessionLost(ENDED)
        (found,) = yield (self._say.mine(self._me),)  # a statement of its own: see the head of this file
        return [(name.removeprefix(self._root), token, one) for name, token, one in found]

    def end(self, work: Work) -> Steps[None]:
        """Delete the session and all that is its own."""
        (found,) = yield (self._say.mine(self._me),)
        yield from self._clear(work, [(name, token) for name, token, _ in found])
        unwatch = [self._say.unwatch(self._me)] if self._say.notifies else []
        yield (*unwatch, *self._say.end_session(self._me))

    def _clear(self, work: Work, places: Sequence[tuple[str, int]]) -> Steps[None]:
        """Delete contenders of several queues, which are locked by name."""
        of: dict[str, list[int]] = {}
        for name, token in sorted(places):
            of.setdefault(name, []).append(token)
        yield from self._locked({name: self._say.delete(name, tokens) for name, tokens in of.items()})
        for name, tokens in of.items():
            yield from self._ring(work, name, tokens, Gone)

    def tidy(self, work: Work) -> Steps[bool]:
        """Delete a little of what was over long ago: sessions, where they stand, tombstones, idle queues.

        Returns whether there is probably much more.
        """
        say = self._say
        (stale,) = yield (say.stale(STALE_AT_ONCE, DAY_US),)
        ids = yield from self._kill([one for (one,) in stale])
        if ids:
            (places,) = yield (say.where(ids),)
            yield from self._clear(work, places)
            yield say.forget(ids)
        graves, here = yield (say.old_graves(NAMES_AT_ONCE), say.tidied_to())
        more = len(ids) >= STALE_AT_ONCE or len(graves) >= NAMES_AT_ONCE
        if graves:
            yield (say.dig([one for (one,) in graves]),)
        if here:
            (names,) = yield (say.names(here[0][0], NAMES_AT_ONCE),)
            known = [name for (name,) in names]
            (idle,) = (yield (say.idle(known, DAY_US),)) if known else ([],)
            if idle:
                (still,) = yield (say.idle([name for (name,) in idle], DAY_US),)  # now that they are locked
                if still:
                    yield (say.drop_idle([name for (name,) in still]),)
            yield (say.tidy_to(known[-1] if len(known) == NAMES_AT_ONCE else ""),)
            more = more or len(idle) >= MANY_IDLE
        return more

    def spend(self, work: Work, asked: Sequence[str]) -> Steps[bool]:
        """Delete a little of the session's receipts that are so old that no copy of a write is on its way.

        Returns whether there is probably more.

        Args:
            work: This run.
            asked: The values of which a write is under way: it may have to find out whether it was done.
        """
        say, kept = self._say, set(map(self._key, asked))
        (old,) = yield (say.old_receipts(self._me, NAMES_AT_ONCE, GRAVE_US),)
        names = [name for name, _ in old if name not in kept]
        if names:  # one that is written again meanwhile has a later version
            yield (say.drop_receipts(self._me, names, max(version for _, version in old)),)
        return bool(names) and len(old) >= NAMES_AT_ONCE

    # The queue.

    def join(
        self, work: Work, ticket: Ticket, rule: Rule, *, arm: int = 0, only_free: bool = False
    ) -> Steps[Snapshot]:
        """Join the queue unless that was done, and watch the nearest ``arm`` ahead.

        With ``only_free`` nothing is done, and the snapshot is without an entry, if somebody blocks.
        """
        say, name = self._say, self._key(ticket.queue)
        _, joined, rows = yield (
            say.draw(name),
            say.join(name, self._me, self._bell, **_row(ticket)),
            self._shown(name, ticket.id, rule),
        )
        seen = yield from self._living(work, name, ticket.id, rule, rows)
        if not seen or seen[0].over:
            (buried,) = yield (say.buried(ticket.id),)
            raise SessionLost(WITHDRAWN if buried else ENDED)
        self._expect_started(work, seen)
        snapshot = yield from self._snapshot(ticket, name, rule, seen)
        if only_free and rule.blockers(snapshot.ahead):
            work.undo = True
            return Snapshot(None, (), complete=True, position=0)
        if say.changed(joined):
            self._tell(work, name, [], Changed)
        for contender in snapshot.ahead[:arm] if say.notifies else ():
            if contender.session != self._me:
                yield (say.watch(name, target_of(contender.ref)[1], self._me),)
        return snapshot

    def take(self, work: Work, ticket: Ticket) -> Steps[Snapshot | None]:
        """Join the queue if nobody is there, in one step; None if it did not."""
        say, name = self._say, self._key(ticket.queue)
        *_, found = yield (
            say.draw(name),
            say.join_alone(name, self._me, self._bell, work.server, **_row(ticket)),
            say.find(name, ticket.id, self._me),
        )
        if not found:
            return None
        self._tell(work, name, [], Changed)
        token = int(found[0][0])
        mine = Entry(ticket, ref_of(ticket.queue, token), token)
        return Snapshot(mine, (), complete=True, position=0, cheap=True)

    def look(self, work: Work, mine: Entry, rule: Rule, targets: Ahead) -> Steps[Snapshot]:
        """Watch these and read the queue."""
        name = self._key(mine.ticket.queue)
        yield (self._say.lock(name),)
        for target in targets if self._say.notifies else ():
            yield (self._say.watch(name, target_of(target.ref)[1], self._me),)
        (rows,) = yield (self._shown(name, mine.ticket.id, rule),)
        seen = yield from self._living(work, name, mine.ticket.id, rule, rows)
        self._expect_started(work, seen)
        return (yield from self._snapshot_of_mine(work, mine, name, rule, seen))

    def glance(self, work: Work, mine: Entry, rule: Rule) -> Steps[Snapshot | None]:
        """Read the queue; None if there is more to do than to read: somebody ahead is dead.

        So too if that shows nobody: a standby, to which a proxy leads what only reads, may be behind.
        """
        name = self._key(mine.ticket.queue)
        (rows,) = yield (self._shown(name, mine.ticket.id, rule),)
        if not rows:
            return None
        seen = [Seen(*row) for row in rows]
        if any(one.over for one in seen):
            return None
        self._expect_started(work, seen)
        return (yield from self._snapshot_of_mine(work, mine, name, rule, seen))

    def _shown(self, name: str, one: str, rule: Rule) -> Ask:
        return self._say.shown(name, one, rule.reach + 2, exclusive_only=rule.exclusive_only)

    def _living(
        self, work: Work, name: str, one: str, rule: Rule, rows: Sequence[Sequence[Any]]
    ) -> Steps[list[Seen]]:
        """Return the contenders without the dead; one whose row is locked counts as alive."""
        while True:
            seen = [Seen(*row) for row in rows]
            if not (yield from self._sweep(work, name, seen[1:])):
                return seen
            (rows,) = yield (self._shown(name, one, rule),)

    def _sweep(self, work: Work, name: str, seen: Sequence[Seen]) -> Steps[bool]:
        """Delete those whose session is over; whether any was.

        Nobody is deleted while the server takes over from another: the last renewals may be lost.
        """
        over = {one.session: one for one in seen if one.over}
        if not over or _starting_us(work, seen) > 0:
            return False
        dead = yield from self._kill(list(over))
        dead += [one.session for one in over.values() if one.expires_at is None]
        if not dead:
            return False
        (tokens,) = yield (self._say.free(name, dead),)
        yield from self._delete(work, name, [token for (token,) in tokens])
        return bool(tokens)

    def _kill(self, ids: list[str]) -> Steps[list[str]]:
        """Have those of these sessions that are over be dead for good, but for those that somebody renews."""
        if not ids:
            return []
        (found,) = yield (self._say.dead(ids),)
        dead = [one for (one,) in found]
        if dead:
            yield (self._say.kill(dead),)
        return dead

    def _snapshot(self, ticket: Ticket, name: str, rule: Rule, seen: list[Seen]) -> Steps[Snapshot]:
        if not seen or seen[0].id != ticket.id or seen[0].session != self._me or seen[0].over:
            return Snapshot(None, (), complete=True, position=0)
        own, others = seen[0], seen[1:]
        ahead = tuple(one.contender(ticket.queue) for one in others[: rule.reach])
        complete, position = len(others) <= rule.reach, len(others)
        if not complete:
            ((count,),) = yield (self._say.count(name, own.token, exclusive_only=rule.exclusive_only),)
            position = int(count[0])
        mine = Entry(ticket, ref_of(ticket.queue, own.token), own.token)
        return Snapshot(mine, ahead, complete, position, cheap=True, due_s=_due_s(others))

    def _snapshot_of_mine(
        self, work: Work, mine: Entry, name: str, rule: Rule, seen: list[Seen]
    ) -> Steps[Snapshot]:
        snapshot = yield from self._snapshot(mine.ticket, name, rule, seen)
        if snapshot.mine is None:
            yield from self._expect_alive(work)
        return snapshot

    def _expect_alive(self, work: Work) -> Steps[None]:
        """Tell a contender that was removed from one that went with its session."""
        (((alive, server),),) = yield (self._say.lives_here(self._me),)
        expect_same(work, server)
        if alive is None:
            raise SessionLost(ENDED)

    def _expect_started(self, work: Work, seen: Sequence[Seen]) -> None:
        left_us = _starting_us(work, seen)
        if left_us > 0:
            raise Starting(left_us)
        work.started = bool(seen)

    def present(
        self, work: Work, mine: Entry, targets: Ahead, *, watch: bool
    ) -> Steps[tuple[bool, list[str]]]:
        """Return whether the own contender stands, and which of these stand as they were seen."""
        name = self._key(mine.ticket.queue)
        tokens = [target_of(target.ref)[1] for target in targets]
        if watch and self._say.notifies and tokens:
            yield (self._say.lock(name), *(self._say.watch(name, one, self._me) for one in tokens))
        (rows,) = yield (self._say.some(name, [mine.token, *tokens]),)
        expect_same(work, Seen(*rows[0]).server)
        there = {row[0]: Seen(*row) for row in rows}
        own = there.get(mine.token)
        found = [
            target.ref
            for target, token in zip(targets, tokens, strict=True)
            if token in there and (there[token].mark == target.mark or not mine.ticket.minds_marks)
        ]
        stands = own is not None and own.session == self._me and not own.over
        if not stands:
            yield from self._expect_alive(work)
        return stands, found

    def remove(self, work: Work, queue: str, one: str, token: int | None, *, bury: bool) -> Steps[bool]:
        """Delete the own contender, and have it not come to stand any more."""
        say, name, removed = self._say, self._key(queue), False
        if token is not None:
            (reply,) = yield from self._locked({name: say.remove(name, one, self._me, self._bell, token)})
            removed = bool(say.changed(reply))
            if removed:
                self._tell(work, name, [token], Gone)
        if token is None or (bury and not removed):  # a late copy of its join has a token of its own
            _, found = yield (say.lock(name), say.find(name, one, self._me))
            yield from self._delete(work, name, [own for (own,) in found])
            removed = bool(found)
        if bury:
            yield (say.bury(one, GRAVE_US),)
        return removed

    def expel(self, work: Work, queue: str, token: int) -> Steps[bool]:
        """Delete another's contender."""
        name = self._key(queue)
        (removed,) = yield from self._locked({name: self._say.delete(name, [token])})
        if removed:
            yield from self._ring(work, name, [token], Gone)
        return bool(removed)

    def _locked(self, changes: dict[str, Ask]) -> Steps[list[Any]]:
        """Change contenders of each of these queues, and lock the queues; return the replies.

        A change may wait for a guard. Those that join need not, so on MySQL the queues are locked behind all
        changes. On PostgreSQL each is locked first, so that the change rings all subscriptions.
        """
        say, replies = self._say, []
        for name, change in changes.items():
            replies += yield (say.lock(name), change) if say.notifies else (change,)
        if say.notifies:
            return replies[1::2]
        for name in changes:
            yield (say.lock(name),)
        return replies

    def _delete(self, work: Work, name: str, tokens: list[int]) -> Steps[None]:
        if tokens:
            yield (self._say.delete(name, tokens),)
            yield from self._ring(work, name, tokens, Gone)

    def rewrite(
        self, work: Work, entry: Entry, mark: str, data: bytes, version: int
    ) -> Steps[tuple[int, bool, bool] | None]:
        """Write mark and data if it has this version.

        Returns its version now, whether this was done, and whether it says this now.
        """
        say, name, token = self._say, self._key(entry.ticket.queue), entry.token
        rewrite = say.rewrite(name, self._me, token=token, mark=mark, data=data, version=version)
        (changed,) = yield from self._locked({name: rewrite})
        alive, found = yield (say.alive(self._me), say.written(name, token, self._me))
        if not found or not alive:
            work.undo = True
            return None
        if changed:
            yield from self._ring(work, name, [token], Changed)
        now, said, held = found[0]
        return int(now), bool(changed), said == mark and bytes(held) == data

    def _ring(self, work: Work, name: str, tokens: list[int], what: type[Gone | Changed]) -> Steps[None]:
        """Notify all that watch these contenders or the queue, once it is committed."""
        self._tell(work, name, tokens, what)
        if self._say.notifies:
            letter = "g" if what is Gone else "c"
            yield (self._say.ring(self._bell, name, [*tokens, OBSERVERS], letter),)

    def _tell(self, work: Work, name: str, tokens: list[int], what: type[Gone | Changed]) -> None:
        """Notify the calls of this session."""
        queue = name.removeprefix(self._root)
        work.news += [*(what(ref_of(queue, token)) for token in tokens), Changed(queue)]

    # What is looked at from outside.

    def listing(self, work: Work, queue: str, most: int, *, watch: bool) -> Steps[Listing]:
        """Read a queue from its head on, without the dead; and watch it."""
        say, name = self._say, self._key(queue)
        yield (say.lock(name),)
        if watch and say.notifies:
            yield (say.watch(name, OBSERVERS, self._me),)
        while True:
            (rows,) = yield (say.head(name, most),)
            seen = [Seen(*row) for row in rows]
            if not (yield from self._sweep(work, name, seen)):
                return self._listing(work, queue, seen)

    def peek(self, work: Work, queue: str, most: int) -> Steps[Listing | None]:
        """Read a queue; None if somebody in it is dead."""
        (rows,) = yield (self._say.head(self._key(queue), most),)
        seen = [Seen(*row) for row in rows]
        return None if any(one.over for one in seen) else self._listing(work, queue, seen)

    def _listing(self, work: Work, queue: str, seen: list[Seen]) -> Listing:
        due_s = _due_s(seen, _starting_us(work, seen))
        return Listing(tuple(one.contender(queue, listed=True) for one in seen), due_s)

    def queues(self, work: Work, most: int) -> Steps[tuple[str, ...]]:
        """Read the names of queues in which anybody alive stands."""
        low = self._root
        high = low[:-1] + chr(ord(low[-1]) + 1)
        (rows,) = yield (self._say.queues(low, high, most),)
        return tuple(name.removeprefix(self._root) for (name,) in rows)

    # Values.

    def read(self, work: Work, key: str, *, watch: bool) -> Steps[Stored]:
        """Read a value, and watch it."""
        say, name = self._say, self._key(key)
        if watch and say.notifies:
            yield (say.lock(name), say.watch(name, OBSERVERS, self._me))
        (rows,) = yield (say.read(name),)
        expect_same(work, rows[0][2])
        return _stored(rows)

    def put(self, work: Work, put: Put) -> Steps[Exchanged]:
        """Write a value and its receipt, or the receipt alone, if all is as expected."""
        say, exchange, write = self._say, put.exchange, put.exchange.write
        name = self._key(write.key)
        _, alive, drawn, said, version = yield (
            say.draw(name),
            say.alive(self._me),
            say.token(name),
            say.said(name, self._me),
            say.version(name),
        )
        if not alive:  # its receipts may be gone: a late copy of a first write would find all as expected
            raise SessionLost(ENDED)
        receipt, text = said[0] if said else (0, b"")
        guarded = True
        for guard in write.guards:
            of = guard.entry
            (stands,) = yield (say.guard(self._key(of.ticket.queue), of.token, self._me),)
            guarded = guarded and bool(stands) and not (guard.unchanged and stands[0][1])
        if not put.fits(receipt, version[0][0] if version else 0, guarded=guarded):
            (rows,) = yield (say.read(name),)
            return Exchanged(False, receipt, bytes(text), _stored(rows), guarded)
        now = drawn[0][0]
        said_now = [say.say(name, self._me, now, exchange.receipt)]
        if not exchange.settles:
            said_now.append(say.erase(name) if write.data is None else say.set(name, now, write.data))
        # The session's row last: on MySQL a renewal waits for it. `end` locks it first, so that no receipt is
        # left behind; the two may wait for each other, and the database has one of them begin again.
        *_, lives = yield (*said_now, say.stays(self._me))
        if not lives:  # a late copy: nobody would delete its receipt
            raise SessionLost(ENDED)
        if exchange.settles:
            return Exchanged(True, now, exchange.receipt)
        yield from self._ring(work, name, [], Changed)
        stored = Stored() if write.data is None else Stored(write.data, now)
        return Exchanged(True, now, exchange.receipt, stored)

    # The server.

    def enter(self, work: Work, life: str, grace_us: int) -> Steps[tuple[int, int, str]]:
        """Note which server this is.

        Returns until when nothing is granted, the grace agreed about, and what `Server` says.
        """
        say = self._say
        (found,) = yield (say.life(),)
        if not found or found[0][0] != life:
            _, found = yield (say.first_life(life, grace_us), say.life())
        noted, since_us, _, now_us, _ = found[0]
        if noted != life or since_us > now_us:  # or the clock was set back, for as long as one likes
            _, found = yield (say.next_life(life), say.life())
        _, since_us, agreed_us, _, server = found[0]
        return (since_us + agreed_us if since_us else 0), agreed_us, server


def _row(ticket: Ticket) -> dict[str, Any]:
    return {"id": ticket.id, "kind": kind_of(ticket), "mark": "", "owner": ticket.owner, "data": ticket.data}


def _starting_us(work: Work, seen: Sequence[Seen]) -> int:
    """Return for how much longer nothing is granted."""
    if not seen:
        return 0
    expect_same(work, seen[0].server)
    return starting_us(work, seen[0].now)


def _due_s(others: Sequence[Seen], starting_us: int = 0) -> float | None:
    """Return in how many seconds one of them is dead, unless it is renewed."""
    left = [(one.expires_at or 0) - one.now for one in others]
    return max(LOCKED_S, min(left) / 1e6, starting_us / 1e6) if left else None


def _stored(rows: Sequence[Sequence[Any]]) -> Stored:
    ((data, version, _),) = rows
    return Stored() if version is None else Stored(bytes(data), version)
