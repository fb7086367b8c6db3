"""What a barrier is in both runtimes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from recipes._contract.deadline import duration
from recipes._contract.names import queue_of
from recipes._programs.barrier import Party, cross, leave
from recipes._rules.barrier import GivenUp
from recipes._run.runtime import new_id
from recipes.events import titled
from recipes.guarantees import require

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.barrier import Place
    from recipes._run.runtime import Call

__all__ = ["BaseBarrier"]

MOST_PARTIES = 1000


class BaseBarrier:
    """What a barrier is in both runtimes: everything that waits for nothing."""

    def __init__(self, runtime: Any, name: str, parties: int) -> None:
        require("values", runtime.backend.guarantees, runtime.backend.label)
        if isinstance(parties, bool) or not isinstance(parties, int):
            raise TypeError(f"parties is a whole number, not {type(parties).__name__}")
        if not 1 <= parties <= MOST_PARTIES:
            raise ValueError(f"parties={parties}: from 1 to {MOST_PARTIES} fit")
        self._queue = queue_of("barrier", name)
        self._runtime = runtime
        self._name = name
        self._parties = parties
        self._inside: dict[object, tuple[Place, Call]] = {}

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self._name

    @property
    def parties(self) -> int:
        """How many pass together."""
        return self._parties

    def _crossing(self, owner: object, timeout: float | None, *, stays: bool) -> tuple[Program[Place], Call]:
        """Return what waits until all have come."""
        party, call = self._party(owner, timeout)
        if stays and self._is_inside(owner):
            raise RuntimeError(f"this thread or task is inside {self._title}; it has to leave first")
        return cross(party, stays=stays), call

    def _entered(self, owner: object, place: Place, call: Call) -> int:
        """Note that this owner is inside."""
        self._inside[owner] = place, call
        return place.index

    def _leaving(self, owner: object, timeout: float | None) -> tuple[Program[None], Call]:
        """Return what waits until all have left; it is outside from here on, whatever comes of that."""
        party, call = self._party(owner, timeout)
        if owner not in self._inside:
            words = "was not entered by this thread or task; leave it where, and with what, it was entered"
            raise RuntimeError(f"{self._title} {words}")
        place, entered = self._inside[owner]
        call.session, call.ticket, call.entry = entered.session, entered.ticket, entered.entry
        return leave(party, place), call

    def _left(self, owner: object) -> None:
        self._inside.pop(owner, None)

    def _is_inside(self, owner: object) -> bool:
        """Whether this owner entered, and its contender stands, as far as this client knows."""
        found = self._inside.get(owner)
        if found is None:
            return False
        session, ticket = found[1].session, found[1].ticket
        if session is None or ticket is None or session.ended is not None:
            return False
        return session.waiters.stands(ticket.id)

    def _party(self, owner: object, timeout: float | None) -> tuple[Party, Call]:
        within_s = duration("timeout", timeout)
        runtime = self._runtime
        labels = {"name": self._name, "recipe": "barrier", "store": runtime.backend.label}
        number = partial(next, runtime.numbers)
        party = Party(
            self._queue, self._parties, labels, new_id, number, self._given_up, runtime.note, within_s
        )
        # When the time is over this is still to be agreed with the others: that takes an answer of the store.
        whole_s = None if within_s is None else within_s + runtime.settings.request_timeout_s
        call: Call = runtime.call(owner, whole_s)
        return party, call

    def _given_up(self) -> GivenUp:
        """Return what is still to be withdrawn here, and which sessions are still to end."""
        ended = self._runtime.ended_here()
        jobs = list(self._runtime.cleaning.values())
        sessions = {id(one): one for one in (*(job.session for job in jobs), *ended)}.values()
        # Not from the jobs: one is done as its session ends here, which may live on the store for a while.
        given_up = (ticket for session in sessions for ticket in session.waiters.given_up)
        tickets = [ticket for ticket in given_up if ticket.queue == self._queue]
        ids = (session.id for session in ended if session.id)
        return GivenUp(
            frozenset((*ids, *(ticket.id for ticket in tickets))),
            frozenset(int(ticket.data) for ticket in tickets),
        )

    @property
    def _title(self) -> str:
        return titled("barrier", self._name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._parties} on {self._runtime.backend.label}>"
