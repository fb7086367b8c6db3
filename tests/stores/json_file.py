"""A store that is a JSON file under a file lock."""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from recipes._contract import operations as ops
from recipes._contract.backend import Backend
from recipes._contract.connection import AsyncConnection, Connection, OnEnd
from recipes._contract.contenders import Ahead, Contender
from recipes._contract.rule import Rule
from recipes._run.clock import boot_time
from recipes._section import section
from recipes.errors import SessionLost
from recipes.guarantees import STORES
from recipes.stores._kit import queue as kit
from recipes.stores._kit.blocking import QueueConnection
from recipes.stores._kit.session import Busy, Observe, Observed, Session
from recipes.stores._kit.tasks import AsyncQueueConnection
from recipes.stores.receipts import Exchanged

EMPTY = '{"token": 0, "sessions": {}, "queues": {}, "values": {}, "receipts": {}, "changes": {}}'


class Step:
    """One operation on all that the file holds, which no other process has meanwhile."""

    def __init__(self, state: dict[str, Any], command: kit.Command, session: JsonSession) -> None:
        self._state, self._command, self._session = state, command, session
        self._now = boot_time()  # which all processes share

    def carry_out(self) -> Any:
        """Do it, and return what the operation returns."""
        sessions, op = self._state["sessions"], self._command.op
        for one in [one for one, (_, ends_at) in sessions.items() if ends_at <= self._now]:
            self._end_session(one)
        if self._command.session not in sessions and not isinstance(op, ops.Open | ops.End):
            raise SessionLost(kit.ENDED)
        return getattr(self, f"_{type(op).__name__.lower()}")(op)

    def _open(self, op: ops.Open) -> ops.Opened:
        self._state["sessions"][self._command.session] = op.ttl_s, self._now + op.ttl_s
        return ops.Opened(self._command.session, op.ttl_s)

    def _renew(self, op: ops.Renew) -> ops.Renewal:
        ttl_s, _ = self._state["sessions"][self._command.session]
        self._state["sessions"][self._command.session] = ttl_s, self._now + ttl_s
        return ops.Renewal(ttl_s, tuple(entry for entry in op.entries if not self._stands(entry)))

    def _end(self, _: ops.End) -> None:
        self._end_session(self._command.session)

    def _end_session(self, session: str) -> None:
        self._state["sessions"].pop(session, None)
        self._state["receipts"].pop(session, None)
        for queue in list(self._state["queues"]):
            for one in self._contenders(queue):
                if one.session == session:
                    self._remove(queue, one.token)

    def _enqueue(self, op: ops.Enqueue) -> ops.Snapshot:
        mine = self._own(op.ticket) or self._join(op.ticket)
        snapshot = self._snapshot(mine, op.rule)
        self._watch_these(kit.watched_on_joining(op.rule, snapshot.ahead, self._command.session)[0])
        return snapshot

    def _probe(self, op: ops.Probe) -> ops.Snapshot | None:
        mine = self._own(op.ticket) if self._command.again else None
        if mine is None and op.rule.blockers(self._contenders(op.ticket.queue)[::-1]):
            return None
        return self._snapshot(mine or self._join(op.ticket), op.rule)

    def _watch(self, op: ops.Watch) -> bool:
        return len(self._as_seen(op, watch=True)) == len(op.targets)

    def _look(self, op: ops.Look) -> ops.Snapshot:
        self._watch_these(op.targets)
        return self._snapshot(op.mine, op.rule)

    def _check(self, op: ops.Check) -> ops.Checked:
        return ops.Checked(self._stands(op.mine), self._as_seen(op, watch=op.evidence is None))

    def _withdraw(self, op: ops.Withdraw) -> bool:
        mine = op.entry or self._own(op.ticket)
        return mine is not None and self._stands(mine) and self._remove(op.ticket.queue, mine.token)

    def _rewrite(self, op: ops.Rewrite) -> int | None:
        found = self._find(op.entry.ticket.queue, op.entry.token)
        if not self._stands(op.entry) or found is None or op.version not in (None, found["version"]):
            return None
        found.update(mark=op.mark, data=op.data.hex(), version=found["version"] + 1)
        self._change(op.entry.ticket.queue)
        return int(found["version"])

    def _list(self, op: ops.List) -> ops.Listing:
        if op.watch:
            self._watch_changes(op.queue)
        return ops.Listing(self._contenders(op.queue)[: op.most])

    def _queues(self, op: ops.Queues) -> tuple[str, ...]:
        return tuple(sorted(self._state["queues"]))[: op.most]

    def _evict(self, op: ops.Evict) -> bool:
        return self._remove(op.queue, op.token)

    def _read(self, op: ops.Read) -> ops.Stored:
        if op.watch:
            self._watch_changes(op.key)
        return self._stored(op.key)

    def _put(self, op: kit.Put) -> Exchanged:
        receipts = self._state["receipts"].setdefault(self._command.session, {})
        put, write, before = op.exchange, op.exchange.write, self._stored(op.exchange.write.key)
        for key, at in op.spent:
            if receipts.get(key, (0, ""))[0] == at:
                del receipts[key]
        version, receipt = receipts.get(write.key, (0, ""))
        guarded = all(map(self._guards, write.guards))
        if not op.fits(version, before.version, guarded=guarded):
            return Exchanged(False, version, receipt.encode(), before, guarded)
        self._state["token"] = version = self._state["token"] + 1
        receipts[write.key] = version, put.receipt.decode()
        if not put.settles:
            self._write(write, version)
        return Exchanged(True, version, put.receipt, self._stored(write.key))

    def _guards(self, guard: ops.Guard) -> bool:
        of = guard.entry
        row = self._find(of.ticket.queue, of.token)
        return self._stands(of) and not (guard.unchanged and row and row["version"])

    def _write(self, write: ops.Write, version: int) -> None:
        if write.data is None:
            self._state["values"].pop(write.key, None)
        else:
            self._state["values"][write.key] = write.data.hex(), version
        self._change(write.key)

    def _stored(self, key: str) -> ops.Stored:
        found = self._state["values"].get(key)
        return ops.Stored() if found is None else ops.Stored(bytes.fromhex(found[0]), found[1])

    def _observe(self, op: Observe) -> Observed:
        rows = {ref: self._find(*kit.target_of(ref)) for ref in op.contenders}
        found = {ref: row for ref, row in rows.items() if row is not None}
        seen, changes = self._session.seen, self._state["changes"]
        changed = tuple(queue for queue in op.queues if seen.get(queue) != changes.get(queue, 0))
        for queue in changed:
            seen.pop(queue, None)
        marks = {ref: row["mark"] for ref, row in found.items() if row["mark"]}
        return Observed(frozenset(found), marks, changed)

    def _contenders(self, queue: str) -> Ahead:
        """Return all that stand in a queue, first come first."""
        rows = self._state["queues"].get(queue, [])
        return tuple(
            Contender(kit.ref_of(queue, row["token"]), **{**row, "data": bytes.fromhex(row["data"])})
            for row in rows
        )

    def _find(self, queue: str, token: int) -> dict[str, Any] | None:
        return next((row for row in self._state["queues"].get(queue, []) if row["token"] == token), None)

    def _stands(self, entry: ops.Entry) -> bool:
        found = self._find(entry.ticket.queue, entry.token)
        return found is not None and found["session"] == self._command.session

    def _own(self, ticket: ops.Ticket) -> ops.Entry | None:
        """Return the entry of an attempt that was made before."""
        found = (one for one in self._contenders(ticket.queue) if one.id == ticket.id)
        return next((ops.Entry(ticket, one.ref, one.token) for one in found), None)

    def _join(self, ticket: ops.Ticket) -> ops.Entry:
        self._state["token"] = token = self._state["token"] + 1
        row = {"token": token, "id": ticket.id, "kind": kit.kind_of(ticket), "session": self._command.session}
        row |= {"mark": "", "owner": ticket.owner, "data": ticket.data.hex(), "version": 0}
        self._state["queues"].setdefault(ticket.queue, []).append(row)
        self._change(ticket.queue)
        return ops.Entry(ticket, kit.ref_of(ticket.queue, token), token)

    def _remove(self, queue: str, token: int) -> bool:
        found = self._find(queue, token)
        if found is None:
            return False
        self._state["queues"][queue].remove(found)
        if not self._state["queues"][queue]:
            del self._state["queues"][queue]
        self._change(queue)
        return True

    def _change(self, queue: str) -> None:
        self._state["changes"][queue] = self._state["changes"].get(queue, 0) + 1

    def _snapshot(self, mine: ops.Entry, rule: Rule) -> ops.Snapshot:
        if not self._stands(mine):
            return ops.Snapshot(None, (), complete=True, position=0)
        before = (one for one in self._contenders(mine.ticket.queue)[::-1] if one.token < mine.token)
        ahead = rule.visible(tuple(before))
        return ops.Snapshot(mine, ahead, complete=True, position=len(ahead))

    def _as_seen(self, op: ops.Watch | ops.Check, *, watch: bool) -> frozenset[str]:
        """Return which targets stand as they were seen."""
        found = {one.ref: one.mark for one in self._contenders(op.mine.ticket.queue)}
        there = tuple(one for one in op.targets if found.get(one.ref) == one.mark)
        if watch:
            self._watch_these(there)
        return frozenset(one.ref for one in there)

    def _watch_changes(self, what: str) -> None:
        """Have the first change of a queue, or of a value, notified."""
        changes = self._state["changes"].get(what, 0)
        self._session.seen.setdefault(what, changes)  # an earlier observer saw less, maybe
        self._session.listen(self._command.mailbox, what)

    def _watch_these(self, targets: Ahead) -> None:
        for target in targets:
            self._session.listen(self._command.mailbox, target.ref)


@contextmanager
def kept(path: str) -> Iterator[dict[str, Any]]:
    """Yield what the file holds, alone; it is written if the block ends well. Never waits."""
    with Path(path).open("a+") as content:
        try:
            fcntl.flock(content, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        content.seek(0)
        state = json.loads(content.read() or EMPTY)
        yield state
        content.truncate(0)
        content.write(json.dumps(state))


class JsonSession(Session):
    """One session: nothing notifies it of what others did, so it looks often."""

    pause_s = 0.01

    def __init__(self, path: str, label: str, on_end: OnEnd) -> None:
        super().__init__(label, on_end)
        self._path = path
        self.seen: dict[str, int] = {}  # how often each queue and value had changed that is observed

    def try_once(self, command: kit.Command, until: float) -> Any:
        """Carry out a command while no other process has the file."""
        with section.mark, kept(self._path) as state:
            return Step(state, command, self).carry_out()

    def close(self, within_s: float) -> None:
        """Nothing is kept open."""


class JsonEngine(Backend):
    """A JSON file."""

    guarantees = STORES["sqlite"]

    def __init__(self, path: str) -> None:
        self._path = path
        self.label = f"json://{path}"

    def protocol(self) -> kit.QueueProtocol:
        """Return the protocol for one session."""
        return kit.QueueProtocol(secrets.token_hex(8))

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        return QueueConnection(JsonSession(self._path, self.label, on_end))

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        return AsyncQueueConnection(JsonSession(self._path, self.label, on_end))


def backend(parts: SplitResult, _: dict[str, Any]) -> tuple[JsonEngine, set[str]]:
    """Return the backend of a URL, and the names of the options that it knows."""
    return JsonEngine(parts.path), set()
