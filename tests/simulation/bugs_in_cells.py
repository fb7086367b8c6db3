"""Bugs to plant in the protocol of cell stores, and in what a store does for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.operations import Renewal
from recipes.errors import StoreUnavailable
from recipes.stores._kit.cell import CellProtocol
from recipes.stores.memory_cell import CellServer
from tests.simulation.bugs import swap


def events_are_proofs() -> list[Any]:
    """A snapshot says that it shows all ahead, so that what has gone is checked and not taken (10.4)."""

    def taken(self: Any, ticket: Any, context: Any) -> Any:
        snapshot = yield from original(self, ticket, context)
        return replace(snapshot, complete=True, cheap=False)

    original = CellProtocol._taken
    return swap(CellProtocol, "_taken", taken)


def renewals_name_nothing() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        cells, self._cells = self._cells, {}
        try:
            return (yield from original(self, op, context))
        finally:
            self._cells = {**cells, **self._cells}

    original = CellProtocol.renew
    return swap(CellProtocol, "renew", renew)


def silence_renews() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        try:
            return (yield from original(self, op, context))
        except StoreUnavailable:
            return Renewal(self._ttl_s)

    original = CellProtocol.renew
    return swap(CellProtocol, "renew", renew)


def nothing_is_missing() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        renewal = yield from original(self, op, context)
        return replace(renewal, missing=())

    original = CellProtocol.renew
    return swap(CellProtocol, "renew", renew)


def what_is_in_doubt_is_not_dropped() -> list[Any]:
    def withdraw(self: Any, op: Any, context: Any) -> Any:
        if op.ticket.id in self._doubted:
            return True
        return (yield from original(self, op, context))

    original = CellProtocol.withdraw
    return swap(CellProtocol, "withdraw", withdraw)


def drops_whatever_is_there() -> list[Any]:
    """A plain delete, as many programs have it: the cell may be another's by now."""
    return swap(
        CellServer, "_drop", lambda self, claim: bool(self.cell(claim[0]).value and self.cells.pop(claim[0]))
    )


def keeps_whatever_is_there() -> list[Any]:
    """A plain touch: the lease of another is prolonged, and its cell taken for one's own."""

    def keep(self: Any, claim: Any, ttl_s: float) -> bool:
        found = self.cell(claim[0])
        if found.value:
            self.cells[claim[0]] = found.value, found.token, self.now() + ttl_s
        return bool(found.value)

    return swap(CellServer, "_keep", keep)
