"""What each request does to the tables, inside one transaction that the caller begins and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recipes.stores.sqlite.layout import Target, contender_of, target_of
from recipes.stores.sqlite.requests import (
    Ask,
    Demote,
    Evict,
    Expel,
    Finish,
    Join,
    List,
    ListQueues,
    NoSession,
    Present,
    Remove,
    Row,
    See,
    Seen,
    Standing,
    Start,
    Touch,
    Watched,
)
from recipes.stores.sqlite.work import Work

if TYPE_CHECKING:
    from recipes._contract.contenders import Ahead
    from recipes._contract.rule import Order

__all__ = ["carry_out", "writes"]

EXPIRED = "the session was not renewed in time, and has expired"
MORE_THAN_ANY = 2**63 - 1
_NEAREST = "SELECT token, id, kind, session, downgraded FROM contender WHERE queue = ? AND token < ?"
COUNT = "SELECT COUNT(*) FROM contender WHERE queue = ? AND token < ?"
COUNT_EXCLUSIVE = f"{COUNT} AND kind <> 'R'"
NEAREST = f"{_NEAREST} ORDER BY token DESC LIMIT ?"
NEAREST_EXCLUSIVE = f"{_NEAREST} AND kind <> 'R' ORDER BY token DESC LIMIT ?"


def writes(request: Ask[Any]) -> bool:
    """Whether a request needs the one place of a writer."""
    if isinstance(request, Present | See):
        return request.watches
    return not isinstance(request, Watched | List | ListQueues)


def carry_out(request: Ask[Any], work: Work) -> Any:
    """Carry out one request; raises ``NoSession`` if its session has ended.

    Who only reads listens first: no lock keeps others from writing, and what the first SELECT does not
    show has to be heard.
    """
    if writes(request):
        _expire(work)
    elif isinstance(request, See):
        for target in request.targets:
            work.listen(request.mailbox, target)
    if not isinstance(request, Start | Finish | Evict):
        _expect_session(request.session, work)
    return _ACTS[type(request)](request, work)


def _expire(work: Work) -> None:
    """End every session whose time is over, or is of another clock: whoever writes does it first."""
    over = "SELECT id FROM session WHERE expires_at <= ?1 OR expires_at > ?1 + ttl_s"
    found = work.db.execute(over, (work.now,)).fetchall()
    for (session,) in found:
        _end(session, work)


def _expect_session(session: str, work: Work) -> None:
    found = work.db.execute("SELECT expires_at FROM session WHERE id = ?", (session,)).fetchone()
    if found is None:
        raise NoSession
    if found[0] <= work.now:
        raise NoSession(EXPIRED)


def _end(session: str, work: Work) -> None:
    """Delete a session, its contenders, and what it wanted to hear of."""
    db = work.db
    db.execute("DELETE FROM session WHERE id = ?", (session,))
    standing = db.execute("SELECT queue, token FROM contender WHERE session = ?", (session,)).fetchall()
    for queue, token in standing:
        _delete(queue, token, session, work)
    db.execute("DELETE FROM watch WHERE session = ?", (session,))
    work.ended.append(session)


def _bury(work: Work, suspects: Iterable[str] = ()) -> None:
    """End the sessions whose process has died."""
    found = work.db.execute("SELECT id FROM session").fetchall()
    for session in work.dead([*suspects, *(session for (session,) in found)]):
        _end(session, work)


def _delete(queue: str, token: int, session: str, work: Work) -> bool:
    """Delete a contender of this session; whether it was there."""
    one = "DELETE FROM contender WHERE queue = ? AND token = ? AND session = ?"
    if not work.db.execute(one, (queue, token, session)).rowcount:
        return False
    work.tell(queue, token, work.gone)
    if work.gone:
        work.db.execute("DELETE FROM watch WHERE token = ?", (token,))
    return True


# The session.


def _start(request: Start, work: Work) -> None:
    _bury(work)  # some block nobody, and nobody looked
    row = (request.session, request.ttl_s, work.now + request.ttl_s)
    work.db.execute("INSERT OR REPLACE INTO session (id, ttl_s, expires_at) VALUES (?, ?, ?)", row)


def _touch(request: Touch, work: Work) -> tuple[float, frozenset[int]]:
    db, session = work.db, request.session
    ttl_s: float = db.execute("SELECT ttl_s FROM session WHERE id = ?", (session,)).fetchone()[0]
    db.execute("UPDATE session SET expires_at = ? WHERE id = ?", (work.now + ttl_s, session))
    return ttl_s, frozenset(target[1] for target in request.places if _owner(target, work) == session)


def _finish(request: Finish, work: Work) -> None:
    _end(request.session, work)


def _evict(request: Evict, work: Work) -> None:
    _bury(work, request.suspects)  # where one has died others may have, in the same queue


# The queue.


def _join(request: Join, work: Work) -> Seen | None:
    order, mailbox = request.order, request.mailbox
    own = _token_of(request.queue, request.id, request.session, work) if request.again else None
    ahead = _living(request.queue, own, order, work)
    if own is None:
        if request.only_free and order.blockers(ahead):
            return None
        own = _insert(request, work)
    if mailbox is None:
        return _seen((request.queue, own), ahead, order, work)
    shown = ahead[: order.reach]
    targets, later = _of_others(order.targets(shown), request), _of_others(order.blockers(shown), request)
    for ref in targets:
        _arm(target_of(ref), own, request, work)
    for ref in later:  # who steps up finds this done, and has nothing to write
        _want(target_of(ref), own, request, work)
    seen = _seen((request.queue, own), ahead, order, work)
    return replace(seen, armed=targets, known=(*targets, *later))


def _of_others(ahead: Ahead, request: Join) -> tuple[str, ...]:
    """Return the references of these, but for the client's own: they tell it themselves."""
    return tuple(contender.ref for contender in ahead if contender.session != request.session)


def _token_of(queue: str, contender_id: str, session: str, work: Work) -> int | None:
    """Return the token of an attempt whose reply was lost, if it stands."""
    found = work.db.execute(
        "SELECT token FROM contender WHERE queue = ? AND id = ? AND session = ?",
        (queue, contender_id, session),
    ).fetchone()
    return None if found is None else int(found[0])


def _insert(request: Join, work: Work) -> int:
    db = work.db
    db.execute("UPDATE machine SET token = token + 1")
    token: int = db.execute("SELECT token FROM machine").fetchone()[0]
    row = (request.queue, token, request.id, request.kind, request.session, request.note)
    db.execute("INSERT INTO contender (queue, token, id, kind, session, note) VALUES (?, ?, ?, ?, ?, ?)", row)
    return token


def _living(queue: str, before: int | None, order: Order, work: Work) -> Ahead:
    """Return the nearest that count; sessions among them whose process has died are ended first."""
    while True:
        ahead = _nearest(queue, before, order, work)
        dead = work.dead([contender.session for contender in ahead]) if order.blockers(ahead) else []
        if not dead:
            return ahead
        for session in dead:
            _end(session, work)


def _nearest(queue: str, before: int | None, order: Order, work: Work) -> Ahead:
    """Return the nearest rows that count, one more than a bounded read has to show."""
    before = MORE_THAN_ANY if before is None else before
    sql = NEAREST_EXCLUSIVE if order.exclusive_only else NEAREST
    found = work.db.execute(sql, (queue, before, order.reach + 1)).fetchall()
    return tuple(contender_of(queue, row) for row in found)


def _seen(own: Target, ahead: Ahead, order: Order, work: Work) -> Seen:
    complete = len(ahead) <= order.reach
    position = len(ahead)
    if not complete:
        counting = COUNT_EXCLUSIVE if order.exclusive_only else COUNT
        position = work.db.execute(counting, own).fetchone()[0]
    return Seen(own[1], ahead[: order.reach], complete, position)


def _see(request: See, work: Work) -> Seen:
    queue, token, order = request.queue, request.token, request.order
    if _owner((queue, token), work) != request.session:
        return Seen(None)
    if not request.watches:
        return _seen((queue, token), _nearest(queue, token, order, work), order, work)
    ahead = _living(queue, token, order, work)
    for target in request.targets:
        if _owner(target, work) is not None:
            _arm(target, token, request, work)
    return _seen((queue, token), ahead, order, work)


def _present(request: Present, work: Work) -> frozenset[int]:
    standing = [target for target in request.targets if _as_seen(target, request, work)]
    if request.watches:
        for target in standing:
            _arm(target, request.mine[1], request, work)
    if _owner(request.mine, work) == request.session:
        standing.append(request.mine)
    return frozenset(token for _, token in standing)


def _as_seen(target: Target, request: Present, work: Work) -> bool:
    state = "SELECT downgraded FROM contender WHERE queue = ? AND token = ?"
    found = work.db.execute(state, target).fetchone()
    if found is None or request.downgraded is None:
        return found is not None
    return bool(found[0]) == (target[1] in request.downgraded)


def _watched(request: Watched, work: Work) -> Standing:
    state = "SELECT session, downgraded FROM contender WHERE queue = ? AND token = ?"
    found = {target: work.db.execute(state, target).fetchone() for target in request.targets}
    due = work.db.execute("SELECT EXISTS (SELECT 1 FROM session WHERE expires_at <= ?)", (work.now,))
    return Standing(
        {target: row[0] for target, row in found.items() if row is not None},
        frozenset(target for target, row in found.items() if row is not None and row[1]),
        bool(due.fetchone()[0]),
    )


def _remove(request: Remove, work: Work) -> bool:
    token = request.token
    if token is None:
        token = _token_of(request.queue, request.id, request.session, work)
    return token is not None and _delete(request.queue, token, request.session, work)


def _expel(request: Expel, work: Work) -> bool:
    owner = _owner((request.queue, request.token), work)
    return owner is not None and _delete(request.queue, request.token, owner, work)


def _demote(request: Demote, work: Work) -> bool:
    queue, token = request.queue, request.token
    mark = "UPDATE contender SET downgraded = 1 WHERE queue = ? AND token = ? AND session = ?"
    if not work.db.execute(mark, (queue, token, request.session)).rowcount:
        return False
    work.tell(queue, token, work.changed)
    return True


def _list(request: List, work: Work) -> tuple[Row, ...]:
    columns = "token, id, kind, session, downgraded, note"
    first = f"SELECT {columns} FROM contender WHERE queue = ? ORDER BY token LIMIT ?"  # noqa: S608 - constants
    return tuple(work.db.execute(first, (request.queue, request.most)).fetchall())


def _list_queues(request: ListQueues, work: Work) -> tuple[str, ...]:
    found = work.db.execute("SELECT DISTINCT queue FROM contender ORDER BY queue LIMIT ?", (request.most,))
    return tuple(name for (name,) in found.fetchall())


def _owner(target: Target, work: Work) -> str | None:
    """Return whose contender this is; None if it does not stand."""
    found = work.db.execute("SELECT session FROM contender WHERE queue = ? AND token = ?", target).fetchone()
    return None if found is None else str(found[0])


def _arm(target: Target, waiter: int, request: Join | See | Present, work: Work) -> None:
    """Watch a contender: note here who hears of it, and in the file that this session does."""
    assert request.mailbox is not None, "somebody should want to hear"
    work.listen(request.mailbox, target)
    _want(target, waiter, request, work)


def _want(target: Target, waiter: int, request: Join | See | Present, work: Work) -> None:
    row = (target[1], request.session, waiter)
    work.db.execute("INSERT OR IGNORE INTO watch (token, session, waiter) VALUES (?, ?, ?)", row)


_ACTS: dict[type[Ask[Any]], Callable[[Any, Work], Any]] = {
    Start: _start,
    Touch: _touch,
    Finish: _finish,
    Evict: _evict,
    Join: _join,
    See: _see,
    Present: _present,
    Watched: _watched,
    Remove: _remove,
    Expel: _expel,
    Demote: _demote,
    List: _list,
    ListQueues: _list_queues,
}
