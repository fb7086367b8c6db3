"""A cell store in memory: one holder of each name and no queue, as Memcached or Redlock; for tests."""

from __future__ import annotations

import itertools
import math
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from recipes._contract.connection import Mailbox
from recipes._contract.contenders import Contender
from recipes._contract.operations import Open, Opened
from recipes._forks import free, make_anew
from recipes._mutex import new_rlock
from recipes._run.clock import boot_time
from recipes._section import section
from recipes.guarantees import CELL, Guarantees
from recipes.stores._kit.cell import Cell, CellProtocol, Claim, Drop, Keep, Peek, Take, shown
from recipes.stores._kit.queue import Command

__all__ = ["CellServer"]

FREE = Cell()


@dataclass(slots=True, eq=False, weakref_slot=True)
class CellServer:
    """What several clients share: some cells in memory, one act at a time; it notifies nobody.

    Args:
        now: The clock by which leases end.
    """

    guarantees: ClassVar[Guarantees] = CELL
    now: Callable[[], float] = boot_time
    cells: dict[str, tuple[str, int, float]] = field(default_factory=dict)  # value, token, when it ends
    _lock: Any = None  # its own; or what it is given, which it shares
    _tokens: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        if self._lock is None:
            self._lock = new_rlock()
            make_anew(self)

    def after_fork(self) -> None:
        """In a forked child: no thread of the parent's is in the middle of an act."""
        self._lock = free(self._lock)

    def protocol(self) -> CellProtocol:
        """Return the protocol for one session."""
        return CellProtocol(uuid.uuid4().hex, random.random)

    def handle(self, command: Command) -> Any:
        """Carry out one act, whole."""
        op = command.op
        with section.mark, self._lock:
            match op:
                case Open():
                    return Opened(command.session, op.ttl_s)
                case Take():
                    mine = self.cell(op.cell)
                    if mine.value in ("", op.value):
                        token = mine.token or next(self._tokens)
                        self.cells[op.cell] = op.value, token, self.now() + op.ttl_s
                    return self.cell(op.cell)
                case Peek():
                    return self.cell(op.cell)
                case Keep():
                    return tuple(self._keep(claim, op.ttl_s) for claim in op.claims)
                case Drop():
                    return tuple(self._drop(claim) for claim in op.claims)
                case _:
                    raise AssertionError(f"{op!r} should be an act")

    def forget(self, mailbox: Mailbox) -> None:
        """Do nothing: no watch is there."""

    def cell(self, name: str) -> Cell:
        """Return what a cell is now."""
        self.expire()
        value, token, ends_at = self.cells.get(name, ("", 0, 0.0))
        return Cell(value, token, ends_at - self.now()) if value else FREE

    def write(self, name: str, value: str, ttl_s: float = math.inf, *, token: int | None = None) -> None:
        """Write a cell, as another program would; with a token of 0 where the store has none for it."""
        with self._lock:
            self.cells[name] = value, next(self._tokens) if token is None else token, self.now() + ttl_s

    def remove(self, ref: str) -> None:
        """Free a cell, as an operator would."""
        with self._lock:
            self.cells.pop(ref, None)

    def end(self, session_id: str) -> None:
        """Free all cells of a session, as if their leases were over."""
        with self._lock:
            for name, (value, *_) in list(self.cells.items()):
                if value.startswith(f"{session_id}/"):
                    self.cells.pop(name)

    def queue(self, name: str) -> list[Contender]:
        """Return what holds."""
        with self._lock:
            return list(shown(name, self.cell(name)))

    def next_expiry(self) -> float:
        """Return when the next lease ends unless it is renewed; infinite if there is none."""
        with self._lock:
            return min((ends_at for _, _, ends_at in self.cells.values()), default=math.inf)

    def expire(self) -> None:
        """Free the cells whose leases are over."""
        now = self.now()
        with self._lock:
            for name in [name for name, (_, _, ends_at) in self.cells.items() if ends_at <= now]:
                self.cells.pop(name)

    def _keep(self, claim: Claim, ttl_s: float) -> bool:
        name, value = claim
        found = self.cell(name)
        if found.value != value:
            return False
        self.cells[name] = value, found.token, self.now() + ttl_s
        return True

    def _drop(self, claim: Claim) -> bool:
        name, value = claim
        return self.cell(name).value == value and self.cells.pop(name, None) is not None
