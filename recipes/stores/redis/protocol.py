"""The protocol of Redis: an operation is one run of one script on the keys of one queue.

Three things are the store's own:

* Each contender has a lease: a renewal names all that this session has, also those whose joining was not
  answered yet. So what the session's clock counts holds for each of them.
* The script itself names the new holder: ``Granted`` arrives, and there is nothing to look at.
* The key of a lock may be another program's: a foreign contender, shown ahead of all others, and tracked.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, ClassVar

from recipes._contract.connection import Batch, Mailbox, Request
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.operations import (
    Check,
    Checked,
    Confirm,
    End,
    Enqueue,
    Entry,
    Evict,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Read,
    Renew,
    Renewal,
    Rewrite,
    Settle,
    Snapshot,
    Stored,
    Ticket,
    Watch,
    Withdraw,
    Write,
    Written,
)
from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
from recipes._contract.rule import Nearest, Rule
from recipes.errors import SessionLost, StoreFull, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES, Guarantees
from recipes.stores._kit.queue import ENDED, kind_of, ref_of, target_of
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once
from recipes.stores.redis.codec import concerns, evicts, facts
from recipes.stores.redis.keys import Keys
from recipes.stores.redis.requests import STARTING, Command, Listen, Run, Scan, Sure, Track, Word

__all__ = ["RedisProtocol"]

WITHDRAWN = "its contender was withdrawn"
LASTS = "is another program's and never expires; it stands in the way until somebody deletes it"
DEEPEST = 16
"""So many of those ahead are watched in the step that joins; a recipe that sees more watches by itself."""
MOST_TOUCHED = 500
AT_ONCE = 100  # queues that are read together
LATE_MS = 3_600_000
"""So long a copy of a write may be on its way; the script keeps receipts and tombstones for as long."""
POLL_S = 0.1
"""How often to look for a foreign contender on a cluster: a node notifies only its own clients of a key."""


class RedisProtocol(StoreProtocol):
    """One session with Redis.

    Args:
        label: Where the store is, for errors.
        keys: Where everything is.
        session_id: Chosen before the server is asked.
        grace_s: For how long nothing is granted after a restart or failover; the same for all clients.
        polls: Strangers are looked for by time: the server is one of a cluster.
        replicas: How many have to acknowledge a renewal, and a grant.
        promised: What the store promises, unless the server says that it evicts.
    """

    ended_is_no: ClassVar[bool] = False
    settles_elsewhere: ClassVar[bool] = True

    def __init__(
        self,
        label: str,
        keys: Keys,
        session_id: str,
        grace_s: float,
        *,
        polls: bool,
        replicas: int = 0,
        promised: Guarantees = STORES["redis"],
    ) -> None:
        self.session_id = session_id
        self._replicas, self._promised = replicas, promised
        self._label, self._keys = label, keys
        self._grace, self._polls = f"{grace_s:g}", polls
        self._ttl_ms = 0
        self._armed: dict[str, frozenset[str]] = {}  # by the contender's id: what joining watched
        self._receipts = Receipts()
        self._stands: dict[str, tuple[str, int | None]] = {}  # by id: the queue, and the token once known
        self._rewritten: dict[str, int] = {}  # by id: how often, as far as the server has said
        self._evictions = itertools.count(1)
        self._evicting: dict[tuple[str, int], int] = {}  # by queue and token: the number of the eviction
        self._twice: set[str] = set()  # ids of contenders whose joining was asked again
        self._refused: set[str] = set()  # ids of those whose joining was refused, until withdrawn
        self._unrenewed: set[str] = set()  # ids of those whose renewal was refused while they joined
        self._ended = False

    # The session.

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Set the session's key, which expires; all clients have to agree about the grace."""
        del context
        self._ttl_ms = round(op.ttl_s * 1000)
        keys = self._keys
        mine = keys.session(self.session_id)
        _, _, grace_there, info = yield from self._sure(
            Command(("SET", mine, 1, "PX", self._ttl_ms), mine),
            Command(("SETNX", keys.grace, self._grace), keys.grace),
            Command(("GET", keys.grace), keys.grace),
            Command(("INFO",), mine),
            bell=keys.bell + self.session_id,
        )
        known = facts(info)
        for said in concerns(known, self._replicas):
            self._notices.add(said, said)
        grace = (grace_there or self._grace.encode()).decode()  # it may have been deleted since
        if grace != self._grace:
            raise StoreRefused(
                self._label,
                f"restart_grace is {grace} for the other clients and {self._grace} for this one; "
                f"use the same, or delete the key {keys.grace} while no client runs",
            )
        guarantees = replace(self._promised, proven=False) if evicts(known) else None
        return Opened(self.session_id, op.ttl_s, guarantees=guarantees)

    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Renew the session's key, and every contender that it has or may have."""
        del context
        mine = self._keys.session(self.session_id)
        entries = (*op.entries, *op.waiting, *op.resting)
        asked: dict[str, list[str]] = {}
        places = [*self._stands.copy().items(), *((entry.ticket.id, _place(entry)) for entry in entries)]
        for one, (queue, token) in places:
            asked.setdefault(queue, []).append(f"i:{one}" if token is None else str(token))
        runs, words, named = [], [], []
        for queue, tokens in asked.items():
            distinct = list(dict.fromkeys(tokens))
            for start in range(0, len(distinct), MOST_TOUCHED):
                some = distinct[start : start + MOST_TOUCHED]
                runs.append(self._run(queue, "touch", *some))
                words += [(queue, token) for token in some]
                named.append(some)
        replies = yield from Sure((Command(("PEXPIRE", mine, self._ttl_ms), mine), *runs))
        spared, counted = self._spared(named, replies[1:])
        alive, *found = _all_of((replies[0], *counted))
        if not alive:
            raise SessionLost(ENDED)
        self._unrenewed = spared  # not before: what an earlier one has spared is forgotten by one that counts
        stands = dict(zip(words, (one for some in found for one in some), strict=True))
        missing = tuple(entry for entry in entries if not stands[entry.ticket.queue, str(entry.token)])
        return Renewal(self._ttl_ms / 1000, missing)

    def _spared(self, named: list[list[str]], replies: tuple[Any, ...]) -> tuple[set[str], list[Any]]:
        """Return which are spared, and replies without refusals of these: they join, and are refused as well.

        If it is not, it asks again: the session counts from a renewal that it did not get.
        """
        found = list(replies)
        spared: set[str] = set()
        for at, some in enumerate(named):
            ids = {one[2:] for one in some if one.startswith("i:")}
            if isinstance(found[at], StoreRefused) and len(ids) == len(some):
                spared |= ids
                found[at] = [0] * len(some)
        # First: one that is answered meanwhile sees it, or is seen below.
        self._unrenewed = spared | self._unrenewed
        if any(self._stands.get(one, ("", None))[1] is not None for one in spared):
            return spared, list(replies)
        return spared, found

    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """Remove all that this session has."""
        del op, context
        self._ended = True  # first: what another thread notes as joining from here on is not joined
        mine = self._keys.session(self.session_id)
        parts: list[Request[Any]] = [
            self._remove(queue, one, token) for one, (queue, token) in self._stands.copy().items()
        ]
        # From here on a copy that arrives late finds what is no receipt, and is refused.
        asked = [self._receipt(key) for key in self._receipts.asked()]  # first: one may be answered meanwhile
        settled = [self._receipt(key) for key in self._receipts.settled()]
        parts += [Command(("SET", key, "", "PX", LATE_MS), key) for key in asked]
        parts += [Command(("SET", key, "", "XX", "PX", LATE_MS), key) for key in settled]
        _all_of((yield from Batch((*parts, Command(("DEL", mine), mine)))))

    def _sure(self, *parts: Request[Any], bell: str = "", grants: bool = False) -> Steps[tuple[Any, ...]]:
        return _all_of((yield from Sure(parts, bell, grants=grants)))

    # The queue.

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Join the queue, once, and watch what blocks."""
        snapshot = yield from self._join(op.ticket, op.rule, context)
        assert snapshot is not None, "only a probe does not join"
        return snapshot

    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Join unless the script can see that somebody blocks."""
        blocked_by = op.rule.blocked_by
        if not isinstance(blocked_by, Nearest) or op.rule.own_kind_only:
            return (yield from self._join(op.ticket, op.rule, context))
        snapshot = yield from self._join(op.ticket, op.rule, context, blocked_by)
        if snapshot is None and context.again:  # the earlier try may land yet
            return Snapshot(None, (), complete=True, position=0)
        return snapshot

    def _join(
        self, ticket: Ticket, rule: Rule, context: RequestContext, only: Nearest | None = None
    ) -> Steps[Snapshot | None]:
        if context.again:
            self._twice.add(ticket.id)
        self._stands[ticket.id] = ticket.queue, None  # first: a renewal that overtakes this one names it too
        if self._ended:
            raise SessionLost(ENDED)
        blocking = rule.depth if rule.weight is None else 1  # what takes permits watches the one ahead
        arm = blocking if only is None and blocking <= DEEPEST else 0
        try:
            reply = yield from self._asked(
                ticket.queue,
                "join",
                *(ticket.id, kind_of(ticket), ticket.owner, ticket.data),
                *(int(rule.exclusive_only), rule.reach, arm),
                *(("", "") if only is None else (only.limit, only.let_in_by)),
                tombstone=ticket.id,
            )
        except (StoreRefused, StoreFull) as error:
            if not context.again:
                self._refused.add(ticket.id)
            elif isinstance(error, StoreFull):  # an earlier try may stand, and can be renewed and withdrawn
                raise
            self._stands.pop(ticket.id, None)  # else renewals would name it, and be refused as well
            raise
        if not reply[0]:
            if not context.again:
                self._stands.pop(ticket.id, None)
            return None
        token = int(reply[0])
        self._stands[ticket.id] = ticket.queue, token
        if ticket.id in self._unrenewed:
            self._unrenewed.discard(ticket.id)
            raise StoreUnavailable(self._label, "a renewal was refused while it joined")
        mine = Entry(ticket, ref_of(ticket.queue, token), token)
        snapshot = self._snapshot(mine, reply)
        others = (one for one in snapshot.ahead[:arm] if one.session not in ("", self.session_id))
        self._armed[ticket.id] = frozenset(one.ref for one in others)
        if rule.blockers(snapshot.ahead):
            yield from Listen((mine.ref,), context.mailbox)
        return snapshot

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Watch; what joining has watched was notified since."""
        armed = self._armed.pop(op.mine.ticket.id, frozenset())
        if all(target.ref in armed for target in op.targets):
            yield from Listen(tuple(target.ref for target in op.targets), context.mailbox)
            return True
        found = yield from self._present(op.mine, op, context.mailbox)
        return all(found[1:])

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Watch and read in one step."""
        mine = op.mine
        self._armed.pop(mine.ticket.id, None)
        yield from self._track(mine.ticket.queue, op.targets, context.mailbox)
        reply = self._checked((yield self._see(mine, op.rule, op.targets, context.mailbox)))
        return self._snapshot(mine if reply[0] else None, reply)

    def _see(self, mine: Entry, rule: Rule, targets: Ahead, mailbox: Mailbox) -> Run:
        own = _own_targets(targets)
        return self._run(
            mine.ticket.queue,
            "see",
            *(mine.token, int(rule.exclusive_only), rule.reach),
            *(token for _, token in own),
            mailbox=mailbox,
            refs=(mine.ref, *(ref for ref, _ in own)),
        )

    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Read the own contender and these others.

        The own one alone is read for its owner: a server that has been replaced, and does not know, may show
        what is gone. So it is written, and all replicas have to acknowledge that.
        """
        if self._replicas and not op.targets and op.evidence is None:
            touch = self._run(op.mine.ticket.queue, "touch", str(op.mine.token))
            ((stands,),) = yield from self._sure(touch)
            return Checked(bool(stands), frozenset())
        mailbox = context.mailbox if op.evidence is None else None
        mine, *found = yield from self._present(op.mine, op, mailbox)
        present = (target.ref for target, there in zip(op.targets, found, strict=True) if there)
        return Checked(bool(mine), frozenset(present))

    def confirm(self, op: Confirm, context: RequestContext) -> Steps[Snapshot]:
        """Look, write once more, and have all replicas acknowledge what was done until then.

        They have done then what came before on this server, the end of those that were ahead too. Else one of
        these may be renewed by a replica that has taken over, and hold there. The server that is asked may be
        another than the one that granted: what counts is what is seen by the one that is acknowledged.
        """
        session, mine = self._keys.session(self.session_id), op.mine
        queue, word = mine.ticket.queue, str(mine.token)
        alive, reply, (stands,) = yield from self._sure(
            Command(("PEXPIRE", session, self._ttl_ms), session),
            self._see(mine, op.rule, (), context.mailbox),
            self._run(queue, "touch", word),  # last: a server may wait for what is written alone
            grants=True,
        )
        if not alive:
            raise SessionLost(ENDED)
        self._checked(reply)
        return self._snapshot(mine if reply[0] and stands else None, reply)

    def _present(self, mine: Entry, op: Watch | Check, mailbox: Mailbox | None) -> Steps[list[int]]:
        queue = mine.ticket.queue
        if mailbox is not None:
            yield from self._track(queue, op.targets, mailbox)
        pairs: list[Word] = []
        for target in op.targets:
            pairs += [target_of(target.ref)[1], target.mark if mine.ticket.minds_marks else "*"]
        refs = tuple(ref for ref, _ in _own_targets(op.targets))
        watch = int(mailbox is not None)
        return (
            yield from self._asked(queue, "present", watch, mine.token, *pairs, mailbox=mailbox, refs=refs)
        )

    def _track(self, queue: str, targets: tuple[Contender, ...], mailbox: Mailbox) -> Steps[None]:
        for target in targets:
            if not self._polls and target_of(target.ref)[1] < 0:
                yield from Track(self._keys.base(queue), target.ref, mailbox)

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Remove the own contender; asked again, the first try may have done it."""
        self._armed.pop(op.ticket.id, None)
        self._rewritten.pop(op.ticket.id, None)
        token = None if op.entry is None else op.entry.token
        removed: int
        try:
            removed = yield self._remove(op.ticket.queue, op.ticket.id, token)
        except (StoreRefused, StoreFull):
            if op.ticket.id not in self._refused:
                raise
            removed = 0  # what a script left that was refused halfway ends with its lease
        self._refused.discard(op.ticket.id)
        self._stands.pop(op.ticket.id, None)  # not before: if the session ends meanwhile, `end` removes it
        self._twice.discard(op.ticket.id)  # not before: asked again, it has to bury it again
        return bool(removed) or context.again

    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Remove another's contender; asked again, the first try may have done it."""
        what = op.queue, op.token
        number = self._evicting.get(what) if context.again else None
        self._evicting[what] = number = number or next(self._evictions)
        done = self._tombstone(op.queue, f"{self.session_id}-{number}")
        removed: int = yield self._run(op.queue, "expel", op.token, keys=(done,))
        self._evicting.pop(what, None)
        return bool(removed) or context.again

    def rewrite(self, op: Rewrite, context: RequestContext) -> Steps[int | None]:
        """Write the own contender's mark and data; a copy that arrives after the next one is not done."""
        del context
        ticket = op.entry.ticket
        while True:
            version = f"~{self._rewritten.get(ticket.id, 0)}" if op.version is None else op.version
            written: int | None = yield self._run(
                ticket.queue, "rewrite", op.entry.token, op.mark, op.data, version
            )
            if written is not None:
                self._rewritten[ticket.id] = abs(written)
            if written is None or written > 0:
                return written

    # What is looked at from outside.

    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Read a queue from its head on."""
        refs = (op.queue,) if op.watch else ()
        rows, due_ms = yield self._run(
            op.queue, "list", op.most, int(op.watch), mailbox=context.mailbox, refs=refs
        )
        found = tuple(
            Contender(
                ref_of(op.queue, int(row[0])),
                row[3].decode(),
                row[1].decode(),
                row[2].decode(),
                row[4].decode(),
                int(row[0]),
                row[6].decode(),
                row[7],
                int(row[5]),
            )
            for row in rows
        )
        return Listing(found, self._due_s(op.queue, due_ms, found))

    def queues(self, op: Queues, context: RequestContext) -> Steps[tuple[str, ...]]:
        """Find the queues of locks by their keys, and read the head of each until enough are taken.

        A queue in which only the dead stand has its keys yet: reading it drops them.
        """
        del context
        keys: set[str] = yield from Scan(self._keys.queues)
        waiting = sorted(name for name in map(self._keys.queue_of, keys) if name and name[0] != "~")
        found: list[str] = []
        while waiting and len(found) < op.most:
            some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            heads = yield from Batch(tuple(self._run(name, "list", 1, 0) for name in some))
            found += [name for name, (rows, _) in zip(some, _all_of(heads), strict=True) if rows]
        return tuple(found[: op.most])

    def read(self, op: Read, context: RequestContext) -> Steps[Stored]:
        """Read a value, and watch it if asked to."""
        refs = (op.key,) if op.watch else ()
        run = self._run(
            op.key,
            "get",
            int(op.watch),
            keys=(self._keys.beside(op.key, "value"),),
            mailbox=context.mailbox,
            refs=refs,
        )
        data, version = yield run
        return Stored(data, int(version))

    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write with a receipt; a copy of it may arrive late."""
        return (yield from write_once(self._receipts, op, self._put, again=context.again))

    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """Write the receipt alone."""
        del context
        return (yield from settle_once(self._receipts, op.write, self._put))

    # The steps.

    def _remove(self, queue: str, one: str, token: int | None) -> Run:
        """Return what removes a contender; a join that may be on its way is refused from there on.

        None is of one that was refused: to bury it would take a key more of what has no room.
        """
        bury = (token is None and one not in self._refused) or one in self._twice
        token_word: Word = "" if token is None else token
        return self._run(queue, "remove", one, token_word, int(bury), keys=(self._tombstone(queue, one),))

    def _put(self, put: Exchange) -> Steps[Exchanged]:
        write = put.write
        guards = () if put.settles else write.guards  # by which a server that starts would have it wait
        queues = [guard.entry.ticket.queue for guard in guards]
        if self._polls and not self._keys.together(write.key, *queues):
            raise StoreRefused(
                self._label,
                "a cluster writes under a grant only where both are in one slot: "
                'connect with a prefix that has a hash tag, such as prefix="{app}:"',
            )
        keys = (
            self._keys.beside(write.key, "value"),
            self._receipt(write.key),
            *(self._keys.beside(queue, "known") for queue in queues),
        )
        run = self._run(
            write.key,
            "put",
            *(int(put.settles), "" if write.if_version is None else write.if_version),
            *(put.expected, put.receipt, int(write.data is None), write.data or b""),
            *(word for guard in guards for word in (guard.entry.token, int(guard.unchanged))),
            keys=keys,
        )
        done, version, receipt, data, stored, guarded = self._checked((yield run))
        return Exchanged(bool(done), int(version), receipt, Stored(data, int(stored)), guarded=bool(guarded))

    def _asked(
        self,
        queue: str,
        act: str,
        *words: Word,
        tombstone: str = "",
        mailbox: Mailbox | None = None,
        refs: tuple[str, ...] = (),
    ) -> Steps[list[Any]]:
        keys = (self._tombstone(queue, tombstone),) if tombstone else ()
        reply: list[Any] = yield self._run(queue, act, *words, keys=keys, mailbox=mailbox, refs=refs)
        return self._checked(reply)

    def _checked(self, reply: list[Any]) -> list[Any]:
        """Return a reply, unless it says that nothing was done."""
        if reply[0] == b"withdrawn":
            raise SessionLost(WITHDRAWN)
        if reply[0] == b"ended":
            raise SessionLost(ENDED)
        if reply[0] == STARTING:
            left_s = reply[1] / 1000
            said = f"it started, or took over, and grants nothing for {left_s:.1f} s more (restart_grace)"
            raise StoreUnavailable(self._label, said, unsent=True)
        return reply

    def _snapshot(self, mine: Entry | None, reply: list[Any]) -> Snapshot:
        _, count, due_ms, rows = reply
        if mine is None:
            return Snapshot(None, (), complete=True, position=0)
        queue = mine.ticket.queue
        ahead = tuple(
            Contender(
                ref_of(queue, int(row[0])), row[3].decode(), row[1].decode(), row[2].decode(), row[4].decode()
            )
            for row in rows
        )
        complete = count <= len(ahead)
        due_s, to_confirm = self._due_s(queue, due_ms, ahead), self._replicas > 0
        return Snapshot(mine, ahead, complete, count, cheap=True, due_s=due_s, to_confirm=to_confirm)

    def _due_s(self, queue: str, due_ms: int, shown: tuple[Contender, ...]) -> float | None:
        """Return in how many seconds to look again; a foreign contender that never expires is reported."""
        due_s = None if due_ms < 0 else due_ms / 1000
        foreign = any(target_of(one.ref)[1] < 0 for one in shown)
        if foreign and due_s is None:
            key = self._keys.base(queue)
            self._notices.add(key, f"{key} {LASTS}")
        if self._polls and foreign:
            return POLL_S if due_s is None else min(due_s, POLL_S)
        return due_s

    def _run(
        self,
        queue: str,
        act: str,
        *words: Word,
        keys: tuple[str, ...] = (),
        mailbox: Mailbox | None = None,
        refs: tuple[str, ...] = (),
    ) -> Run:
        head = (act, queue, self.session_id, self._keys.bell, self._ttl_ms)
        return Run((*self._keys.of(queue), *keys), (*head, *words), mailbox, refs)

    def _tombstone(self, queue: str, one: str) -> str:
        return self._keys.beside(queue, f"x:{one}")

    def _receipt(self, key: str) -> str:
        return self._keys.beside(key, f"receipt:{self.session_id}")


def _all_of(replies: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return replies, unless one of these is an error; one after which it is asked again comes first."""
    errors = [reply for reply in replies if isinstance(reply, Exception)]
    if errors:
        raise next((one for one in errors if isinstance(one, StoreUnavailable)), errors[0])
    return replies


def _place(entry: Entry) -> tuple[str, int | None]:
    return entry.ticket.queue, entry.token


def _own_targets(targets: tuple[Contender, ...]) -> list[tuple[str, int]]:
    """Return the references and tokens of those that are no foreign contenders."""
    found = ((target.ref, target_of(target.ref)[1]) for target in targets)
    return [(ref, token) for ref, token in found if token >= 0]
