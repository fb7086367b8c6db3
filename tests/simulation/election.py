"""What the clients of a schedule do with an election: campaign, proclaim, observe, look who leads, resign."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from recipes._api.leadership import MOST, BaseElection, Leader
from recipes._api.options import AcquireOptions
from recipes._contract.rule import Rule
from tests.simulation.clients import Cancelled, Client
from tests.simulation.history import Shown, State, said
from tests.simulation.observers import ObservedOracle, looked, observe, say
from tests.simulation.users import Flavour, acquired, given_back, held_for_a_while
from tests.simulation.uses import Use

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from tests.simulation.moving import Task

__all__ = ["ELECTION"]

NAME = "q"
LOOKS = 0.2
PROCLAIMS = (0, 0, 1, 2, 3)


class SimElection(BaseElection):
    """What an election is in both runtimes; its grants are what is held."""

    def _grant_of(self, hold: HeldState) -> HeldState:
        return hold


class ElectionOracle(ObservedOracle):
    """One leader a term, and terms rise: S1 to S4 of the lock; and what the queue shows from outside."""

    def looks(self, state: State) -> Shown:
        return {one.token: one.data.decode() for one in state[:1]}

    def parts(self, shown: Leader | None) -> Shown:
        return {} if shown is None else {shown.token: shown.value}


def campaign(client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]) -> Generator[Any, Any, None]:
    """Campaign, proclaim some values, write, resign; or look who leads."""
    del rules  # an election has one
    oracle, random = client.oracle, client.world.random
    election = SimElection(client.runtime, NAME, max_hold=kind.max_hold_s)
    if random() < LOOKS:
        yield from looked(client, task, election._look())
    began, who = oracle.asking(client), f"{task.name}/{client.new_id()[-4:]}"
    attempt = election._attempt(task, AcquireOptions(data=said(who, 0).encode()))
    attempt.new_id = client.new_id
    hold = yield from acquired(client, task, kind, attempt)
    if hold is None:
        return
    oracle.granted(client, hold, began)
    oracle.begins_with(hold, attempt.data)
    oracle.write(client, hold)
    seconds = kind.holds[int(random() * len(kind.holds))]
    with suppress(Cancelled):  # the with statement resigns all the same
        for number in range(PROCLAIMS[int(random() * len(PROCLAIMS))]):
            yield from say(client, task, hold, said(who, number + 1).encode(), MOST)
        if seconds:
            yield from held_for_a_while(client, task, hold, hold, seconds)
    oracle.write(client, hold)
    yield from given_back(client, task, hold)


def observe_leaders(client: Client, task: Task) -> Generator[Any, Any, None]:
    """See who leads, as long as the client lasts."""
    yield from observe(client, task, *SimElection(client.runtime, NAME)._observed)


ELECTION = Use(campaign, ElectionOracle, ("~election/q",), observer=observe_leaders)
