"""The statements, each once for all databases; what an act is made of.

Names in them: ``queue`` and ``name`` are keys, ``me`` is the session that asks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    String,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import mysql, postgresql

from recipes.stores.sql.requests import Ask
from recipes.stores.sql.tables import OBSERVERS, Clock, Server, Tables, tables_of

__all__ = ["Statements"]


def _given(name: str) -> Any:
    """Return a parameter; SQLAlchemy keeps the plain names for columns."""
    return bindparam(f"{name}_")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_": value for name, value in row.items()}


class Statements:
    """All statements, for one set of tables and one dialect; each method binds the values of one.

    Args:
        tables: The tables.
        dialect: "postgresql", or "mysql", which MariaDB is too.

    Attributes:
        dialect: As given.
        notifies: Whether the server can notify sessions.
    """

    def __init__(self, tables: Tables, dialect: str) -> None:
        self.tables, self.dialect = tables, dialect
        self.notifies = dialect == "postgresql"
        self._insert: Any = postgresql.insert if self.notifies else mysql.insert
        self._make_queue()
        self._make_sessions()
        self._make_contenders()
        self._make_values()
        self._make_tidying()

    @staticmethod
    @lru_cache(maxsize=32)
    def of(prefix: str, dialect: str) -> Statements:
        """Return those for the tables of a prefix, made once; ValueError if none can have it."""
        return Statements(tables_of(prefix), dialect)

    # The order of all acts on a queue, and its tokens.

    def _make_queue(self) -> None:
        queue, named, server = self.tables.queue, self.tables.named, self.tables.server
        self._lock = self._upsert(queue, {"name": _given("queue"), "token": 0}, {"token": queue.c.token})
        self._draw, self._draw_named = (
            self._upsert(table, {"name": _given("queue"), "token": Clock()}, {"token": self._next(table)})
            for table in (queue, named)
        )
        self._token = select(queue.c.token).where(queue.c.name == _given("queue"))
        self._token_named = select(named.c.token).where(named.c.name == _given("queue"))
        self._first_life = self._upsert(
            server,
            {
                "only_row": 1,
                "life": _given("life"),
                "since_us": 0,
                "grace_us": _given("grace_us"),
                "tidied_to": "",
            },
            {"life": server.c.life},
        )
        self._life = select(
            server.c.life,
            server.c.since_us,
            server.c.grace_us,
            Clock().label("now"),
            self._here().label("server"),
        )
        self._next_life = (
            update(server).where(server.c.only_row == 1).values(life=_given("life"), since_us=Clock())
        )

    def _here(self) -> Server:
        """Return what says which server this is."""
        server = self.tables.server
        note = func.concat_ws(literal_column("'/'"), server.c.life, server.c.since_us)
        noted = select(note).where(server.c.only_row == literal_column("1")).correlate(None)
        return Server(noted.scalar_subquery())

    def _only(self) -> Any:
        """Return one row, to join others to: so something says which server it is where there are none."""
        return select(literal_column("1").label("one")).subquery("only")

    def _next(self, table: Any) -> Any:
        """Return a token that is larger than any before, also after a failover that lost some."""
        return func.greatest(table.c.token + 1, Clock())

    def _upsert(self, table: Any, row: dict[str, Any], then: dict[str, Any]) -> Any:
        made = self._insert(table).values(row)
        if self.notifies:
            return made.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=then)
        return made.on_duplicate_key_update(then)

    def lock(self, queue: str) -> Ask:
        """Wait until no other act is under way on this queue; the first statement of each act."""
        return Ask(self._lock, {"queue_": queue})

    def draw(self, queue: str) -> Ask:
        """Do as `lock` does, and draw the next token."""
        return Ask(self._draw, {"queue_": queue})

    def token(self, queue: str) -> Ask:
        """Read the token that was drawn last."""
        return Ask(self._token, {"queue_": queue})

    def draw_named(self, name: str) -> Ask:
        """Lock the row of a name for the rest of the transaction, and draw its next token."""
        return Ask(self._draw_named, {"queue_": name})

    def token_named(self, name: str) -> Ask:
        """Read the token of a name."""
        return Ask(self._token_named, {"queue_": name})

    def first_life(self, life: str, grace_us: int) -> Ask:
        """Note which server this is, unless one is noted; locks that row."""
        return Ask(self._first_life, {"life_": life, "grace_us_": grace_us})

    def life(self) -> Ask:
        """Read which server is noted, since when, the grace of all, the time, and which server this is."""
        return Ask(self._life, {})

    def next_life(self, life: str) -> Ask:
        """Note that it is another server, since now."""
        return Ask(self._next_life, {"life_": life})

    # Sessions.

    def _make_sessions(self) -> None:
        session, contender, receipt = self.tables.session, self.tables.contender, self.tables.receipt
        mine = session.c.id == _given("me")
        self._begin_session = self._upsert(
            session,
            {"id": _given("me"), "ttl_us": _given("ttl_us"), "expires_at": Clock() + _given("ttl_us")},
            {"ttl_us": _given("ttl_us")},
        )
        self._renew = (
            update(session)
            .where(mine, session.c.expires_at > Clock())
            .values(expires_at=Clock() + session.c.ttl_us)
        )
        self._mine = select(contender.c.queue, contender.c.token, contender.c.id).where(
            contender.c.session == _given("me")
        )
        self._end_session = delete(session).where(mine)
        self._end_receipts = delete(receipt).where(receipt.c.session == _given("me"))
        self._begun = select(session.c.id).where(mine)
        self._alive = select(session.c.id).where(mine, session.c.expires_at > Clock())
        lives = self._only().outerjoin(session, and_(mine, session.c.expires_at > Clock()))
        self._lives_here = select(session.c.id, self._here().label("server")).select_from(lives)
        self._stays = self._alive.with_for_update(read=True, key_share=True)
        over = session.c.id.in_(bindparam("ids_", expanding=True))
        self._dead = (
            select(session.c.id)
            .where(over, session.c.expires_at <= Clock())
            .with_for_update(skip_locked=True)
        )
        self._kill = update(session).where(over).values(expires_at=-func.abs(session.c.expires_at))

    def begin_session(self, me: str, ttl_us: int) -> Ask:
        """Begin a session."""
        return Ask(self._begin_session, {"me_": me, "ttl_us_": ttl_us})

    def renew(self, me: str) -> Ask:
        """Renew a session that is not over."""
        return Ask(self._renew, {"me_": me})

    def mine(self, me: str) -> Ask:
        """Read where a session stands."""
        return Ask(self._mine, {"me_": me})

    def end_session(self, me: str) -> tuple[Ask, ...]:
        """Delete a session and its receipts."""
        return Ask(self._end_session, {"me_": me}), Ask(self._end_receipts, {"me_": me})

    def alive(self, me: str) -> Ask:
        """Read whether a session lives."""
        return Ask(self._alive, {"me_": me})

    def lives_here(self, me: str) -> Ask:
        """Read the session if it lives, else nothing, and which server this is; always one row."""
        return Ask(self._lives_here, {"me_": me})

    def stays(self, me: str) -> Ask:
        """Read whether a session lives; it is not deleted until the transaction ends."""
        return Ask(self._stays, {"me_": me})

    def begun(self, me: str) -> Ask:
        """Read whether a session was begun here, dead or alive."""
        return Ask(self._begun, {"me_": me})

    def dead(self, ids: list[str]) -> Ask:
        """Lock, and return, those of these sessions that are over, but for those that somebody has locked."""
        return Ask(self._dead, {"ids_": ids})

    def kill(self, ids: list[str]) -> Ask:
        """Have these sessions be dead for good; they stay for a guard, which tells them from unknown ones."""
        return Ask(self._kill, {"ids_": ids})

    # Contenders.

    def _make_contenders(self) -> None:
        queue, session, contender, buried = (
            self.tables.queue,
            self.tables.session,
            self.tables.contender,
            self.tables.buried,
        )
        there = contender.c.queue == _given("queue")
        same = and_(there, contender.c.id == _given("id"))
        given = ("id", "kind", "session", "mark", "owner", "data")
        row = [
            bindparam("me_" if one == "session" else f"{one}_", type_=contender.c[one].type) for one in given
        ]
        drawn = queue.join(session, session.c.id == _given("me"))
        fresh = select(queue.c.name, queue.c.token, *row, literal(0, BigInteger)).select_from(drawn)
        fresh = fresh.where(
            queue.c.name == _given("queue"),
            session.c.expires_at > Clock(),
            ~exists().where(buried.c.id == _given("id")),
        )
        self._join, self._join_alone = (
            insert(contender).from_select(["queue", "token", *given, "version"], fresh.where(*only))
            for only in (
                [~exists().where(same)],
                [~exists().where(there), self._here() == _given("server")],
            )
        )
        self._buried = select(buried.c.id).where(buried.c.id == _given("id"))
        self._bury = self._upsert(
            buried,
            {"id": _given("id"), "until_us": Clock() + _given("for_us")},
            {"until_us": buried.c.until_us},
        )
        own = select(contender.c.token).where(same).scalar_subquery()
        seen = (
            contender.c.token,
            contender.c.kind,
            contender.c.session,
            contender.c.id,
            contender.c.mark,
            contender.c.version,
            session.c.expires_at,
            Clock().label("now"),
            self._here().label("server"),
        )
        beside = contender.outerjoin(session, session.c.id == contender.c.session)
        some = select(*seen).select_from(beside).where(there).limit(_given("most"))
        shown = some.order_by(contender.c.token.desc()).where(contender.c.token <= own)
        counts = or_(contender.c.kind != "R", contender.c.id == _given("id"))
        self._shown = {False: shown, True: shown.where(counts)}
        before = select(func.count()).where(there, contender.c.token < _given("token"))
        self._count = {False: before, True: before.where(contender.c.kind != "R")}
        self._head = some.add_columns(contender.c.owner, contender.c.data).order_by(contender.c.token)
        one = and_(there, contender.c.token == _given("token"))
        tokens = contender.c.token.in_(bindparam("tokens_", expanding=True))
        found = self._only().outerjoin(contender, and_(there, tokens))
        self._some = select(*seen).select_from(found.outerjoin(session, session.c.id == contender.c.session))
        self._free = (
            select(contender.c.token)
            .where(there, contender.c.session.in_(bindparam("ids_", expanding=True)))
            .with_for_update(skip_locked=True)
        )
        self._delete = delete(contender).where(there, tokens)
        self._remove: Any = delete(contender).where(same, one, contender.c.session == _given("me"))
        self._find = select(contender.c.token).where(same, contender.c.session == _given("me"))
        rewritten = (
            update(contender)
            .where(one, contender.c.session == _given("me"), contender.c.version == _given("version"))
            .values(mark=_given("mark"), data=bindparam("data_", type_=contender.c.data.type))
        )
        self._rewrite = rewritten.values(version=contender.c.version + 1)
        self._written = select(contender.c.version, contender.c.mark, contender.c.data).where(
            one, contender.c.session == _given("me")
        )
        lives = session.c.expires_at > Clock()
        if self.notifies:
            # In such a transaction of PostgreSQL the session is as it was before the last renewals. But a row
            # that has changed since cannot be locked there, and nobody is let in while one is there: what
            # finds that its session is over skips it while it is locked.
            isolation = func.current_setting("transaction_isolation")
            lives = or_(lives, isolation.in_(["repeatable read", "serializable"]))
        mine = select(contender.c.token, contender.c.mark).where(one, contender.c.session == _given("me"))
        proven = exists().where(session.c.id == _given("me"), lives)
        self._guard = mine.where(proven).with_for_update(read=True)
        self._guard_alone = mine.with_for_update(read=True)
        living = select(contender.c.queue).join(session, session.c.id == contender.c.session)
        self._queues = (
            living.where(contender.c.queue >= _given("low"), contender.c.queue < _given("high"))
            .where(session.c.expires_at > Clock())
            .distinct()
            .order_by(contender.c.queue)
            .limit(_given("most"))
        )
        if self.notifies:
            self._make_watches()

    def _make_watches(self) -> None:
        watch = self.tables.watch
        queue, token, me = (
            bindparam(f"{name}_", type_=column.type)
            for name, column in (("queue", watch.c.queue), ("token", watch.c.token), ("me", watch.c.session))
        )
        contender = self.tables.contender
        stands = exists().where(contender.c.queue == queue, contender.c.token == token)
        row = select(queue, token, me).where(or_(token == literal_column(str(OBSERVERS)), stands))
        added = postgresql.insert(watch).from_select(["queue", "token", "session"], row)
        self._watch = added.on_conflict_do_nothing()
        heard, rung = self._heard()
        self._ring = select(rung).select_from(heard)
        self._join, self._join_alone, self._remove = map(
            self._ringing, (self._join, self._join_alone, self._remove)
        )
        self._notify = select(func.pg_notify(_given("channel"), _given("said")))
        self._unwatch = delete(watch).where(watch.c.session == _given("me"))

    def _heard(self, *only: Any) -> tuple[Any, Any]:
        """Return the watches that are over, and what notifies the session of one."""
        watch = self.tables.watch
        over = watch.c.token.in_(bindparam("tokens_", expanding=True))
        heard = (
            delete(watch)
            .where(watch.c.queue == _given("queue"), over, *only)
            .returning(watch.c.session, watch.c.token)
            .cte("heard")
        )
        ref = _given("queue").concat("/").concat(cast(heard.c.token, String))
        payload = case(
            (heard.c.token == OBSERVERS, literal("q").concat(_given("queue"))),
            else_=_given("what").concat(ref),
        )
        return heard, func.pg_notify(_given("bell").concat(heard.c.session), payload)

    def _ringing(self, change: Any) -> Any:
        """Return a change of contenders that also rings if it was done; its row says how many it changed."""
        done = change.returning(self.tables.contender.c.token).cte("done")
        heard, rung = self._heard(exists(select(done.c.token)))
        many = select(func.count()).select_from(done).scalar_subquery()
        return select(many, select(func.count(cast(rung, String))).select_from(heard).scalar_subquery())

    def changed(self, reply: Any) -> int:
        """Return how many contenders `join` or `remove` has changed, by its reply."""
        return reply if isinstance(reply, int) else int(reply[0][0])

    def _rings(self, bell: str, tokens: list[int], what: str) -> dict[str, Any]:
        return {"bell_": bell, "tokens_": tokens, "what_": what} if self.notifies else {}

    def join(self, queue: str, me: str, bell: str, **row: Any) -> Ask:
        """Have a contender stand with the token drawn, unless it does, is buried, or the session is over.

        Observers of the queue are notified, at the commit.
        """
        return self._joining(self._join, queue, me, bell, row)

    def join_alone(self, queue: str, me: str, bell: str, server: str | None, **row: Any) -> Ask:
        """Do the same, unless anybody is in the queue, or this is another server."""
        return self._joining(self._join_alone, queue, me, bell, {"server": server, **row})

    def _joining(self, statement: Any, queue: str, me: str, bell: str, row: dict[str, Any]) -> Ask:
        rings = self._rings(bell, [OBSERVERS], "c")
        return Ask(statement, {"queue_": queue, "me_": me, **rings, **_named(row)})

    def buried(self, one: str) -> Ask:
        """Read whether a contender must not come to stand."""
        return Ask(self._buried, {"id_": one})

    def bury(self, one: str, for_us: int) -> Ask:
        """Have a contender not come to stand any more."""
        return Ask(self._bury, {"id_": one, "for_us_": for_us})

    def shown(self, queue: str, one: str, most: int, *, exclusive_only: bool) -> Ask:
        """Read a contender and the nearest ahead of it; first itself, nothing if it does not stand."""
        return Ask(self._shown[exclusive_only], {"queue_": queue, "id_": one, "most_": most})

    def count(self, queue: str, token: int, *, exclusive_only: bool) -> Ask:
        """Read how many are ahead."""
        return Ask(self._count[exclusive_only], {"queue_": queue, "token_": token})

    def head(self, queue: str, most: int) -> Ask:
        """Read a queue from its head on."""
        return Ask(self._head, {"queue_": queue, "most_": most})

    def some(self, queue: str, tokens: list[int]) -> Ask:
        """Read these contenders; where there are none, a row that only says which server this is."""
        return Ask(self._some, {"queue_": queue, "tokens_": tokens})

    def free(self, queue: str, ids: list[str]) -> Ask:
        """Lock, and return, the contenders of these sessions, but for those that a guard has locked."""
        return Ask(self._free, {"queue_": queue, "ids_": ids})

    def delete(self, queue: str, tokens: list[int]) -> Ask:
        """Delete these contenders."""
        return Ask(self._delete, {"queue_": queue, "tokens_": tokens})

    def remove(self, queue: str, one: str, me: str, bell: str, token: int) -> Ask:
        """Delete the own contender, and notify, at the commit, all that watch it or the queue."""
        rings = self._rings(bell, [token, OBSERVERS], "g")
        return Ask(self._remove, {"queue_": queue, "id_": one, "me_": me, "token_": token, **rings})

    def find(self, queue: str, one: str, me: str) -> Ask:
        """Read the token of the own contender."""
        return Ask(self._find, {"queue_": queue, "id_": one, "me_": me})

    def rewrite(self, queue: str, me: str, **row: Any) -> Ask:
        """Write mark and data of the own contender, if it has this version."""
        return Ask(self._rewrite, {"queue_": queue, "me_": me, **_named(row)})

    def written(self, queue: str, token: int, me: str) -> Ask:
        """Read version, mark and data of the own contender."""
        return Ask(self._written, {"queue_": queue, "token_": token, "me_": me})

    def guard(self, queue: str, token: int, me: str, *, alone: bool = False) -> Ask:
        """Read the own contender if it stands and its session lives; it stands until the transaction ends.

        Args:
            queue: Where it stands.
            token: Its token.
            me: Its session.
            alone: The session is not read. A SERIALIZABLE transaction of MySQL would keep it from renewals.
                Nobody is let in while a contender is there, and one that is locked is not deleted.
        """
        return Ask(self._guard_alone if alone else self._guard, {"queue_": queue, "token_": token, "me_": me})

    def queues(self, low: str, high: str, most: int) -> Ask:
        """Read the keys of queues in which a living session stands."""
        return Ask(self._queues, {"low_": low, "high_": high, "most_": most})

    def watch(self, queue: str, token: int, me: str) -> Ask:
        """Have a session notified, once, of a contender that stands, or of the queue (`OBSERVERS`)."""
        return Ask(self._watch, {"queue_": queue, "token_": token, "me_": me})

    def ring(self, bell: str, queue: str, tokens: list[int], what: str) -> Ask:
        """Notify, at the commit, all that watch these."""
        return Ask(self._ring, {"bell_": bell, "queue_": queue, "tokens_": tokens, "what_": what})

    def notify(self, channel: str, said: str) -> Ask:
        """Notify one channel, at the commit."""
        return Ask(self._notify, {"channel_": channel, "said_": said})

    def unwatch(self, me: str) -> Ask:
        """Have a session notified of nothing any more."""
        return Ask(self._unwatch, {"me_": me})

    # Values.

    def _make_values(self) -> None:
        value, receipt = self.tables.value, self.tables.receipt
        there = value.c.name == _given("queue")
        data, said = (bindparam(f"{one}_", type_=value.c.data.type) for one in ("data", "said"))
        row = self._only().outerjoin(value, there)
        self._read = select(value.c.data, value.c.version, self._here().label("server")).select_from(row)
        self._version = select(value.c.version).where(there)
        self._set = self._upsert(
            value,
            {"name": _given("queue"), "version": _given("version"), "data": data},
            {"version": _given("version"), "data": data},
        )
        self._erase = delete(value).where(there)
        self._said = select(receipt.c.version, receipt.c.said).where(
            receipt.c.session == _given("me"), receipt.c.name == _given("queue")
        )
        self._say = self._upsert(
            receipt,
            {"session": _given("me"), "name": _given("queue"), "version": _given("version"), "said": said},
            {"version": _given("version"), "said": said},
        )

    def read(self, name: str) -> Ask:
        """Read a value and its version, nothing twice if there is none, and which server this is."""
        return Ask(self._read, {"queue_": name})

    def version(self, name: str) -> Ask:
        """Read the version of a value."""
        return Ask(self._version, {"queue_": name})

    def set(self, name: str, version: int, data: bytes) -> Ask:
        """Write a value."""
        return Ask(self._set, {"queue_": name, "version_": version, "data_": data})

    def erase(self, name: str) -> Ask:
        """Delete a value."""
        return Ask(self._erase, {"queue_": name})

    def said(self, name: str, me: str) -> Ask:
        """Read a receipt."""
        return Ask(self._said, {"queue_": name, "me_": me})

    def say(self, name: str, me: str, version: int, said: bytes) -> Ask:
        """Write a receipt."""
        return Ask(self._say, {"queue_": name, "me_": me, "version_": version, "said_": said})

    # What is over for long.

    def _make_tidying(self) -> None:
        tables = self.tables
        queue, session, contender, buried, value = (
            tables.queue,
            tables.session,
            tables.contender,
            tables.buried,
            tables.value,
        )
        ids: Any = bindparam("ids_", expanding=True)
        names: Any = bindparam("names_", expanding=True)
        long_ago = Clock() - _given("past_us")
        expired_at = func.abs(session.c.expires_at)
        self._stale = select(session.c.id).where(expired_at < long_ago).limit(_given("most"))
        self._where = select(contender.c.queue, contender.c.token).where(contender.c.session.in_(ids))
        watches = [tables.watch.c.session] if self.notifies else []
        theirs = [tables.receipt.c.session, *watches, session.c.id]
        self._forget = [delete(one.table).where(one.in_(ids)) for one in theirs]
        receipt = tables.receipt
        own = receipt.c.session == _given("me")
        self._old_receipts = (
            select(receipt.c.name, receipt.c.version)
            .where(own, receipt.c.version < long_ago)
            .limit(_given("most"))
        )
        self._drop_receipts = delete(receipt).where(
            own, receipt.c.name.in_(names), receipt.c.version <= _given("version")
        )
        self._old_graves = select(buried.c.id).where(buried.c.until_us < Clock()).limit(_given("most"))
        self._dig = delete(buried).where(buried.c.id.in_(ids))
        self._tidied_to = select(tables.server.c.tidied_to).with_for_update(skip_locked=True)
        self._names = (
            select(queue.c.name)
            .where(queue.c.name > _given("queue"))
            .order_by(queue.c.name)
            .limit(_given("most"))
        )
        idle = and_(
            queue.c.name.in_(names),
            queue.c.token < long_ago,
            ~exists().where(contender.c.queue == queue.c.name),
            ~exists().where(value.c.name == queue.c.name),
        )
        self._idle = select(queue.c.name).where(idle).with_for_update(skip_locked=True)
        # With the rest of the condition in it, MySQL would lock what it reads of the other tables.
        self._drop_idle = delete(queue).where(queue.c.name.in_(names))
        server = tables.server
        self._tidy_to = update(server).where(server.c.only_row == 1).values(tidied_to=_given("queue"))

    def stale(self, most: int, past_us: int) -> Ask:
        """Read sessions that were over long ago."""
        return Ask(self._stale, {"most_": most, "past_us_": past_us})

    def where(self, ids: list[str]) -> Ask:
        """Read where these sessions stand."""
        return Ask(self._where, {"ids_": ids})

    def forget(self, ids: list[str]) -> tuple[Ask, ...]:
        """Delete sessions that are dead for good, and their receipts and watches."""
        return tuple(Ask(one, {"ids_": ids}) for one in self._forget)

    def old_receipts(self, me: str, most: int, past_us: int) -> Ask:
        """Read which receipts of a session were written long ago, and their versions."""
        return Ask(self._old_receipts, {"me_": me, "most_": most, "past_us_": past_us})

    def drop_receipts(self, me: str, names: list[str], version: int) -> Ask:
        """Delete these receipts of a session if they have this version, or an earlier one."""
        return Ask(self._drop_receipts, {"me_": me, "names_": names, "version_": version})

    def old_graves(self, most: int) -> Ask:
        """Read tombstones that are over."""
        return Ask(self._old_graves, {"most_": most})

    def dig(self, ids: list[str]) -> Ask:
        """Delete tombstones."""
        return Ask(self._dig, {"ids_": ids})

    def tidied_to(self) -> Ask:
        """Lock the place up to which idle queues were tidied; nothing if another session is at it."""
        return Ask(self._tidied_to, {})

    def names(self, after: str, most: int) -> Ask:
        """Read the keys of the queues behind one."""
        return Ask(self._names, {"queue_": after, "most_": most})

    def idle(self, names: list[str], past_us: int) -> Ask:
        """Lock, and return, those of these queues that were used long ago and by nobody now."""
        return Ask(self._idle, {"names_": names, "past_us_": past_us})

    def drop_idle(self, names: list[str]) -> Ask:
        """Delete these, which are locked and still idle."""
        return Ask(self._drop_idle, {"names_": names})

    def tidy_to(self, name: str) -> Ask:
        """Note up to where idle queues were tidied."""
        return Ask(self._tidy_to, {"queue_": name})
