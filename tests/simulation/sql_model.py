"""A model of a SQL database: rows, locks, transactions under READ COMMITTED, and what it notifies.

A statement sees what was committed when it began. One that has to wait for a row goes on with the newest
version of that row, and with all others as they were; so PostgreSQL says of READ COMMITTED.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from recipes.stores.sql.requests import Ask
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import OBSERVERS, Tables

__all__ = ["Contender", "Database", "Deadlock", "Duplicate", "Session", "Transaction"]

TABLES = ("queue", "session", "contender", "watch", "buried", "value", "receipt", "server")
UNLOGGED = "watch"
KEYS = "session keys"
"""Not a table: locks on the keys of sessions, which exclude that they are deleted."""
Row = tuple[str, Any]
"""A table, and the key of a row in it."""
Waiting = Generator[set["Transaction"], None, Any]
"""A statement that may wait: it yields those that hold what it needs."""


class Deadlock(Exception):
    """Nothing was done: each of some transactions waits for the next."""


class Duplicate(Exception):
    """There is a row with this key."""


class Session(NamedTuple):
    """Until when a session lives."""

    ttl_us: int
    expires_at: int


class Contender(NamedTuple):
    """A row of a contender."""

    queue: str
    token: int
    id: str
    kind: str
    session: str
    mark: str
    owner: str
    data: bytes
    version: int


class Server(NamedTuple):
    """The row of the server."""

    life: str
    since_us: int
    grace_us: int
    tidied_to: str


class Transaction:
    """What one transaction sees, and what it has written and locked.

    Attributes:
        seen: What its statement sees, where that is not what is committed now.
        began_us: When its statement began.
        waits: For which others it waits.
        over: It was committed, or rolled back.
    """

    __slots__ = ("began_us", "db", "gate", "holds", "notices", "over", "seen", "touched_at", "waits", "wrote")

    def __init__(self, db: Database) -> None:
        self.db = db
        self.wrote: dict[Row, Any] = {}
        self.holds: set[Row] = set()
        self.notices: list[tuple[str, str]] = []
        self.seen: dict[str, dict[Any, Any]] | None = None
        self.waits: set[Transaction] = set()
        self.began_us = 0
        self.over = False
        self.gate: Any = None
        self.touched_at = 0.0

    def get(self, table: str, key: Any) -> Any:
        """Return a row as this statement sees it."""
        if (table, key) in self.wrote:
            return self.wrote[table, key]
        return (self.seen or self.db.tables)[table].get(key)

    def newest(self, table: str, key: Any) -> Any:
        """Return a row that this transaction has locked, as it is."""
        if (table, key) in self.wrote:
            return self.wrote[table, key]
        return self.db.tables[table].get(key)

    def all(self, table: str) -> dict[Any, Any]:
        """Return all rows of a table, as this statement sees them."""
        found = (self.seen or self.db.tables)[table]
        own = {key: row for (name, key), row in self.wrote.items() if name == table}
        if not own:
            return found
        return {key: row for key, row in (found | own).items() if row is not None}

    def put(self, table: str, key: Any, row: Any) -> None:
        self.wrote[table, key] = row


class Database:
    """One server, and the log of what was committed.

    Args:
        now_us: The server's clock.
        notifies: It is PostgreSQL; else MySQL, whose clock stands still during a statement, and whose
            statements that lock read what is committed now.
        log: What was committed before, by the server that this one takes over from.
        life: Which server it is.
    """

    def __init__(
        self, now_us: Callable[[], int], *, notifies: bool, life: str, log: Iterable[dict[Row, Any]] = ()
    ) -> None:
        self.now_us = now_us
        self.notifies = notifies
        self.life = life
        self.dead = False
        self.tables: dict[str, dict[Any, Any]] = {name: {} for name in TABLES}
        self.log = list(log)
        for wrote in self.log:
            self.apply({row: said for row, said in wrote.items() if row[0] != UNLOGGED})
        self.held: dict[Row, dict[Transaction, bool]] = {}
        self.open: dict[Transaction, None] = {}

    def apply(self, wrote: dict[Row, Any]) -> None:
        for (table, key), row in wrote.items():
            if row is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = row

    # Transactions.

    def begin(self) -> Transaction:
        t = Transaction(self)
        self.open[t] = None
        return t

    def commit(self, t: Transaction) -> list[tuple[str, str]]:
        """Make it so, and return what is notified."""
        assert not t.over, "what is over is not committed"
        if t.wrote:
            self.apply(t.wrote)
            self.log.append(t.wrote)
        self.end(t)
        return t.notices

    def end(self, t: Transaction) -> None:
        """Let go of all that a transaction has locked."""
        if t.over:
            return
        t.over = True
        self.open.pop(t, None)
        for row in t.holds:
            held = self.held[row]
            del held[t]
            if not held:
                del self.held[row]
        for other in self.open:
            if t in other.waits:
                other.waits = set()
                other.gate.open = True
        if t.gate is not None:
            t.gate.open = True

    # Statements.

    def begin_statement(self, t: Transaction, ask: Ask) -> Any:
        """Begin a statement: its reply, or a generator if it may wait."""
        self.look_anew(t)
        t.began_us = self.now_us()
        method, more = METHODS[id(ask.statement)]
        return getattr(self, method)(t, **ask.values, **more)

    def look_anew(self, t: Transaction) -> None:
        """Have the next statement see what is committed now."""
        t.seen = None

    def clock(self, t: Transaction) -> int:
        """Return the time, as a statement has it."""
        return self.now_us() if self.notifies else t.began_us

    def others(self, t: Transaction, row: Row, *, exclusive: bool = True) -> set[Transaction]:
        """Return those that hold a row so that this transaction cannot lock it."""
        held = self.held.get(row)
        if not held:
            return set()
        return {one for one, alone in held.items() if one is not t and (alone or exclusive)}

    def take(self, t: Transaction, row: Row, *, exclusive: bool = True) -> None:
        held = self.held.setdefault(row, {})
        held[t] = held.get(t, False) or exclusive
        t.holds.add(row)

    def lock_row(self, t: Transaction, row: Row, *, exclusive: bool = True) -> Waiting:
        """Lock a row, waiting for those that have; what this statement sees else stays as it was."""
        while others := self.others(t, row, exclusive=exclusive):
            if t.seen is None:
                t.seen = {name: dict(rows) for name, rows in self.tables.items()}
            if any(self.leads_to(other, t) for other in others):
                raise Deadlock
            yield others
        if not self.notifies:
            self.look_anew(t)
        self.take(t, row, exclusive=exclusive)

    def leads_to(self, one: Transaction, other: Transaction) -> bool:
        """Whether one transaction waits for another, or for one that does."""
        return one is other or any(self.leads_to(next_, other) for next_ in one.waits)

    def upsert(
        self, t: Transaction, table: str, key: Any, row: Callable[[], Any], then: Callable[[Any], Any]
    ) -> Waiting:
        yield from self.lock_row(t, (table, key))
        there = t.newest(table, key)
        t.put(table, key, row() if there is None else then(there))
        return 1

    def change(
        self,
        t: Transaction,
        table: str,
        keys: Iterable[Any],
        fits: Callable[[Any], bool],
        new: Callable[[Any], Any],
    ) -> Waiting:
        """Update or delete rows that are seen, each as it is once it is locked."""
        changed = 0
        for key in keys:
            row = t.get(table, key)
            if row is None or not fits(row):
                continue
            yield from self.lock_row(t, (table, key))
            row = t.newest(table, key)
            if row is not None and fits(row):
                t.put(table, key, new(row))
                changed += 1
        return changed

    def unlocked(
        self, t: Transaction, table: str, keys: Iterable[Any], fits: Callable[[Any], bool]
    ) -> Iterator[Any]:
        """Lock rows that nobody else has locked."""
        for key in keys:
            row = t.newest(table, key)
            if row is not None and fits(row) and not self.others(t, (table, key)):
                self.take(t, (table, key))
                yield key

    # The order of all acts on a queue.

    def lock(self, t: Transaction, queue_: str) -> Waiting:
        return self.upsert(t, "queue", queue_, lambda: 0, lambda token: token)

    def draw(self, t: Transaction, queue_: str) -> Waiting:
        return self.upsert(t, "queue", queue_, lambda: self.clock(t), lambda token: self.next(t, token))

    def next(self, t: Transaction, token: int) -> int:
        return max(token + 1, self.clock(t))

    def token(self, t: Transaction, queue_: str) -> Any:
        return _one(t.get("queue", queue_))

    def first_life(self, t: Transaction, life_: str, grace_us_: int) -> Waiting:
        return self.upsert(t, "server", 1, lambda: Server(life_, 0, grace_us_, ""), lambda row: row)

    def life_(self, t: Transaction) -> Any:
        row = t.get("server", 1)
        return [] if row is None else [(row.life, row.since_us, row.grace_us, self.clock(t), self.life)]

    def takes_over(self, t: Transaction) -> bool:
        """Whether it follows another, and does not grant yet."""
        row = t.get("server", 1)
        return row is not None and row.since_us > 0 and self.clock(t) < row.since_us + row.grace_us

    def next_life(self, t: Transaction, life_: str) -> Waiting:
        new = lambda row: row._replace(life=life_, since_us=self.clock(t))  # noqa: E731
        return self.change(t, "server", [1], _any, new)

    # Sessions.

    def begin_session(self, t: Transaction, me_: str, ttl_us_: int) -> Waiting:
        new = lambda: Session(ttl_us_, self.clock(t) + ttl_us_)  # noqa: E731
        return self.upsert(t, "session", me_, new, lambda row: row._replace(ttl_us=ttl_us_))

    def renew(self, t: Transaction, me_: str) -> Waiting:
        new = lambda row: row._replace(expires_at=self.clock(t) + row.ttl_us)  # noqa: E731
        return self.change(t, "session", [me_], lambda row: self.lives(t, row), new)

    def lives(self, t: Transaction, session: Session | None) -> bool:
        return session is not None and session.expires_at > self.clock(t)

    def mine(self, t: Transaction, me_: str) -> Any:
        return [(one.queue, one.token, one.id) for one in t.all("contender").values() if one.session == me_]

    def end_session(self, t: Transaction, me_: str) -> Waiting:
        yield from self.lock_row(t, (KEYS, me_))
        return (yield from self.change(t, "session", [me_], _any, _none))

    def end_receipts(self, t: Transaction, me_: str) -> Waiting:
        keys = [key for key in t.all("receipt") if key[0] == me_]
        return self.change(t, "receipt", keys, _any, _none)

    def alive(self, t: Transaction, me_: str) -> Any:
        return [(me_,)] if self.lives(t, t.get("session", me_)) else []

    def lives_here(self, t: Transaction, me_: str) -> Any:
        return [(me_ if self.alive(t, me_) else None, self.life)]

    def stays(self, t: Transaction, me_: str) -> Waiting:
        if self.lives(t, t.get("session", me_)):
            # PostgreSQL locks the key alone, and the row may be renewed.
            table = KEYS if self.notifies else "session"
            yield from self.lock_row(t, (table, me_), exclusive=False)
        return [(me_,)] if self.lives(t, t.newest("session", me_)) else []

    def dead_(self, t: Transaction, ids_: list[str]) -> Any:
        over = lambda row: row.expires_at <= self.clock(t)  # noqa: E731
        return [(key,) for key in self.unlocked(t, "session", sorted(ids_), over)]

    def kill(self, t: Transaction, ids_: list[str]) -> Waiting:
        dead = lambda row: row._replace(expires_at=-abs(row.expires_at))  # noqa: E731
        return self.change(t, "session", sorted(ids_), _any, dead)

    # Contenders.

    def queue(self, t: Transaction, queue: str) -> list[Contender]:
        return sorted(one for one in t.all("contender").values() if one.queue == queue)

    def join(self, t: Transaction, queue_: str, me_: str, **row: Any) -> Waiting:
        rung = {name: row.pop(name) for name in ("bell_", "tokens_", "what_") if name in row}
        joined = self._joined(t, queue_, me_, **row)
        return (yield from self._rung(t, queue_, joined, rung))

    def join_alone(self, t: Transaction, queue_: str, me_: str, server_: str, **row: Any) -> Waiting:
        if self.queue(t, queue_) or server_ != self.life:
            return [(0, 0)] if "bell_" in row else 0
        return (yield from self.join(t, queue_, me_, **row))

    def _rung(self, t: Transaction, queue_: str, many: int, rung: dict[str, Any]) -> Waiting:
        """Return how many were changed, as a row where the statement also rings, which it does then."""
        if not rung:
            return many
        if many:
            yield from self.ring(t, queue_=queue_, **rung)
        return [(many, 0)]

    def _joined(self, t: Transaction, queue_: str, me_: str, **row: Any) -> int:
        token, one = t.get("queue", queue_), row["id_"]
        known = any(other.id == one for other in self.queue(t, queue_))
        if token is None or known or not self.lives(t, t.get("session", me_)) or t.get("buried", one):
            return 0
        if t.newest("contender", (queue_, token)) is not None or self.others(
            t, ("contender", (queue_, token))
        ):
            raise Duplicate
        self.take(t, ("contender", (queue_, token)))
        kind, mark, owner, data = row["kind_"], row["mark_"], row["owner_"], row["data_"]
        t.put("contender", (queue_, token), Contender(queue_, token, one, kind, me_, mark, owner, data, 0))
        return 1

    def buried(self, t: Transaction, id_: str) -> Any:
        return [(id_,)] if t.get("buried", id_) else []

    def bury(self, t: Transaction, id_: str, for_us_: int) -> Waiting:
        return self.upsert(t, "buried", id_, lambda: self.clock(t) + for_us_, lambda row: row)

    def seen(self, t: Transaction, one: Contender) -> tuple[Any, ...]:
        session = t.get("session", one.session)
        expires_at = None if session is None else session.expires_at
        now = self.clock(t)
        return one.token, one.kind, one.session, one.id, one.mark, one.version, expires_at, now, self.life

    def shown(self, t: Transaction, queue_: str, id_: str, most_: int, *, only: bool) -> Any:
        standing = self.queue(t, queue_)
        own = [one.token for one in standing if one.id == id_]
        if not own:
            return []
        found = [
            one for one in standing if one.token <= own[0] and (not only or one.kind != "R" or one.id == id_)
        ]
        return [self.seen(t, one) for one in found[::-1][:most_]]

    def count(self, t: Transaction, queue_: str, token_: int, *, only: bool) -> Any:
        standing = self.queue(t, queue_)
        return _one(sum(one.token < token_ and (not only or one.kind != "R") for one in standing))

    def head(self, t: Transaction, queue_: str, most_: int) -> Any:
        return [(*self.seen(t, one), one.owner, one.data) for one in self.queue(t, queue_)[:most_]]

    def some(self, t: Transaction, queue_: str, tokens_: list[int]) -> Any:
        # ``most_`` is not in it
        found = [self.seen(t, one) for one in self.queue(t, queue_) if one.token in tokens_]
        return found or [(*[None] * 7, self.clock(t), self.life)]

    def free(self, t: Transaction, queue_: str, ids_: list[str]) -> Any:
        keys = [(queue_, one.token) for one in self.queue(t, queue_)]
        return [(key[1],) for key in self.unlocked(t, "contender", keys, lambda row: row.session in ids_)]

    def delete(self, t: Transaction, queue_: str, tokens_: list[int]) -> Waiting:
        return self.change(t, "contender", [(queue_, one) for one in sorted(tokens_)], _any, _none)

    def own(self, t: Transaction, queue_: str, id_: str, me_: str) -> list[Contender]:
        return [one for one in self.queue(t, queue_) if one.id == id_ and one.session == me_]

    def remove(self, t: Transaction, queue_: str, id_: str, me_: str, token_: int, **rung: Any) -> Waiting:
        keys = [(queue_, one.token) for one in self.own(t, queue_, id_, me_) if one.token == token_]
        removed = yield from self.change(t, "contender", keys, _any, _none)
        return (yield from self._rung(t, queue_, removed, rung))

    def find(self, t: Transaction, queue_: str, id_: str, me_: str) -> Any:
        return [(one.token,) for one in self.own(t, queue_, id_, me_)]

    def rewrite(  # noqa: PLR0917 - as the statement has them
        self, t: Transaction, queue_: str, me_: str, token_: int, mark_: str, data_: bytes, version_: int
    ) -> Waiting:
        fits = lambda row: row.session == me_ and row.version == version_  # noqa: E731
        new = lambda row: row._replace(mark=mark_, data=data_, version=row.version + 1)  # noqa: E731
        return self.change(t, "contender", [(queue_, token_)], fits, new)

    def written(self, t: Transaction, queue_: str, token_: int, me_: str) -> Any:
        one = t.get("contender", (queue_, token_))
        return [(one.version, one.mark, one.data)] if one is not None and one.session == me_ else []

    def guard(self, t: Transaction, queue_: str, token_: int, me_: str) -> Waiting:
        row = ("contender", (queue_, token_))
        one = t.get(*row)
        if one is None or one.session != me_ or not self.lives(t, t.get("session", me_)):
            return []
        yield from self.lock_row(t, row, exclusive=False)
        one = t.newest(*row)
        if one is None or not self.lives(t, t.get("session", me_)):
            return []
        return [(one.token, one.mark)]

    def queues(self, t: Transaction, low_: str, high_: str, most_: int) -> Any:
        found = {
            one.queue
            for one in t.all("contender").values()
            if low_ <= one.queue < high_ and self.lives(t, t.get("session", one.session))
        }
        return [(name,) for name in sorted(found)[:most_]]

    # Who is notified.

    def watch(self, t: Transaction, queue_: str, token_: int, me_: str) -> Waiting:
        if token_ != OBSERVERS and t.get("contender", (queue_, token_)) is None:
            return 0
        return self.upsert(t, "watch", (queue_, token_, me_), lambda: True, lambda row: row)

    def ring(self, t: Transaction, bell_: str, queue_: str, tokens_: list[int], what_: str) -> Waiting:
        keys = sorted(key for key in t.all("watch") if key[0] == queue_ and key[1] in tokens_)
        for key in keys:
            if (yield from self.change(t, "watch", [key], _any, _none)):
                _, token, session = key
                said = f"q{queue_}" if token == OBSERVERS else f"{what_}{queue_}/{token}"
                t.notices.append((bell_ + session, said))
        return []

    def notify(self, t: Transaction, channel_: str, said_: str) -> Any:
        t.notices.append((channel_, said_))
        return []

    def unwatch(self, t: Transaction, me_: str) -> Waiting:
        keys = sorted(key for key in t.all("watch") if key[2] == me_)
        return self.change(t, "watch", keys, _any, _none)

    # Values.

    def read(self, t: Transaction, queue_: str) -> Any:
        version, data = t.get("value", queue_) or (None, None)
        return [(data, version, self.life)]

    def version(self, t: Transaction, queue_: str) -> Any:
        row = t.get("value", queue_)
        return [] if row is None else [(row[0],)]

    def set(self, t: Transaction, queue_: str, version_: int, data_: bytes) -> Waiting:
        new = (version_, data_)
        return self.upsert(t, "value", queue_, lambda: new, lambda row: new)

    def erase(self, t: Transaction, queue_: str) -> Waiting:
        return self.change(t, "value", [queue_], _any, _none)

    def said(self, t: Transaction, queue_: str, me_: str) -> Any:
        row = t.get("receipt", (me_, queue_))
        return [] if row is None else [row]

    def say(self, t: Transaction, queue_: str, me_: str, version_: int, said_: bytes) -> Waiting:
        new = (version_, said_)
        return self.upsert(t, "receipt", (me_, queue_), lambda: new, lambda row: new)

    # What is over for long.

    def stale(self, t: Transaction, most_: int, past_us_: int) -> Any:
        long_ago = self.clock(t) - past_us_
        found = sorted(key for key, row in t.all("session").items() if abs(row.expires_at) < long_ago)
        return [(key,) for key in found[:most_]]

    def where(self, t: Transaction, ids_: list[str]) -> Any:
        return [(one.queue, one.token) for one in t.all("contender").values() if one.session in ids_]

    def forget_receipts(self, t: Transaction, ids_: list[str]) -> Waiting:
        keys = sorted(key for key in t.all("receipt") if key[0] in ids_)
        return self.change(t, "receipt", keys, _any, _none)

    def forget_watches(self, t: Transaction, ids_: list[str]) -> Waiting:
        keys = sorted(key for key in t.all("watch") if key[2] in ids_)
        return self.change(t, "watch", keys, _any, _none)

    def forget_sessions(self, t: Transaction, ids_: list[str]) -> Waiting:
        return self.change(t, "session", sorted(ids_), _any, _none)

    def old_receipts(self, t: Transaction, me_: str, most_: int, past_us_: int) -> Any:
        rows, long_ago = t.all("receipt").items(), self.clock(t) - past_us_
        found = sorted((name, version) for (one, name), (version, _) in rows if one == me_)
        return [(name, version) for name, version in found if version < long_ago][:most_]

    def drop_receipts(self, t: Transaction, me_: str, names_: list[str], version_: int) -> Waiting:
        keys = [(me_, name) for name in sorted(names_)]
        return self.change(t, "receipt", keys, lambda row: row[0] <= version_, _none)

    def old_graves(self, t: Transaction, most_: int) -> Any:
        found = sorted(key for key, until in t.all("buried").items() if until < self.clock(t))
        return [(key,) for key in found[:most_]]

    def dig(self, t: Transaction, ids_: list[str]) -> Waiting:
        return self.change(t, "buried", sorted(ids_), _any, _none)

    def tidied_to(self, t: Transaction) -> Any:
        return [(t.newest("server", key).tidied_to,) for key in self.unlocked(t, "server", [1], _any)]

    def names(self, t: Transaction, queue_: str, most_: int) -> Any:
        return [(name,) for name in sorted(name for name in t.all("queue") if name > queue_)[:most_]]

    def is_idle(self, t: Transaction, name: str, past_us: int) -> bool:
        return not (
            (t.get("queue", name) or 0) >= self.clock(t) - past_us
            or self.queue(t, name)
            or t.get("value", name)
        )

    def idle(self, t: Transaction, names_: list[str], past_us_: int) -> Any:
        names = [name for name in names_ if t.get("queue", name) is not None]
        names = [name for name in names if self.is_idle(t, name, past_us_)]
        return [(name,) for name in self.unlocked(t, "queue", names, _any)]

    def drop_idle(self, t: Transaction, names_: list[str]) -> Waiting:
        return self.change(t, "queue", sorted(names_), _any, _none)

    def tidy_to(self, t: Transaction, queue_: str) -> Waiting:
        return self.change(t, "server", [1], _any, lambda row: row._replace(tidied_to=queue_))


def _any(row: Any) -> bool:
    return True


def _none(row: Any) -> None:
    """What a row that is deleted is then."""


def _one(value: Any) -> list[tuple[Any]]:
    return [] if value is None else [(value,)]


def _methods(statements: Statements) -> dict[int, tuple[str, dict[str, Any]]]:
    """Return which method answers which statement: it has the statement's name."""
    others = {"dead": "dead_", "life": "life_"}
    found: dict[int, tuple[str, dict[str, Any]]] = {}
    for name, statement in vars(statements).items():
        plain = others.get(name[1:], name[1:])
        if isinstance(statement, dict):
            found |= {id(one): (plain, {"only": only}) for only, one in statement.items()}
        elif isinstance(statement, list):
            watches = ["forget_watches"] if statements.notifies else []
            names = ["forget_receipts", *watches, "forget_sessions"]
            found |= {id(one): (which, {}) for which, one in zip(names, statement, strict=True)}
        elif hasattr(Database, plain):
            found[id(statement)] = plain, {}
    return found


STATEMENTS = {True: Statements(Tables(), "postgresql"), False: Statements(Tables(), "mysql")}
METHODS = _methods(STATEMENTS[True]) | _methods(STATEMENTS[False])
