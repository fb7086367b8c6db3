"""The in-memory store: the same semantics inside one process, for tests and examples.

Sessions expire, contenders are bound to them, the order is a revision that only rises
and is the token. ``memory://`` is private to its client; ``memory://name`` is shared by
all clients of the process.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from urllib.parse import SplitResult

from recipes._contract import operations as ops
from recipes._contract.backend import Engine
from recipes._contract.connection import AsyncLink, Link, Mailbox, OnEnd, Request
from recipes._contract.contenders import Contender
from recipes._contract.rule import Order
from recipes._contract.wakeups import Changed, Gone
from recipes._run.clock import boot_time
from recipes._section import section
from recipes.errors import SessionLost
from recipes.guarantees import STORES
from recipes.stores._kit.queue import ENDED, Command, QueueProtocol, kind_of
from recipes.stores._kit.subscriptions import Subscriptions

__all__ = ["MemoryEngine", "MemoryServer", "engine"]


@dataclass(slots=True)
class _Session:
    ttl_s: float
    expires_at: float


@dataclass(slots=True)
class MemoryServer:
    """What several clients share: a store in memory, one step at a time.

    Args:
        now: The clock by which sessions expire.
    """

    now: Callable[[], float] = boot_time
    sessions: dict[str, _Session] = field(default_factory=dict)
    queues: dict[str, dict[str, Contender]] = field(default_factory=dict)
    watches: Subscriptions = field(default_factory=Subscriptions)
    buried: dict[str, str] = field(default_factory=dict)
    _revision: Any = field(default_factory=lambda: itertools.count(1))
    _lock: Any = field(default_factory=threading.RLock)

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
            self.buried = {spot: owner for spot, owner in self.buried.items() if owner != session_id}
            for queue in list(self.queues.values()):
                for contender in list(queue.values()):
                    if contender.session == session_id:
                        self._remove(queue, contender.ref)

    def remove(self, ref: str) -> None:
        """Delete one contender, as an operator would."""
        with self._lock:
            for queue in self.queues.values():
                self._remove(queue, ref)

    def contenders(self) -> list[Contender]:
        """Return all contenders there are."""
        with self._lock:
            self.expire()
            return [contender for queue in self.queues.values() for contender in queue.values()]

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
        if not self.watches:  # nobody's; those of this call were made in it
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
        return ops.Renewal(session.ttl_s, tuple(place for place in op.places if not self._stands(place)))

    def _enqueue(self, op: ops.Enqueue, command: Command) -> ops.View:
        if op.spot.id in self.buried:
            raise SessionLost("its contender was withdrawn")
        queue = self.queues.setdefault(op.spot.queue, {})
        ref = _ref(op.spot)
        if ref in queue:
            return self._view(ops.Place(op.spot, ref, queue[ref].token), op.order)
        spot, token = op.spot, next(self._revision)
        queue[ref] = Contender(ref, spot.id, kind_of(spot), command.session, "", token, spot.owner, spot.data)
        self.watches.post(Changed(spot.queue))
        return replace(self._view(ops.Place(spot, ref, token), op.order), as_of=token)

    def _probe(self, op: ops.Probe, command: Command) -> ops.View | None:
        queue = self.queues.get(op.spot.queue, {})
        if _ref(op.spot) not in queue:
            everybody = tuple(reversed(queue.values()))
            if op.order.blockers(everybody):
                return None
        return self._enqueue(ops.Enqueue(op.spot, op.order), command)

    def _watch(self, op: ops.Watch, command: Command) -> bool:
        there = all(self._as_seen(op.mine.spot.queue, target) for target in op.targets)
        if there:
            self._arm(op.targets, command)
        return there

    def _look(self, op: ops.Look, command: Command) -> ops.View:
        self._arm(op.targets, command)
        return self._view(op.mine, op.order)

    def _check(self, op: ops.Check, command: Command) -> ops.Checked:
        if op.evidence is None:
            self._arm(op.targets, command)
        queue = op.mine.spot.queue
        present = (target.ref for target in op.targets if self._as_seen(queue, target))
        return ops.Checked(self._stands(op.mine), frozenset(present))

    def _withdraw(self, op: ops.Withdraw, command: Command) -> bool:
        if op.place is None:
            self.buried[op.spot.id] = command.session
        return self._remove(self.queues.get(op.spot.queue, {}), _ref(op.spot))

    def _rewrite(self, op: ops.Rewrite, command: Command) -> int | None:
        if not self._stands(op.place):
            return None
        queue = self.queues[op.place.spot.queue]
        before = queue[op.place.ref]
        if op.version not in (None, before.version):
            return None
        queue[op.place.ref] = replace(before, mark=op.mark, data=op.data, version=before.version + 1)
        for ref in (op.place.ref, op.place.spot.queue):
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

    def _view(self, mine: ops.Place, order: Order) -> ops.View:
        if not self._stands(mine):
            return ops.View(None, (), complete=True, position=0)
        queue = self.queues[mine.spot.queue]
        everybody = (one for one in reversed(queue.values()) if one.token < mine.token)
        ahead = order.visible(tuple(everybody))
        return ops.View(mine, ahead, complete=True, position=len(ahead))

    def _arm(self, targets: tuple[Contender, ...], command: Command) -> None:
        for target in targets:
            self.watches.add(command.mailbox, target.ref)

    def _as_seen(self, queue: str, target: Contender) -> bool:
        found = self.queues.get(queue, {}).get(target.ref)
        return found is not None and found.mark == target.mark

    def _stands(self, place: ops.Place) -> bool:
        found = self.queues.get(place.spot.queue, {}).get(place.ref)
        return found is not None and found.token == place.token

    def _remove(self, queue: dict[str, Contender], ref: str) -> bool:
        if queue.pop(ref, None) is None:
            return False
        self.watches.post(Gone(ref))
        self.watches.post(Changed(ref.rpartition("/")[0]))
        return True


def _ref(spot: ops.Spot) -> str:
    return f"{spot.queue}/{spot.kind}-{spot.id}"


class MemoryProtocol(QueueProtocol):
    """One session with a store in memory; joining watches nothing there, so that tests see each `Watch`."""

    enqueue = QueueProtocol._pass_on  # noqa: SLF001 - of the class itself


class MemoryLink(Link):
    """The blocking way to a store in memory."""

    def __init__(self, server: MemoryServer) -> None:
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


class AsyncMemoryLink(AsyncLink):
    """The asyncio way to a store in memory."""

    def __init__(self, server: MemoryServer) -> None:
        self._blocking = MemoryLink(server)

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, at once."""
        return self._blocking.ask(request, timeout_s)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of one call."""
        self._blocking.forget(mailbox)

    def for_another_loop(self) -> AsyncLink:
        """Return this link: it does not depend on a loop."""
        return self

    async def close(self) -> None:
        """Nothing to let go of."""


class MemoryEngine(Engine):
    """A store in memory."""

    guarantees = STORES["memory"]
    _shared: ClassVar[dict[str, MemoryServer]] = {}
    _made_by: ClassVar[dict[str, Callable[[], MemoryEngine]]] = {}

    def __init__(self, server: MemoryServer, label: str = "memory://") -> None:
        self.server = server
        self.label = label

    @classmethod
    def named(cls, name: str) -> MemoryEngine:
        """Return the engine of the store of this name in this process; an empty name is a new one."""
        if name in cls._made_by:
            return cls._made_by[name]()
        server = cls._shared.setdefault(name, MemoryServer()) if name else MemoryServer()
        return cls(server, f"memory://{name}")

    @classmethod
    def register(cls, name: str, make: Callable[[], MemoryEngine] | None) -> None:
        """Have ``memory://name`` mean what ``make`` returns, for each client anew; None: no more."""
        if make is None:
            cls._made_by.pop(name, None)
        else:
            cls._made_by[name] = make

    def protocol(self) -> MemoryProtocol:
        """Return the protocol for one session."""
        return MemoryProtocol()

    def link(self, on_end: OnEnd) -> Link:
        """Return a new blocking link."""
        return MemoryLink(self.server)

    def async_link(self, on_end: OnEnd) -> AsyncLink:
        """Return a new asyncio link."""
        return AsyncMemoryLink(self.server)


def engine(parts: SplitResult, options: dict[str, Any]) -> tuple[MemoryEngine, set[str]]:
    """Return the engine of the store that a URL names; there are no options of its own.

    Raises:
        ValueError: The URL has a path.
    """
    del options
    if parts.path.strip("/"):
        raise ValueError("memory:// takes a name and no path: memory:// (private) or memory://name")
    return MemoryEngine.named(parts.netloc), set()
