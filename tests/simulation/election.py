"""What the clients of a schedule do with an election: campaign, proclaim, observe, look who leads, resign."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recipes._contract.rule import Rule
from recipes._programs.observing import Observed
from recipes._programs.queueing import Attempt
from recipes._programs.rewriting import rewrite
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run.interpreter import Receive
from recipes.errors import SessionLost, StoreError
from tests.simulation.clients import Cancelled, Client
from tests.simulation.history import said
from tests.simulation.observers import ObservedOracle, looks, observes
from tests.simulation.users import Flavour, acquired, given_back, labels
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from tests.simulation.moving import Task

__all__ = ["QUEUE", "ElectionOracle", "campaign", "observe_leaders"]

QUEUE = "~election/q"
LABELS = labels("election")
LOOKS = 0.2
PROCLAIMS = (0, 0, 1, 2, 3)
PATIENCE_S = (0.005, 0.05, 1.0)
"""How long one waits until it gives a proclamation up."""


class ElectionOracle(ObservedOracle):
    """One leader a term, and terms rise: S1 to S4 of the lock; and what its queue shows from outside.

    H6: what was proclaimed was shown when the call returned.
    """

    def proclaimed(self, client: Client, hold: HeldState, data: bytes, began: int, *, stands: bool) -> None:
        """A proclamation returned, with the word that it was done, or that the leadership is lost."""
        token = hold.entry.token
        self.world.note(client.name, "proclaimed" if stands else "is no leader", token, data)
        if stands:
            if not self.history.landed(token, data, began):
                raise Violation(f"H6: {data!r} of token {token} was proclaimed, and never shown")
            return
        gone = all(one.token != token for one in self.history.states[-1])
        if not gone and hold.session.ended is None:
            raise Violation(f"H6: token {token} stands, and its proclamation found it gone")
        if self.holds(client, hold):
            raise Violation(f"H6: token {token} is gone, and held")


def campaign(
    client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]
) -> Generator[Any, Any, None]:
    """Campaign, proclaim some values, write, resign; or look who leads."""
    del rules  # an election has one
    oracle, random = client.oracle, client.world.random
    if random() < LOOKS:
        yield from looks(client, task, QUEUE, 1)
    began, who = oracle.asking(client), f"{task.name}-{client.new_id()[-4:]}"
    attempt = Attempt(QUEUE, EXCLUSIVE, client.new_id, LABELS, data=said(who, 0))
    hold = yield from acquired(client, task, replace(kind, tries=0.0), attempt)
    assert hold is not None
    oracle.granted(client, hold, began)
    oracle.write(client, hold)
    seconds = kind.holds[int(random() * len(kind.holds))]
    with suppress(Cancelled):  # the with statement resigns all the same
        for number in range(PROCLAIMS[int(random() * len(PROCLAIMS))]):
            yield from _proclaim(client, task, hold, said(who, number + 1))
        if seconds:
            client.runtime.begin(task, None)
            yield Receive(seconds)
    oracle.write(client, hold)
    yield from given_back(client, task, hold)


def _proclaim(client: Client, task: Task, hold: HeldState, data: bytes) -> Generator[Any, Any, None]:
    """Proclaim something, unless it leads no more; now and then it gives up before there is an answer."""
    runtime, oracle, random = client.runtime, client.oracle, client.world.random
    if hold.remaining(runtime.now()) <= 0:
        return
    began = oracle.history.now
    call = runtime.begin(task, PATIENCE_S[int(random() * len(PATIENCE_S))], fail_fast=True)
    call.session = hold.session
    with suppress(StoreError, SessionLost, Cancelled):
        stands = yield from client.run(task, call, rewrite(hold, "", data, 1))
        oracle.proclaimed(client, hold, data, began, stands=stands)


def observe_leaders(client: Client, task: Task) -> Generator[Any, Any, None]:
    """See who leads, as long as the client lasts."""
    yield from observes(client, task, Observed(QUEUE, 1))
