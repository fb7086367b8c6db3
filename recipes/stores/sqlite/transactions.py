"""What each operation does to the tables, inside one transaction that the caller begins and commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from recipes._contract import operations as ops
from recipes._contract.connection import Mailbox
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Gone
from recipes._record import record
from recipes.errors import SessionLost
from recipes.stores._kit.queue import ENDED, Command, Put, kind_of, ref_of, target_of, watched_on_joining
from recipes.stores._kit.session import Observe, Observed
from recipes.stores.receipts import Exchanged
from recipes.stores.sqlite import values

__all__ = ["Sweep", "Transaction", "grows", "lasts", "writes"]

EXPIRED = "the session was not renewed in time, and has expired"
MORE_THAN_ANY = 2**63 - 1
_NEAREST = "SELECT token, id, kind, session, mark FROM contender WHERE queue = ? AND token < ?"
NEAREST = f"{_NEAREST} ORDER BY token DESC LIMIT ?"
NEAREST_EXCLUSIVE = f"{_NEAREST} AND kind <> 'R' ORDER BY token DESC LIMIT ?"
COUNT = "SELECT COUNT(*) FROM contender WHERE queue = ? AND token < ?"
COUNT_EXCLUSIVE = f"{COUNT} AND kind <> 'R'"
LIST = """
SELECT token, id, kind, session, mark, token, owner, data, version FROM contender WHERE queue = ?
ORDER BY token LIMIT ?
"""
STATE = """
SELECT COUNT(*) || ' ' || IFNULL(MAX(token), 0) || ' ' || IFNULL(SUM(version), 0) || ' ' ||
    IFNULL((SELECT version FROM value WHERE key = ?), 0) FROM contender WHERE queue = ?
"""
"""Differs after each change of a queue, or of the value of that name: tokens and versions only rise."""


@record
class Sweep(ops.Op[None]):
    """End the sessions whose time is over, and those whose process has died; these may have no row."""

    suspects: tuple[str, ...] = ()


def grows(op: ops.Op[Any]) -> int | None:
    """How many bytes an operation adds to the file; None: none, and it is done on a full disk too."""
    match op:
        case ops.Open():
            return 0
        case ops.Enqueue(ticket=ticket) | ops.Probe(ticket=ticket):
            return len(ticket.data)
        case Put(exchange=put) if not put.settles and put.write.data is not None:
            return len(put.write.data)
        case _:
            return None


def lasts(op: ops.Op[Any]) -> bool:
    """Whether what an operation writes has to survive a power cut; what belongs to a session does not."""
    return isinstance(op, Put) and not op.exchange.settles


def writes(command: Command) -> bool:
    """Whether an operation needs the one place of a writer."""
    match command.op:
        case ops.Look(targets=targets):
            return bool(targets) and not command.promised
        case ops.Check(targets=targets, evidence=evidence):
            return bool(targets) and evidence is None
        case ops.Watch(targets=targets):
            return bool(targets)
        case ops.List(watch=watch) | ops.Read(watch=watch):
            return watch
        case op:
            return not isinstance(op, Observe | ops.Queues)


class Transaction:
    """One operation, and what others have to be notified of once it is committed.

    Args:
        command: What is to be done.
        db: The connection, in a transaction.
        now: Boot time, read when the transaction had begun.
        dead: Says which of these sessions' processes are known to have died.
        listen: Notes, before the commit, that a mailbox is notified of a contender or a queue; whether
            another of this session is already.

    Attributes:
        news: The sessions to notify, the first in the queue first, and of what.
        ended: The sessions that have ended.
    """

    def __init__(
        self,
        command: Command,
        db: sqlite3.Connection,
        now: float,
        dead: Callable[[Iterable[str]], list[str]],
        listen: Callable[[Mailbox, str], bool],
    ) -> None:
        self._command = command
        self._session = command.session
        self._now, self._dead, self._listen = now, dead, listen
        self._run = db.execute
        self.news: dict[str, list[Gone | Changed]] = {}
        self.ended: list[str] = []

    def carry_out(self) -> Any:
        """Carry out the operation; raises ``SessionLost`` if its session has ended.

        One that only reads listens first: no lock keeps others from writing, and what the first SELECT
        does not show has to be notified.
        """
        op = self._command.op
        if writes(self._command):
            self._expire()
        elif isinstance(op, ops.Look):
            for target in op.targets:
                self._listen(self._command.mailbox, target.ref)
        if not isinstance(op, ops.Open | ops.End | Sweep):
            self._expect_session()
        act: Callable[[Any], Any] = getattr(self, f"_{type(op).__name__.lower()}")
        return act(op)

    # The sessions.

    def _expire(self) -> None:
        """End every session whose time is over, or is of another clock: each writer does it first."""
        over = "SELECT id FROM session WHERE expires_at <= ? OR expires_at > ? + ttl_s"
        for (session,) in self._run(over, (self._now, self._now)).fetchall():
            self._end_session(session)

    def _expect_session(self) -> None:
        found = self._run("SELECT expires_at FROM session WHERE id = ?", (self._session,)).fetchone()
        if found is None:
            raise SessionLost(ENDED)
        if found[0] <= self._now:
            raise SessionLost(EXPIRED)

    def _end_session(self, session: str) -> None:
        """Delete a session, its contenders, and what it watched."""
        self._run("DELETE FROM session WHERE id = ?", (session,))
        found = self._run("SELECT queue, token FROM contender WHERE session = ?", (session,)).fetchall()
        for queue, token in found:
            self._delete(queue, token, session)
        self._run("DELETE FROM watch WHERE session = ?", (session,))
        self._run("DELETE FROM observer WHERE session = ?", (session,))
        self.ended.append(session)

    def _bury(self, suspects: Iterable[str] = ()) -> None:
        """End the sessions whose process has died."""
        found = self._run("SELECT id FROM session").fetchall()
        for session in self._dead([*suspects, *(session for (session,) in found)]):
            self._end_session(session)

    def _open(self, op: ops.Open) -> ops.Opened:
        self._bury()  # some block nobody, and nobody looked
        row = (self._session, op.ttl_s, self._now + op.ttl_s)
        self._run("INSERT OR REPLACE INTO session (id, ttl_s, expires_at) VALUES (?, ?, ?)", row)
        return ops.Opened(self._session, op.ttl_s)

    def _renew(self, op: ops.Renew) -> ops.Renewal:
        (ttl_s,) = self._run("SELECT ttl_s FROM session WHERE id = ?", (self._session,)).fetchone()
        self._run("UPDATE session SET expires_at = ? WHERE id = ?", (self._now + ttl_s, self._session))
        return ops.Renewal(ttl_s, tuple(entry for entry in op.entries if not self._is_mine(entry)))

    def _end(self, _: ops.End) -> None:
        self._end_session(self._session)

    def _sweep(self, op: Sweep) -> None:
        self._bury(op.suspects)  # where one has died others may have, in the same queue

    # The queue.

    def _enqueue(self, op: ops.Enqueue) -> ops.Snapshot:
        own, ahead = self._look_around(op.ticket, op.rule)
        mine = self._place(op.ticket, own)
        now, later = watched_on_joining(op.rule, ahead[: op.rule.reach], self._session)
        for contender in now:
            self._arm(contender, mine)
        for contender in later:  # one that moves up finds this done, and has nothing to write
            self._want(contender, mine)
        return self._joined(mine, own, ahead, op.rule)

    def _probe(self, op: ops.Probe) -> ops.Snapshot | None:
        own, ahead = self._look_around(op.ticket, op.rule)
        if own is None and op.rule.blockers(ahead):
            return None
        return self._joined(self._place(op.ticket, own), own, ahead, op.rule)

    def _joined(self, mine: ops.Entry, before: int | None, ahead: Ahead, rule: Rule) -> ops.Snapshot:
        """Return the snapshot of a contender: if it was not there ``before``, of the moment it was made."""
        snapshot = self._snapshot(mine, ahead, rule)
        return snapshot if before is not None else replace(snapshot, as_of=mine.token)

    def _look_around(self, ticket: ops.Ticket, rule: Rule) -> tuple[int | None, Ahead]:
        """Return the token of an attempt, if it was asked before and stands, and the nearest ahead."""
        own = self._token_of(ticket) if self._command.again else None
        return own, self._living(ticket.queue, own, rule)

    def _token_of(self, ticket: ops.Ticket) -> int | None:
        one = "SELECT token FROM contender WHERE queue = ? AND id = ? AND session = ?"
        found = self._run(one, (ticket.queue, ticket.id, self._session)).fetchone()
        return None if found is None else int(found[0])

    def _place(self, ticket: ops.Ticket, token: int | None) -> ops.Entry:
        """Return the entry of an attempt; without a token it joins the queue."""
        if token is None:
            token = self._next_token()
            row = (ticket.queue, token, ticket.id, kind_of(ticket), self._session, ticket.owner, ticket.data)
            columns = "queue, token, id, kind, session, owner, data"
            self._run(f"INSERT INTO contender ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            self._tell_observers(ticket.queue)
        return ops.Entry(ticket, ref_of(ticket.queue, token), token)

    def _next_token(self) -> int:
        self._run("UPDATE machine SET token = token + 1")
        return int(self._run("SELECT token FROM machine").fetchone()[0])

    def _living(self, queue: str, before: int | None, rule: Rule) -> Ahead:
        """Return the nearest that count; sessions among them whose process has died are ended first."""
        while True:
            ahead = self._nearest(queue, before, rule)
            dead = self._dead([contender.session for contender in ahead]) if rule.blockers(ahead) else []
            if not dead:
                return ahead
            for session in dead:
                self._end_session(session)

    def _nearest(self, queue: str, before: int | None, rule: Rule) -> Ahead:
        """Return the nearest that count, one more than a bounded read has to show."""
        nearest = NEAREST_EXCLUSIVE if rule.exclusive_only else NEAREST
        before = MORE_THAN_ANY if before is None else before
        found = self._run(nearest, (queue, before, rule.reach + 1)).fetchall()
        return tuple(Contender(ref_of(queue, row[0]), *row[1:]) for row in found)

    def _snapshot(self, mine: ops.Entry, ahead: Ahead, rule: Rule) -> ops.Snapshot:
        complete, position = len(ahead) <= rule.reach, len(ahead)
        if not complete:
            count = COUNT_EXCLUSIVE if rule.exclusive_only else COUNT
            position = self._run(count, (mine.ticket.queue, mine.token)).fetchone()[0]
        return ops.Snapshot(mine, ahead[: rule.reach], complete, position)

    def _look(self, op: ops.Look) -> ops.Snapshot:
        mine, rule = op.mine, op.rule
        if not self._is_mine(mine):
            return ops.Snapshot(None, (), complete=True, position=0)
        if not writes(self._command):
            return self._snapshot(mine, self._nearest(mine.ticket.queue, mine.token, rule), rule)
        ahead = self._living(mine.ticket.queue, mine.token, rule)
        for target in op.targets:
            if self._state_of(*target_of(target.ref))[0] is not None:
                self._arm(target, mine)
        return self._snapshot(mine, ahead, rule)

    def _watch(self, op: ops.Watch) -> bool:
        return len(self._as_seen(op, watch=True)) == len(op.targets)

    def _check(self, op: ops.Check) -> ops.Checked:
        return ops.Checked(self._is_mine(op.mine), frozenset(self._as_seen(op, watch=op.evidence is None)))

    def _as_seen(self, op: ops.Watch | ops.Check, *, watch: bool) -> list[str]:
        """Return which targets stand as they were seen; to some kinds it matters how they are marked."""
        there = []
        for target in op.targets:
            owner, mark, _ = self._state_of(*target_of(target.ref))
            if owner is not None and (mark == target.mark or not op.mine.ticket.minds_marks):
                there.append(target.ref)
                if watch:
                    self._arm(target, op.mine)
        return there

    def _withdraw(self, op: ops.Withdraw) -> bool:
        token = self._token_of(op.ticket) if op.entry is None else op.entry.token
        return token is not None and self._delete(op.ticket.queue, token, self._session)

    def _evict(self, op: ops.Evict) -> bool:
        owner, _, _ = self._state_of(op.queue, op.token)
        return owner is not None and self._delete(op.queue, op.token, owner)

    def _delete(self, queue: str, token: int, session: str) -> bool:
        """Delete a contender of this session; whether it was there."""
        one = "DELETE FROM contender WHERE queue = ? AND token = ? AND session = ?"
        if not self._run(one, (queue, token, session)).rowcount:
            return False
        if self._tell(token, Gone(ref_of(queue, token))):
            self._run("DELETE FROM watch WHERE token = ?", (token,))
        self._tell_observers(queue)
        return True

    def _rewrite(self, op: ops.Rewrite) -> int | None:
        queue, token = own = op.entry.ticket.queue, op.entry.token
        owner, _, version = self._state_of(*own)
        if owner != self._session or op.version not in (None, version):
            return None
        change = (
            "UPDATE contender SET mark = ?, data = ?, version = version + 1 WHERE queue = ? AND token = ?"
        )
        self._run(change, (op.mark, op.data, *own))
        self._tell(token, Changed(ref_of(queue, token)))
        self._tell_observers(queue)
        return version + 1

    def _state_of(self, queue: str, token: int) -> tuple[str | None, str, int]:
        """Return whose contender this is, its mark, and its version; None first if it does not stand."""
        state = "SELECT session, mark, version FROM contender WHERE queue = ? AND token = ?"
        return self._run(state, (queue, token)).fetchone() or (None, "", 0)

    def _is_mine(self, entry: ops.Entry) -> bool:
        return self._state_of(entry.ticket.queue, entry.token)[0] == self._session

    # Values.

    def _guards(self, guard: ops.Guard) -> bool:
        owner, _, version = self._state_of(guard.entry.ticket.queue, guard.entry.token)
        return owner == self._session and not (guard.unchanged and version)

    def _read(self, op: ops.Read) -> ops.Stored:
        if op.watch:
            self._observe_queue(op.key)
        return values.read(self._run, op.key)

    def _put(self, op: Put) -> Exchanged:
        write = op.exchange.write
        guarded = all(self._guards(guard) for guard in write.guards)
        found = values.put(self._run, self._session, op, self._next_token, guarded=guarded)
        if found.done and not op.exchange.settles:
            self._tell_observers(write.key)
        return found

    # What is looked at from outside.

    def _list(self, op: ops.List) -> ops.Listing:
        if op.watch:
            self._observe_queue(op.queue)
        found = self._run(LIST, (op.queue, op.most)).fetchall()
        return ops.Listing(tuple(Contender(ref_of(op.queue, row[0]), *row[1:]) for row in found))

    def _queues(self, op: ops.Queues) -> tuple[str, ...]:
        names = "SELECT DISTINCT queue FROM contender ORDER BY queue LIMIT ?"
        return tuple(name for (name,) in self._run(names, (op.most,)).fetchall())

    def _observe(self, op: Observe) -> Observed:
        states = {ref: self._state_of(*target_of(ref)) for ref in op.contenders}
        found = {ref: state for ref, state in states.items() if state[0] is not None}
        owners = {owner for owner, _, _ in found.values() if owner is not None}
        for queue in op.queues:
            rows = self._run("SELECT DISTINCT session FROM contender WHERE queue = ?", (queue,)).fetchall()
            owners.update(session for (session,) in rows)
        due = self._run("SELECT EXISTS (SELECT 1 FROM session WHERE expires_at <= ?)", (self._now,))
        return Observed(
            frozenset(found),
            {ref: mark for ref, (_, mark, _) in found.items() if mark},
            tuple(queue for queue in op.queues if self._state_seen(queue) != self._state(queue)),
            frozenset(owners),
            bool(due.fetchone()[0]),
        )

    def _state(self, queue: str) -> tuple[str]:
        state: tuple[str] = self._run(STATE, (queue, queue)).fetchone()
        return state

    def _state_seen(self, queue: str) -> tuple[str] | None:
        """Return the state of a queue as this session saw it; None if it was notified of a change since."""
        seen = "SELECT state FROM observer WHERE queue = ? AND session = ?"
        found: tuple[str] | None = self._run(seen, (queue, self._session)).fetchone()
        return found

    # Which sessions are notified.

    def _arm(self, target: Contender, mine: ops.Entry) -> None:
        """Watch a contender: note here which mailbox it is for, and in the file that this session does."""
        self._listen(self._command.mailbox, target.ref)
        self._want(target, mine)

    def _want(self, target: Contender, mine: ops.Entry) -> None:
        row = (target_of(target.ref)[1], self._session, mine.token)
        self._run("INSERT OR IGNORE INTO watch (token, session, waiter) VALUES (?, ?, ?)", row)

    def _observe_queue(self, queue: str) -> None:
        """Watch a queue; its state is noted too, so that a change is found of which no notification came.

        An earlier observer of this session that still waits for a notification is notified here: should
        that be lost, it would not be found, as the state is noted anew.
        """
        state, seen = self._state(queue), self._state_seen(queue)
        if seen not in (None, state):
            self._tell_observers(queue)
        if self._listen(self._command.mailbox, queue) and seen is None:
            self._add_news([(self._session,)], Changed(queue))
        row = (queue, self._session, *state)
        self._run("INSERT OR REPLACE INTO observer (queue, session, state) VALUES (?, ?, ?)", row)

    def _tell(self, token: int, event: Gone | Changed) -> bool:
        """Have those notified that watch a contender, the first in the queue first; whether any does."""
        watching = "SELECT session FROM watch WHERE token = ? ORDER BY waiter"
        return self._add_news(self._run(watching, (token,)).fetchall(), event)

    def _tell_observers(self, queue: str) -> None:
        """Have those notified that observe a queue, each once."""
        observing = "SELECT session FROM observer WHERE queue = ?"
        if self._add_news(self._run(observing, (queue,)).fetchall(), Changed(queue)):
            self._run("DELETE FROM observer WHERE queue = ?", (queue,))

    def _add_news(self, sessions: list[tuple[str]], event: Gone | Changed) -> bool:
        for (session,) in sessions:
            self.news.setdefault(session, []).append(event)
        return bool(sessions)
