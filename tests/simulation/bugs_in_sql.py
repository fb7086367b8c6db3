"""Bugs to plant in the SQL store: in its statements and acts, its protocol, its wake-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recipes.stores._kit.queue import Put
from recipes.stores.sql import acts, protocol
from recipes.stores.sql.acts import Acts, Seen
from recipes.stores.sql.protocol import SqlProtocol
from tests.simulation.bugs import swap
from tests.simulation.sql_model import Database, Transaction
from tests.simulation.sql_store import SqlBells

# What a database does, and a program has to know.


def reads_what_was_there_before_the_lock() -> list[Any]:
    """One statement locks and reads: it sees the tables as they were before it waited."""
    return swap(Database, "look_anew", lambda self, t: None)


def repeatable_read() -> list[Any]:
    """All statements see what was there when the transaction began, as after a read before the lock."""

    def begin(self: Any) -> Transaction:
        t: Transaction = original(self)
        t.seen = {name: dict(rows) for name, rows in self.tables.items()}
        return t

    original = Database.begin
    return [*swap(Database, "begin", begin), *swap(Database, "look_anew", lambda self, t: None)]


def tokens_are_drawn_from_a_sequence() -> list[Any]:
    """No lock is held until the commit: the later token may be committed first."""

    def draw(self: Any, t: Transaction, queue_: str) -> Any:
        token = self.next(t, self.tables["queue"].get(queue_, 0))
        self.tables["queue"][queue_] = token
        t.put("queue", queue_, token)
        return 1

    return swap(Database, "draw", draw)


def tokens_count() -> list[Any]:
    """They go on where a standby left off that lacks the last."""
    return swap(Database, "next", lambda self, t, token: token + 1)


# Statements.


def renews_what_is_over() -> list[Any]:
    """Also a session that another transaction is about to delete."""

    def renew(self: Any, t: Transaction, me_: str) -> Any:
        new = lambda row: row._replace(expires_at=self.clock(t) + row.ttl_us)  # noqa: E731
        return self.change(t, "session", [me_], lambda row: True, new)

    return swap(Database, "renew", renew)


def guard_locks_nothing() -> list[Any]:
    def guard(self: Any, t: Transaction, queue_: str, token_: int, me_: str) -> Any:
        one = t.get("contender", (queue_, token_))
        return [(one.token, one.mark)] if one is not None and one.session == me_ else []

    return swap(Database, "guard", guard)


def rewrite_compares_no_version() -> list[Any]:
    def rewrite(self: Any, t: Transaction, queue_: str, me_: str, token_: int, **row: Any) -> Any:
        one = t.get("contender", (queue_, token_))
        row["version_"] = None if one is None else one.version
        return original(self, t, queue_, me_, token_=token_, **row)

    original = Database.rewrite
    return swap(Database, "rewrite", rewrite)


def join_looks_for_no_tombstone() -> list[Any]:
    def joined(self: Any, t: Transaction, queue_: str, me_: str, **row: Any) -> int:
        grave = "buried", row["id_"]
        written, t.wrote = t.wrote, t.wrote | {grave: None}
        try:
            return original(self, t, queue_, me_, **row)
        finally:
            written |= {key: said for key, said in t.wrote.items() if key != grave}
            t.wrote = written

    original = Database._joined
    return swap(Database, "_joined", joined)


def sessions_are_not_looked_at_by_writes() -> list[Any]:
    """A late copy lands after the session has ended."""
    return swap(Database, "stays", lambda self, t, me_: [(me_,)])


# Acts.


def dead_ones_are_passed_over() -> list[Any]:
    """By time alone: their rows stay, and their sessions may be renewed."""

    def living(self: Any, work: Any, *words: Any) -> Any:
        rows: Sequence[Any] = words[-1]
        seen = [Seen(*row) for row in rows]
        return [*seen[:1], *(other for other in seen[1:] if not other.over)]
        yield

    return swap(Acts, "_living", living)


def dead_ones_are_not_killed() -> list[Any]:
    """The session stays as it is, and may be renewed beside it."""

    def sweep(self: Any, work: Any, name: str, seen: Sequence[Seen]) -> Any:
        dead = [one.session for one in seen if one.over]
        if not dead:
            return False
        (tokens,) = yield (self._say.free(name, dead),)
        yield from self._delete(work, name, [token for (token,) in tokens])
        return bool(tokens)

    return swap(Acts, "_sweep", sweep)


def dead_ones_stand() -> list[Any]:
    def sweep(self: Any, work: Any, name: str, seen: Sequence[Seen]) -> Any:
        return False
        yield

    return swap(Acts, "_sweep", sweep)


def dead_ones_are_deleted_while_it_takes_over() -> list[Any]:
    """The standby may lack their last renewals."""

    def sweep(self: Any, work: Any, *words: Any) -> Any:
        until_us, work.starting_until_us = work.starting_until_us, 0
        try:
            return (yield from original(self, work, *words))
        finally:
            work.starting_until_us = until_us

    original = Acts._sweep
    return swap(Acts, "_sweep", sweep)


def grants_after_a_failover_at_once() -> list[Any]:
    return swap(Acts, "_expect_started", lambda self, work, seen: None)


def servers_are_not_compared() -> list[Any]:
    """What a connection has learned counts, though a proxy leads it to a server that took over."""
    return swap(acts, "expect_same", lambda work, server: None)


def nothing_is_buried() -> list[Any]:
    original = Acts.remove
    return swap(
        Acts,
        "remove",
        lambda self, work, queue, one, token, bury: original(self, work, queue, one, token, bury=False),
    )


def going_rings_nobody() -> list[Any]:
    def ring(self: Any, work: Any, name: str, tokens: list[int], what: Any) -> Any:
        return
        yield

    return swap(Acts, "_ring", ring)


def looks_without_the_lock() -> list[Any]:
    """What goes between the look and the commit of the watch is missed."""

    def look(self: Any, work: Any, mine: Any, rule: Any, targets: Any) -> Any:
        steps = original(self, work, mine, rule, targets)
        next(steps)  # the lock
        return (yield from _from(steps, [1]))

    original = Acts.look
    return swap(Acts, "look", look)


def _from(steps: Any, replies: Any) -> Any:
    try:
        while True:
            replies = yield steps.send(replies)
    except StopIteration as done:
        return done.value


def watches_values_without_the_lock() -> list[Any]:
    def read(self: Any, work: Any, key: str, *, watch: bool) -> Any:
        steps = original(self, work, key, watch=watch)
        asks = next(steps)
        if not watch or not self._say.notifies:
            return (yield from _from_first(steps, asks))
        replies = yield asks[1:]
        return (yield from _from(steps, [1, *replies]))

    original = Acts.read
    return swap(Acts, "read", read)


def _from_first(steps: Any, asks: Any) -> Any:
    return (yield from _from(steps, (yield asks)))


def a_try_is_not_undone() -> list[Any]:
    def join(self: Any, work: Any, *words: Any, **more: Any) -> Any:
        found = yield from original(self, work, *words, **more)
        work.undo = False
        return found

    original = Acts.join
    return swap(Acts, "join", join)


# The protocol.


def receipts_are_not_compared() -> list[Any]:
    return swap(
        Put,
        "fits",
        lambda self, receipt, version, *, guarded: (
            self.exchange.settles or (guarded and self.exchange.write.if_version in {None, version})
        ),
    )


def versions_are_not_compared() -> list[Any]:
    return swap(
        Put,
        "fits",
        lambda self, receipt, version, *, guarded: (
            receipt == self.exchange.expected and (self.exchange.settles or guarded)
        ),
    )


def nothing_says_when_to_look_again() -> list[Any]:
    return swap(protocol, "_timed", _never_due)


def _never_due(snapshot: Any, *, told: bool) -> Any:
    return replace(snapshot, due_s=None)


def what_was_joined_twice_is_not_buried() -> list[Any]:
    def withdraw(self: Any, op: Any, context: Any) -> Any:
        self._twice.discard(op.ticket.id)
        return original(self, op, context)

    original = SqlProtocol.withdraw
    return swap(SqlProtocol, "withdraw", withdraw)


def what_a_standby_brings_back_stands() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        self._left.clear()
        return original(self, op, context)

    original = SqlProtocol.renew
    return swap(SqlProtocol, "renew", renew)


def nothing_is_missing() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        return replace((yield from original(self, op, context)), missing=())

    original = SqlProtocol.renew
    return swap(SqlProtocol, "renew", renew)


# What listens.


def nothing_is_kept() -> list[Any]:
    original = SqlBells.listen
    return swap(
        SqlBells,
        "listen",
        lambda self, mailbox, refs, afresh=False: original(self, mailbox, refs, afresh=True),
    )


def losing_the_listener_is_not_said() -> list[Any]:
    return swap(SqlBells, "disturb", lambda self: self._kept.clear())
