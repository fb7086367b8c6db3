"""The promises, checked at every step that could break them."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.wakeups import Changed, Granted, HandedOn
from recipes._rules.holding import holders
from recipes._rules.registry import rule_of
from tests.simulation.standing import Given, Stands, free, seen
from tests.simulation.world import ADMITTED, Violation, World

__all__ = ["Oracle", "given"]

NEVER = float("inf")
WITHDRAWN_WITHIN_S = 4.0  # of a renewal that hangs, and requests that are asked twice

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Oracle:
    """Watches all clients and the store of one schedule.

    S1 and S3: tokens and a fenced register. S2: whoever is admitted is alone. S4: held
    never comes back. S5 and S7: none deletes what is not its own. L2, L3, L4 and
    L5: wake-ups, order, herds, leftovers. S6: a downgrade is what the store shows. L7: a
    session ended behind the client's back is noticed by the next renewal. M1 and M2: nobody
    holds for longer than ``max_hold`` without progress, or blocks others for long. R1: who
    entered twice holds until it is left the second time.

    Args:
        world: The schedule.
        store: The model.
        ttl_s: The length of sessions.
        queues: Those that the users queue in.

    Attributes:
        woken_by_one: How many waiters a release may wake: the next, and the one that moves up.
    """

    woken_by_one = 2

    def __init__(self, world: World, store: Any, *, ttl_s: float, queues: tuple[str, ...] = ("q",)) -> None:
        self.world = world
        self.store = store
        self.queues = queues
        self.ttl_s = ttl_s
        # min(TTL, 10 s) + 1 s, and a request that has to be asked twice.
        self.wake_within_s = min(ttl_s, 10.0) + 1.0 + 2.0
        # Some users ask all the time whether they hold, others never do.
        self.holds = _asks_it if world.random() < 0.5 else _peeks
        self.live: list[tuple[Any, Any]] = []
        self.lost: list[tuple[Any, Any]] = []
        self.released: deque[tuple[Any, Any]] = deque()
        self.seen = -1
        self.returned: dict[str, int] = {}  # the largest of each queue
        self.tokens: set[Given] = set()
        self.born: dict[Given, float] = {}
        self.gate: dict[Any, int] = {}
        self.downgrades = 0
        self.given_to: dict[str, Given] = {}
        self.register: dict[Any, list[int]] = {}
        self.grants = 0
        self.handed_on = 0  # how often a client did not wait for a deletion of its own
        self.observed = 0  # how often an observer saw something new
        self.clients: list[Any] = []
        self.head_since: dict[Given, float] = {}
        self.healthy_since = world.now
        # Forced expiry and deletion by an operator are exempt from S2.
        self.exempt: dict[Any, float] = {}
        self.removed: dict[Given, float] = {}
        self.deprived: set[Given] = set()  # those among them that others removed by the key of the lock
        self.told: dict[str, set[Any]] = {}
        self.known: dict[Any, set[str]] = {}  # by mailbox, what it knows to be released before it is deleted
        self.left = 0
        self.due: dict[Given, float] = {}  # until when each may be held without progress, by its own clock
        self.hung: dict[Given, float] = {}
        # No fault so far that may keep an event from coming, and the store sends some.
        self.tells = getattr(store, "tells", True)
        self.calm = self.tells

    # Called by the clients.

    def asking(self, client: Any) -> dict[str, int]:
        """An acquire is called: its token must be larger than all of its queue that were returned before."""
        return dict(self.returned)

    def admitted(self, client: Any, hold: Any) -> None:
        """A grant came to be, inside the client."""
        self.grants += 1
        world = self.world
        token = hold.entry.token
        world.mark(ADMITTED, token)
        world.note(client.name, "admitted", token)
        if not self.holds(client, hold):
            raise Violation("S4: a grant was made that is not held")
        if given(hold) in self.tokens:
            raise Violation(f"S3: token {token} was given twice")
        self.tokens.add(given(hold))
        self.born[given(hold)] = world.now
        self._alone(client, hold)
        self._in_order(client, hold)
        self._woken_in_time(client, hold)
        self.live.append((client, hold))
        if hold.max_hold_s is not None:
            self.due[given(hold)] = client.local + hold.max_hold_s

    def granted(self, client: Any, hold: Any, began: dict[str, int]) -> None:
        """An acquire returned."""
        queue, token = given(hold)
        before = began.get(queue, 0)
        if token <= before:
            raise Violation(f"S3: token {token} after {before} had been returned")
        self.returned[queue] = max(self.returned.get(queue, 0), token)

    def write(self, client: Any, hold: Any) -> None:
        """A holder uses a fenced register, whether it still holds or not: a writer writes."""
        token, where = hold.entry.token, self.fenced(hold)
        gate = self.gate.setdefault(where, 0)
        if hold.mode == "shared":
            self.gate[where] = max(gate, token)
        elif token >= gate:
            self.gate[where] = token
            self.register.setdefault(where, []).append(token)

    def downgraded(self, client: Any, hold: Any, stands: bool) -> None:
        """A downgrade returned, with the word that the contender stands or that it does not."""
        self.downgrades += 1
        self.world.note(client.name, "downgraded" if stands else "found gone", hold.entry.token)
        exempt = given(hold) in self.removed or hold.session in self.exempt
        if exempt or self.store.forgets(hold):
            return
        queue, token = given(hold)
        found = [one for one in self.store.standing(queue) if one.token == token]
        if stands and found and found[0].mark != DOWNGRADED:
            raise Violation(f"S6: token {hold.entry.token} downgraded, and the store does not show it")
        if not stands and found and hold.session.ended is None:
            raise Violation(f"S6: token {hold.entry.token} stands, and its downgrade found it gone")

    def releasing(self, client: Any, hold: Any, was_held: bool) -> bool:
        """A release is called; of one who entered twice, the last."""
        if self.holds(client, hold):
            raise Violation(f"R1: token {hold.entry.token} is held by one who has left")
        self.observe()
        return was_held

    def progressed(self, client: Any, hold: Any, held: bool) -> None:
        """A holder made progress, and was told whether it still holds."""
        due = self.due.get(given(hold), NEVER)
        if client.local < due:
            if held:
                self.due[given(hold)] = client.local + hold.max_hold_s
        elif held:
            raise Violation(f"M1: progress of token {hold.entry.token} after its max_hold had passed")
        self.observe()

    def left_inner(self, client: Any, hold: Any, held: bool) -> None:
        """One who entered twice left once."""
        if held and not self.holds(client, hold):
            raise Violation(f"R1: token {hold.entry.token} was released by the first to leave")

    def settles(self, client: Any, job: Any) -> None:
        """A cleaner has done a job."""

    # The plain rule, which recipes other than locks and semaphores have of their own.

    def free(self, standing: list[Stands]) -> list[Stands]:
        """Return those of a queue that hold."""
        return free(standing)

    def blocked(self, kind: str, ahead: list[Stands]) -> bool:
        """Whether one of this kind does not hold behind these."""
        return bool(rule_of(kind).blockers(tuple(reversed(seen(ahead)))))

    def may_hold(self, together: list[Contender]) -> bool:
        """Whether all of these, of one queue and in order, may hold at once."""
        return holders(together) == len(together)

    def fenced(self, hold: Any) -> Any:
        """Return which register a holder writes: each belongs to those that exclude each other."""
        return hold.entry.ticket.queue

    def standing(self) -> list[tuple[str, Stands]]:
        """Return all that stand in any of the queues, each with its queue."""
        return [(queue, one) for queue in self.queues for one in self.store.standing(queue)]

    # Checks.

    def _alone(self, client: Any, hold: Any) -> None:
        if hold.session in self.exempt or given(hold) in self.removed:
            return
        together = [hold]
        for other, held in self.live:
            if other.paused or other.dead or held.session in self.exempt:
                continue
            if given(held) in self.removed or held.entry.ticket.queue != hold.entry.ticket.queue:
                continue
            if self.holds(other, held):
                together.append(held)
        together.sort(key=lambda one: one.entry.token)
        if not self.may_hold([one.contender for one in together]):
            raise Violation(f"S2: {client.name} was admitted beside {len(together) - 1} other(s)")

    def _in_order(self, client: Any, hold: Any) -> None:
        """L3, and the safety that needs no clock: nobody of a live session stands before.

        But for what its own client has released while it held it: that may be deleted later, with the session
        that it was of, or be a second row of a join that was carried out twice.
        """
        exempt = given(hold) in self.removed or hold.session in self.exempt
        if exempt or self.store.forgets(hold):
            return
        ticket = hold.entry.ticket
        ahead = [one for one in self.store.standing(ticket.queue) if one.token < hold.entry.token]
        if not self.blocked(ticket.kind, ahead):
            return
        freed = self._freed_by(client)
        if self.blocked(ticket.kind, [one for one in ahead if one.contender not in freed]):
            raise Violation(f"L3: token {hold.entry.token} was admitted before {ahead}")
        self.handed_on += 1

    def _freed_by(self, client: Any) -> set[str]:
        """Return which contenders a client has released while it held them."""
        known = (*self.live, *self.lost, *self.released)
        return {held.entry.ticket.id for other, held in known if other is client and held.released}

    def _woken_in_time(self, client: Any, hold: Any) -> None:
        since = self.head_since.pop(given(hold), None)
        if since is None:
            return
        store = self.store
        since = max(since, self.healthy_since, client.healthy_since, store.grants_from, store.let_go_at)
        waited = self.world.now - since
        if waited > self.wake_within_s and not store.held_up:
            raise Violation(f"L2: {client.name} was first in the queue for {waited:.1f} s before it was told")

    def heard(self, event: Any, mailbox: Any) -> None:
        """An event of a contender that went is posted to a call."""
        ref = getattr(event, "ref", None)
        if ref is None or isinstance(event, Granted) or not self.tells:
            return
        if mailbox.task is None or mailbox.task.daemon:
            return
        call = mailbox.task.call
        if call.mailbox is not mailbox or (isinstance(event, Changed) and _in_process(call, mailbox, ref)):
            return  # of a call that has ended; or news by its own client, which cost the store nothing
        ticket = call.ticket
        if ticket is not None and not rule_of(ticket.kind).steps_up:
            if not self.removed and len(mailbox.task.client.sessions) == 1:  # else it may have queued again
                self._woken_for_something(ref, ticket)
            return
        known = self.known.setdefault(mailbox, set())
        if isinstance(event, HandedOn):
            known.add(ref)
            if not mailbox.task.receiving:  # it came as this was gone but for its deletion
                return
            ref = f"release of {ref}"  # which comes before the deletion: others are ahead by then
        elif ref in known:
            return
        told = self.told.setdefault(ref, set())
        told.add(mailbox)
        # One that handed on in process is deleted when its client may have queued again behind those it woke.
        again = f"release of {ref}" in self.told
        # When one leaves the middle of the queue, those behind it move up beside others.
        if len(told) > self.woken_by_one + self.left + len(self.removed) + again:
            raise Violation(f"L4: {len(told)} waiters were woken by one release")

    def _woken_for_something(self, ref: str, ticket: Any) -> None:
        """L4: a reader is notified of the writer next ahead of it, and of no other."""
        found = _ID.search(ref)
        gone, own = (self.given_to.get(one) for one in (found[0] if found else "", ticket.id))
        if gone is None or own is None or gone[0] != own[0]:
            return
        went, mine = gone[1], own[1]
        between = [one for one in self.store.standing(ticket.queue) if went < one.token < mine]
        if self.blocked(ticket.kind, between):
            raise Violation(f"L4: the reader {mine} was woken by {went}, behind {between[-1].token}")

    def quiet(self) -> None:
        """Nothing is under way: whoever is first in the queue must know."""
        if not self.calm or self.store.split or not any(map(self.store.standing, self.queues)):
            return
        for client in self.clients:
            if (client.paused and not client.dead) or client.runtime.cleaning:
                return
        waiting = []
        for task in self.world.tasks:
            if task.client.dead:
                continue
            if _asks(task):
                return  # an answer was lost, and asking again will tell
            if task.patient and task.receiving and not task.daemon:
                waiting.append(task)
        notified = {
            one.contender
            for queue in self.queues
            for one in self.free(self._notified(queue, self.store.standing(queue)))
        }
        for task in waiting:
            ticket, session = task.call.ticket, task.call.session
            if ticket is None or ticket.id not in notified:
                continue
            if session.ended is None and all(one is not session for one in self.exempt):
                raise Violation(f"L2: {task.name} is first in the queue, and no event will tell it")

    def observe(self) -> None:
        """Look at everything once: what was lost must stay lost."""
        for client, hold in self.live:
            if not self.holds(client, hold):
                self._sort_out()
                break
        for entry in self.lost:
            self._stays_lost(*entry)
        if self.released:
            self._stays_lost(*self.released[0])
            self.released.rotate()
        if self.seen != self.store.version:
            self.seen = self.store.version
            self._heads()
        if self.exempt or self.removed:
            self._noticed()
        if self.due:
            self._not_for_too_long()

    def _not_for_too_long(self) -> None:
        """M1: nobody holds past max_hold by its own clock. M2: such a contender is soon gone."""
        now = self.world.now
        for client, hold in self.live:
            if client.local >= self.due.get(given(hold), NEVER) and self.holds(client, hold):
                raise Violation(f"M1: token {hold.entry.token} is held past its max_hold")
        standing = {(queue, one.token) for queue, one in self.standing()}
        for client, hold in (*self.live, *self.lost):
            one = given(hold)
            if one not in standing or self.store.forgets(hold) or client.local < self.due.get(one, NEVER):
                continue
            if client.paused or client.dead or hold.session.ended is not None:  # it goes with its session
                continue
            # So it does, or it is withdrawn when the connection, or another's, has healed.
            if hold.session.connection.cut or self.store.held_up:
                self.hung.pop(one, None)
                continue
            since = max(self.hung.setdefault(one, now), self.healthy_since, client.healthy_since)
            if now - since > WITHDRAWN_WITHIN_S:
                raise Violation(f"M2: token {one[1]} hangs for {now - since:.1f} s, and blocks others")

    def _sort_out(self) -> None:
        """Put those that have ended aside: lost ones are looked at every time, released ones in turn."""
        live, self.live = self.live, []
        for entry in live:
            client, hold = entry
            if self.holds(client, hold):
                self.live.append(entry)
            elif hold.released:
                self.released.append(entry)
            else:
                self.lost.append(entry)

    def _stays_lost(self, client: Any, hold: Any) -> None:
        if self.holds(client, hold):
            raise Violation(f"S4: token {hold.entry.token} of {client.name} is held again")

    def _noticed(self) -> None:
        """L7: by one renewal that looks at it, which may have to be asked twice."""
        now = self.world.now
        for client, hold in self.live:
            since = self.exempt.get(hold.session, self.removed.get(given(hold)))
            if since is None or client.paused or since <= self._may_return_from(hold):
                continue
            since = max(since, self.born[given(hold)], self.healthy_since, client.healthy_since)
            every_s = self.ttl_s if hold.turn is not None else self.ttl_s / 3
            if now - since > every_s * 1.1 + 2.5:
                raise Violation(
                    f"L7: token {hold.entry.token} ended {now - since:.1f} s ago, and still holds"
                )

    def _may_return_from(self, hold: Any) -> float:
        """Return the moment before which its removal may have been undone by the store."""
        store = self.store
        at: float = max(store.lost_at, store.began_at) if given(hold) in self.deprived else store.lost_at
        return at

    def _notified(self, queue: str, standing: list[Stands]) -> list[Stands]:
        """Return those that an event notifies when they come to hold: not those behind permits left unmarked.

        A contender whose client died or gave up its session before it marked its permits never does: those
        behind it find it by the periodic re-read, or as that session ends.
        """
        current = self._sessions()
        left = {contender for owner, contender in self.store.owned(queue) if owner not in current}
        for position, one in enumerate(standing):
            if one.contender in left and not one.mark and rule_of(one.kind).weight is not None:
                return standing[: position + 1]
        return standing

    def _sessions(self) -> set[int]:
        """Return the sessions that the clients that live have now."""
        sessions = [client.runtime.state.session for client in self.clients if not client.dead]
        return {int(one.id, 16) for one in sessions if one is not None and one.ended is None}

    def leavings(self, *, former: bool = True) -> list[str]:
        """Return whom the clients that live have left in the queue; without ``former``, now alone.

        What a session leaves that was given up ends with it, as long as it may take.
        """
        names = {f"{ord(client.name):08x}" for client in self.clients if not client.dead}
        sessions = self._sessions()
        return [
            contender
            for queue in self.queues
            for owner, contender in self.store.owned(queue)
            if contender[:8] in names and (former or owner in sessions)
        ]

    def settled(self, *, former: bool = False) -> None:
        """All calls have returned, and the cleaners had their time: nothing of theirs stands."""
        left = self.leavings(former=former)
        if left:
            raise Violation(f"L5: still in the queue: {left}")
        if stale := getattr(self.store, "stale_watches", list)():
            raise Violation(f"L5: they watch who has gone: {stale}")

    def _heads(self) -> None:
        for queue in self.queues:
            standing = self.store.standing(queue)
            for one in standing:
                self.given_to.setdefault(one.contender, (queue, one.token))
            for one in self.free(standing):
                self.head_since.setdefault((queue, one.token), self.world.now)

    def rested(self) -> None:
        """All that was done at last has come to its end."""

    def up_to_date(self) -> bool:
        """Whether all observers have seen the last that there is to see."""
        return True

    def shown_last(self) -> None:
        """They had their time."""

    def stuck(self, waiting: list[Any]) -> None:
        """At the end nobody may still wait."""
        if waiting:
            names = ", ".join(task.name for task in waiting)
            raise Violation(f"L2: still waiting at the end: {names}")

    def finish(self) -> None:
        """Everything was closed: nothing may be left, and nobody holds."""
        for entry in (*self.live, *self.lost, *self.released):
            self._stays_lost(*entry)
        known = [session.waiters for client in self.clients for session in client.sessions]
        if any(waiters._freed - waiters._standing.keys() for waiters in known):
            raise Violation("L8: a client remembers what it has withdrawn")
        left = self.store.leftovers()
        if left:
            raise Violation(f"L5: left on the store: {left}")
        if self.store.watch_count():
            raise Violation(f"L8: {self.store.watch_count()} watches are left")
        if any(tokens != sorted(tokens) for tokens in self.register.values()):
            raise Violation("S1: the fenced register went backwards")


def _asks(task: Any) -> bool:
    """Whether a task waits for an answer, or for the moment to ask again."""
    pausing = task.receiving and not task.patient and task.call.session is not None
    return task.asked is not None or (pausing and task is not task.client.runtime.keepalive)


def given(hold: Any) -> Given:
    """Return the token of a grant, with its queue."""
    return hold.entry.ticket.queue, hold.entry.token


def _asks_it(client: Any, hold: Any) -> bool:
    held: bool = hold.remaining(client.local) > 0
    return held


def _peeks(client: Any, hold: Any) -> bool:
    """Whether a grant is held, without asking it: whoever asks makes a loss final."""
    session = hold.session
    until = min(session.clock.deadline, hold.due)
    return not hold.ended and session.ended is None and client.local < until


def _in_process(call: Any, mailbox: Any, ref: str) -> bool:
    """Whether a call is notified of a contender by its own client, as its session is there."""
    standing = call.session.waiters._standing if call.session else {}
    return any(told.get(mailbox) == ref for told in standing.values())
