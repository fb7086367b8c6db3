"""The in-memory store: the same semantics inside one process, for tests and examples.

Sessions expire, contenders are bound to them, the order is a revision that only rises
and is the token. ``memory://`` is private to its client; ``memory://name`` is shared by
all clients of the process.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult

from recipes._contract import operations as ops
from recipes._contract.backend import Backend
from recipes._contract.connection import AsyncConnection, Connection, Mailbox, OnEnd, Request
from recipes._contract.contenders import Contender
from recipes._contract.protocol import StoreProtocol
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Gone
from recipes._forks import free, make_anew
from recipes._mutex import new_rlock
from recipes._run.clock import boot_time
from recipes._section import section
from recipes.errors import SessionLost
from recipes.guarantees import STORES, Guarantees
from recipes.stores._kit.queue import ENDED, Command, Put, QueueProtocol, kind_of
from recipes.stores._kit.subscriptions import Subscriptions
from recipes.stores.receipts import Exchanged

if TYPE_CHECKING:
    from recipes.stores.memory_cell import CellServer

__all__ = ["MemoryBackend", "MemoryServer", "backend"]

NOTHING = ops.Stored()


@dataclass(slots=True)
class _Session:
    ttl_s: float
    expires_at: float


@dataclass(slots=True, eq=False, weakref_slot=True)
class MemoryServer:
    """What several clients share: a store in memory, one step at a time.

    Args:
        now: The clock by which sessions expire.
    """

    guarantees: ClassVar[Guarantees] = STORES["memory"]
    now: Callable[[], float] = boot_time
    sessions: dict[str, _Session] = field(default_factory=dict)
    queues: dict[str, dict[str, Contender]] = field(default_factory=dict)
    watches: Subscriptions = field(default_factory=Subscriptions)
    buried: dict[str, str] = field(default_factory=dict)
    values: dict[str, ops.Stored] = field(default_factory=dict)
    receipts: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    _revision: Any = field(default_factory=lambda: itertools.count(1))
    _lock: Any = None  # its own; or what it is given, which it shares

    def __post_init__(self) -> None:
        if self._lock is None:
            self._lock = new_rlock()
            make_anew(self)

    def after_fork(self) -> None:
        """In a forked child: no call of the parent waits; what it holds stays until its sessions expire."""
        self._lock = free(self._lock)
        self.watches = Subscriptions()

    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session."""
        return MemoryProtocol()

    def handle(self, command: Command) -> Any:
        """Carry out one command, whole."""
        with section.mark, self._lock:
            self.expire()
            op: Any = command.op
            if isinstance(op, ops.Open):
                return self._open(op)
            session = self.sessions.get(command.session)
            if isinstance(op, ops.End):
                return self.end(command.session)
            if session is None:
                raise SessionLost(ENDED)
            act: Any = getattr(self, f"_{type(op).__name__.lower()}")
            return act(op, command)

    def end(self, session_id: str) -> None:
        """End a session: its contenders go, and its tombstones."""
        with self._lock:
            self.sessions.pop(session_id, None)
            self.buried = {ticket: owner for ticket, owner in self.buried.items() if owner != session_id}
            self.receipts = {of: receipt for of, receipt in self.receipts.items() if of[0] != session_id}
            for queue in list(self.queues.values()):
                for contender in list(queue.values()):
                    if contender.session == session_id:
                        self._remove(queue, contender.ref)

    def remove(self, ref: str) -> None:
        """Delete one contender, as an operator would."""
        with self._lock:
            for queue in list(self.queues.values()):
                self._remove(queue, ref)

    def contenders(self) -> list[Contender]:
        """Return all contenders there are."""
        with self._lock:
            self.expire()
            return [contender for queue in self.queues.values() for contender in queue.values()]

    def queue(self, name: str) -> list[Contender]:
        """Return what is in one queue, in order."""
        with self._lock:
            self.expire()
            return list(self.queues.get(name, {}).values())

    def next_expiry(self) -> float:
        """Return when the next session ends unless it is renewed; infinite if there is none."""
        with self._lock:
            return min((session.expires_at for session in self.sessions.values()), default=math.inf)

    def expire(self) -> None:
        """End the sessions whose time is over; every command does it first."""
        now = self.now()
        with self._lock:
            for session_id in [key for key, session in self.sessions.items() if session.expires_at <= now]:
                self.end(session_id)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of one call."""
        if not self.watches.knows(mailbox):  # those of this call were made in it
            return
        with section.mark, self._lock:
            self.watches.forget(mailbox)

    def _open(self, op: ops.Open) -> ops.Opened:
        session_id = f"{next(self._revision):x}"
        self.sessions[session_id] = _Session(op.ttl_s, self.now() + op.ttl_s)
        return ops.Opened(session_id, op.ttl_s)

    def _renew(self, op: ops.Renew, command: Command) -> ops.Renewal:
        session = self.sessions[command.session]
        session.expires_at = self.now() + session.ttl_s
        return ops.Renewal(session.ttl_s, tuple(entry for entry in op.entries if not self._stands(entry)))

    def _enqueue(self, op: ops.Enqueue, command: Command) -> ops.Snapshot:
        if op.ticket.id in self.buried:
            raise SessionLost("its contender was withdrawn")
        queue = self.queues.setdefault(op.ticket.queue, {})
        ref = _ref(op.ticket)
        if ref in queue:
            return self._snapshot(ops.Entry(op.ticket, ref, queue[ref].token), op.rule)
        ticket, token = op.ticket, next(self._revision)
        queue[ref] = Contender(
            ref, ticket.id, kind_of(ticket), command.session, "", token, ticket.owner, ticket.data
        )
        self.watches.post(Changed(ticket.queue))
        return replace(self._snapshot(ops.Entry(ticket, ref, token), op.rule), as_of=token)

    def _probe(self, op: ops.Probe, command: Command) -> ops.Snapshot | None:
        queue = self.queues.get(op.ticket.queue, {})
        if _ref(op.ticket) not in queue:
            everybody = tuple(reversed(queue.values()))
            if op.rule.blockers(everybody):
                return None
        return self._enqueue(ops.Enqueue(op.ticket, op.rule), command)

    def _watch(self, op: ops.Watch, command: Command) -> bool:
        there = all(self._as_seen(op.mine.ticket.queue, target) for target in op.targets)
        if there:
            self._arm(op.targets, command)
        return there

    def _look(self, op: ops.Look, command: Command) -> ops.Snapshot:
        self._arm(op.targets, command)
        return self._snapshot(op.mine, op.rule)

    def _check(self, op: ops.Check, command: Command) -> ops.Checked:
        if op.evidence is None:
            self._arm(op.targets, command)
        queue = op.mine.ticket.queue
        present = (target.ref for target in op.targets if self._as_seen(queue, target))
        return ops.Checked(self._stands(op.mine), frozenset(present))

    def _withdraw(self, op: ops.Withdraw, command: Command) -> bool:
        if op.entry is None:
            self.buried[op.ticket.id] = command.session
        return self._remove(self.queues.get(op.ticket.queue, {}), _ref(op.ticket))

    def _rewrite(self, op: ops.Rewrite, command: Command) -> int | None:
        if not self._stands(op.entry):
            return None
        queue = self.queues[op.entry.ticket.queue]
        before = queue[op.entry.ref]
        if op.version not in (None, before.version):
            return None
        queue[op.entry.ref] = replace(before, mark=op.mark, data=op.data, version=before.version + 1)
        for ref in (op.entry.ref, op.entry.ticket.queue):
            self.watches.post(Changed(ref))
        return before.version + 1

    def _evict(self, op: ops.Evict, command: Command) -> bool:
        queue = self.queues.get(op.queue, {})
        found = queue.get(op.ref)
        return found is not None and found.token == op.token and self._remove(queue, op.ref)

    def _list(self, op: ops.List, command: Command) -> ops.Listing:
        if op.watch:
            self.watches.add(command.mailbox, op.queue)
        return ops.Listing(tuple(itertools.islice(self.queues.get(op.queue, {}).values(), op.most)))

    def _queues(self, op: ops.Queues, command: Command) -> tuple[str, ...]:
        return tuple(sorted(name for name, queue in self.queues.items() if queue)[: op.most])

    def _read(self, op: ops.Read, command: Command) -> ops.Stored:
        if op.watch:
            self.watches.add(command.mailbox, op.key)
        return self.values.get(op.key, NOTHING)

    def _put(self, op: Put, command: Command) -> Exchanged:
        put, write, of = op.exchange, op.exchange.write, (command.session, op.exchange.write.key)
        for key, at in op.spent:
            if self.receipts.get((command.session, key), (0, b""))[0] == at:
                del self.receipts[command.session, key]
        version, receipt = self.receipts.get(of, (0, b""))
        before = self.values.get(write.key, NOTHING)
        guarded = all(self._guards(guard) for guard in write.guards)
        if not op.fits(version, before.version, guarded=guarded):
            return Exchanged(False, version, receipt, before, guarded)
        version = next(self._revision)
        self.receipts[of] = version, put.receipt
        if not put.settles:
            self._write(write, version)
        return Exchanged(True, version, put.receipt, self.values.get(write.key, NOTHING))

    def _write(self, write: ops.Write, version: int) -> None:
        if write.data is None:
            self.values.pop(write.key, None)
        else:
            self.values[write.key] = ops.Stored(write.data, version)
        self.watches.post(Changed(write.key))

    def _snapshot(self, mine: ops.Entry, rule: Rule) -> ops.Snapshot:
        if not self._stands(mine):
            return ops.Snapshot(None, (), complete=True, position=0)
        queue = self.queues[mine.ticket.queue]
        everybody = (one for one in reversed(queue.values()) if one.token < mine.token)
        ahead = rule.visible(tuple(everybody))
        return ops.Snapshot(mine, ahead, complete=True, position=len(ahead))

    def _arm(self, targets: tuple[Contender, ...], command: Command) -> None:
        for target in targets:
            self.watches.add(command.mailbox, target.ref)

    def _as_seen(self, queue: str, target: Contender) -> bool:
        found = self.queues.get(queue, {}).get(target.ref)
        return found is not None and found.mark == target.mark

    def _stands(self, entry: ops.Entry) -> bool:
        found = self.queues.get(entry.ticket.queue, {}).get(entry.ref)
        return found is not None and found.token == entry.token

    def _guards(self, guard: ops.Guard) -> bool:
        of = guard.entry
        return self._stands(of) and not (guard.unchanged and self.queues[of.ticket.queue][of.ref].version)

    def _remove(self, queue: dict[str, Contender], ref: str) -> bool:
        if queue.pop(ref, None) is None:
            return False
        name = ref.rpartition("/")[0]
        if not queue and self.queues.get(name) is queue:
            del self.queues[name]
        self.watches.post(Gone(ref))
        self.watches.post(Changed(name))
        return True


def _ref(ticket: ops.Ticket) -> str:
    return f"{ticket.queue}/{ticket.kind}-{ticket.id}"


class MemoryProtocol(QueueProtocol):
    """One session with a store in memory; joining watches nothing there, so that tests see each `Watch`."""

    enqueue = QueueProtocol._pass_on  # noqa: SLF001 - of the class itself


class MemoryConnection(Connection):
    """The blocking way to a store in memory."""

    def __init__(self, server: MemoryServer | CellServer) -> None:
        self._server = server

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, at once."""
        assert isinstance(request, Command), f"{request!r} should be a Command"
        return self._server.handle(request)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of one call."""
        self._server.forget(mailbox)

    def close(self) -> None:
        """Nothing to let go of."""


class AsyncMemoryConnection(AsyncConnection):
    """The asyncio way to a store in memory."""

    def __init__(self, server: MemoryServer | CellServer) -> None:
        self._blocking = MemoryConnection(server)

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, once the loop has gone on, as it does while a server answers."""
        from asyncio import sleep  # noqa: PLC0415 - not for threads

        await sleep(0)
        return self._blocking.ask(request, timeout_s)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of one call."""
        self._blocking.forget(mailbox)

    def for_another_loop(self) -> AsyncConnection:
        """Return this connection: it does not depend on a loop."""
        return self

    async def close(self) -> None:
        """Nothing to let go of."""


class MemoryBackend(Backend):
    """A store in memory."""

    _shared: ClassVar[dict[str, MemoryServer]] = {}
    _made_by: ClassVar[dict[str, Callable[[], MemoryBackend]]] = {}

    def __init__(self, server: MemoryServer | CellServer, label: str = "memory://") -> None:
        self.server = server
        self.guarantees = server.guarantees
        self.label = label

    @classmethod
    def named(cls, name: str) -> MemoryBackend:
        """Return the backend of the store of this name in this process; an empty name is a new one."""
        if name in cls._made_by:
            return cls._made_by[name]()
        server = cls._shared.setdefault(name, MemoryServer()) if name else MemoryServer()
        return cls(server, f"memory://{name}")

    @classmethod
    def register(cls, name: str, make: Callable[[], MemoryBackend] | None) -> None:
        """Have ``memory://name`` mean what ``make`` returns, for each client anew; None: no more."""
        if make is None:
            cls._made_by.pop(name, None)
        else:
            cls._made_by[name] = make

    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session."""
        return self.server.protocol()

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        return MemoryConnection(self.server)

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        return AsyncMemoryConnection(self.server)


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[MemoryBackend, set[str]]:
    """Return the backend of the store that a URL names; there are no options of its own.

    Raises:
        ValueError: The URL has a path.
    """
    del options
    if parts.path.strip("/"):
        raise ValueError("memory:// takes a name and no path: memory:// (private) or memory://name")
    return MemoryBackend.named(parts.netloc), set()
