"""Bugs to plant in the store of Redis: in what its script does, in its protocol, its bell, its servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.operations import Renewal
from recipes.stores.redis.bells import Bells
from recipes.stores.redis.protocol import RedisProtocol
from tests.simulation.acts_model import Act, Contender
from tests.simulation.bugs import swap
from tests.simulation.redis_store import Node, RedisStore

# The script, as the model has it.


def join_does_not_look_its_id_up() -> list[Any]:
    def join(self: Any, one: str, *words: Any) -> Any:
        self.queue.ids.pop(one, None)
        return original(self, one, *words)

    original = Act.join
    return swap(Act, "join", join)


def nothing_is_buried() -> list[Any]:
    original = Act.remove
    return swap(Act, "remove", lambda self, one, token, bury: original(self, one, token, 0))


def tombstone_is_not_looked_at() -> list[Any]:
    def join(self: Any, *words: Any) -> Any:
        self.acts.keys.pop(self.keys[5], None)
        return original(self, *words)

    original = Act.join
    return swap(Act, "join", join)


def going_rings_nobody() -> list[Any]:
    def tell(self: Any, what: str, said: str) -> None:
        self.queue.listening.pop(what, None)

    def remove(self: Any, *words: Any) -> Any:
        found = original(self, *words)
        self.granted.clear()
        return found

    original = Act.remove
    return [*swap(Act, "tell", tell), *swap(Act, "remove", remove)]


def grants_are_rung_to_all() -> list[Any]:
    def settle(self: Any, joined: Any = None) -> None:
        before = dict(self.granted)
        original(self, joined)
        if self.granted != before:
            for one in self.queue.standing.values():
                self.granted[one.session] += f" h{one.token}"

    original = Act.settle
    return swap(Act, "settle", settle)


def grants_while_it_starts() -> list[Any]:
    """As if nothing had been held before."""
    return swap(Node, "until_us", lambda self, now_us: 0)


def grants_after_a_failover_at_once() -> list[Any]:
    """A replica that takes over was started long ago."""
    original = Node.until_us
    return swap(Node, "until_us", lambda self, now_us: original(self, now_us) if self.since_us else 0)


def stranger_is_not_seen() -> list[Any]:
    def load(self: Any) -> None:
        original(self)
        self.foreign = None

    original = Act.load
    return swap(Act, "load", load)


def deleted_key_frees_nothing() -> list[Any]:
    """Whoever held goes on to hold, though an operator has deleted K."""

    def load(self: Any) -> None:
        if self.acts.get(self.key) is None and self.queue.held:
            self.say(self.queue.held, self.now + self.ttl)
        original(self)

    original = Act.load
    return swap(Act, "load", load)


def tokens_count() -> list[Any]:
    """They begin anew when everything was deleted."""

    def add(self: Any, *words: Any) -> Contender:
        now_us, self.acts.now_us = self.acts.now_us, 0
        try:
            mine: Contender = original(self, *words)
        finally:
            self.acts.now_us = now_us
        return mine

    original = Act.add
    return swap(Act, "add", add)


def nearest_is_not_shown() -> list[Any]:
    def view(self: Any, *words: Any) -> Any:
        token, count, due, rows = original(self, *words)
        return [token, max(count - 1, 0), due, rows[1:]]

    original = Act.view
    return swap(Act, "view", view)


def reader_that_comes_to_hold_keeps_nothing() -> list[Any]:
    """By a look at the writer that went: the key lasts as long as the readers ahead.

    It shows where no grant is confirmed, which prolongs the key too.
    """

    def present(self: Any, *words: Any) -> Any:
        self.prolong = lambda one: None
        return original(self, *words)

    def start(self: Any, *args: Any, **kept: Any) -> None:
        begin(self, *args, **kept)
        self.replicas = 0

    original, begin = Act.present, RedisStore.__init__
    return [*swap(Act, "present", present), *swap(RedisStore, "__init__", start)]


def stranger_is_not_seen_by_a_look_at_what_went() -> list[Any]:
    """It has come ahead of all since."""

    def present(self: Any, *words: Any) -> Any:
        foreign, self.foreign = self.foreign, None
        try:
            return original(self, *words)
        finally:
            self.foreign = foreign

    original = Act.present
    return swap(Act, "present", present)


def whatever_was_watched_is_there() -> list[Any]:
    def present(self: Any, *words: Any) -> Any:
        return [original(self, *words)[0], *(1 for _ in words[2::2])]

    original = Act.present
    return swap(Act, "present", present)


def nobody_listens() -> list[Any]:
    return swap(Act, "listen", lambda self, what: None)


def rewriting_rings_nobody() -> list[Any]:
    def rewrite(self: Any, *words: Any) -> Any:
        self.tell = lambda what, said: None
        return original(self, *words)

    original = Act.rewrite
    return swap(Act, "rewrite", rewrite)


def any_session_may_rewrite_what_is_over() -> list[Any]:
    """The version is not compared: what was given up lands late."""
    original = Act.rewrite
    return swap(
        Act, "rewrite", lambda self, token, mark, data, version: original(self, token, mark, data, "")
    )


def receipts_are_not_compared() -> list[Any]:
    def put(self: Any, settles: int, if_version: Any, expected: int, *words: Any) -> Any:
        known = self.acts.get(self.keys[6]) or (0, b"")
        return original(self, settles, if_version, known[0], *words)

    original = Act.put
    return swap(Act, "put", put)


def versions_are_not_compared() -> list[Any]:
    original = Act.put
    return swap(Act, "put", lambda self, settles, if_version, *words: original(self, settles, "", *words))


def guards_are_not_looked_at() -> list[Any]:
    return swap(Act, "guards", lambda self, known, token, unchanged: True)


# The protocol.


def renewals_name_no_waiters() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        held = {entry.ticket.id for entry in (*op.entries, *op.resting)}
        stands, self._stands = self._stands, {one: at for one, at in self._stands.items() if one in held}
        try:
            return (yield from original(self, replace(op, waiting=()), context))
        finally:
            self._stands = stands

    original = RedisProtocol.renew
    return swap(RedisProtocol, "renew", renew)


def renewals_name_nothing() -> list[Any]:
    """The session lives, and its contenders do not."""

    def renew(self: Any, op: Any, context: Any) -> Any:
        stands, self._stands = self._stands, {}
        try:
            return (yield from original(self, replace(op, entries=(), waiting=(), resting=()), context))
        finally:
            self._stands = stands

    original = RedisProtocol.renew
    return swap(RedisProtocol, "renew", renew)


def nothing_is_missing() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        renewal = yield from original(self, op, context)
        return Renewal(renewal.ttl_s)

    original = RedisProtocol.renew
    return swap(RedisProtocol, "renew", renew)


def own_contenders_count_as_watched() -> list[Any]:
    def join(self: Any, ticket: Any, rule: Any, *words: Any) -> Any:
        snapshot = yield from original(self, ticket, rule, *words)
        if snapshot is not None:
            self._armed[ticket.id] = frozenset(one.ref for one in snapshot.ahead)
        return snapshot

    original = RedisProtocol._join
    return swap(RedisProtocol, "_join", join)


def looking_watches_nothing() -> list[Any]:
    original = RedisProtocol.look
    return swap(
        RedisProtocol, "look", lambda self, op, context: original(self, replace(op, targets=()), context)
    )


def what_was_joined_twice_is_not_buried() -> list[Any]:
    def remove(self: Any, queue: str, one: str, token: int | None) -> Any:
        self._twice.discard(one)
        return original(self, queue, one, token)

    original = RedisProtocol._remove
    return swap(RedisProtocol, "_remove", remove)


# The bell, and the servers.


def nothing_is_kept() -> list[Any]:
    original = Bells.listen
    return swap(
        Bells, "listen", lambda self, mailbox, refs, afresh=False: original(self, mailbox, refs, afresh=True)
    )


def losing_the_listener_is_not_said() -> list[Any]:
    return swap(Bells, "disturb", lambda self: self._kept.clear())


def grants_are_not_confirmed() -> list[Any]:
    def snapshot(self: Any, mine: Any, reply: Any) -> Any:
        return replace(original(self, mine, reply), to_confirm=False)

    original = RedisProtocol._snapshot
    return swap(RedisProtocol, "_snapshot", snapshot)


def replicas_are_not_waited_for() -> list[Any]:
    return swap(RedisStore, "acknowledged", lambda self, node: True)
