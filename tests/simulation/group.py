"""What the clients of a schedule do with a group: join, update, watch, list the members, leave."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from recipes._api.membership import ALL, BaseGroup, BaseMembership, Member, shown
from recipes._contract.contenders import Contender
from recipes._contract.rule import Rule
from recipes._rules.members import new_member
from tests.simulation.clients import Cancelled, Client
from tests.simulation.history import Shown, State, said
from tests.simulation.observers import ObservedOracle, looked, observe, say
from tests.simulation.standing import Stands
from tests.simulation.users import Flavour, acquired, given_back, held_for_a_while
from tests.simulation.uses import Use
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from tests.simulation.moving import Task

__all__ = ["GROUP"]

NAME = "q"
FIXED = ("a", "a", "b", "")
"""Under which ids they join; empty: one of its own."""
LOOKS = 0.2
UPDATES = (0, 0, 1, 2, 3)


class SimGroup(BaseGroup):
    """What a group is in both runtimes; its grants are what is held."""

    def _grant_of(self, hold: HeldState) -> HeldState:
        return hold

    def joining(self, member_id: str, *, new: bool) -> SimGroup:
        """Return this group as a member joins it, under an id of its own or one that others may have."""
        joining = self._joining(member_id)
        if new:
            joining._rule = new_member(member_id)
        return joining

    def members(self) -> Program[tuple[Member, ...]]:
        """Return the members."""
        listing = yield from self._looking()
        return shown(listing.contenders)


class SimMembership(BaseMembership):
    """What membership is in both runtimes."""

    def __init__(self, hold: HeldState) -> None:
        self._hold = hold


def _id_of(one: Stands) -> str:
    return one.data.partition(b"\n")[0].decode()


class GroupOracle(ObservedOracle):
    """An id has one member at a time: the first that came under it; others do not matter to it."""

    # A member knows all that were ahead of it. If those behind the first go, it moves up to that one, also
    # when that has left, which its client does not know yet as the answer is late.
    woken_by_one = 3

    def looks(self, state: State) -> Shown:
        return {_id_of(one): one.data.partition(b"\n")[2] for one in self.free(list(state))}

    def parts(self, shown: tuple[Member, ...]) -> Shown:
        parts = {one.id: one.data for one in shown}
        if len(parts) < len(shown):
            raise Violation(f"G1: an id has two members: {shown}")
        return parts

    def free(self, standing: list[Stands]) -> list[Stands]:
        first: dict[str, Stands] = {}
        for one in standing:
            if first.setdefault(_id_of(one), one).kind != one.kind:
                raise Violation(f"G1: {one} and {first[_id_of(one)]} do not exclude each other")
        return list(first.values())

    def blocked(self, kind: str, ahead: list[Stands]) -> bool:
        return any(one.kind == kind for one in ahead)

    def may_hold(self, together: list[Contender]) -> bool:
        return len({one.kind for one in together}) == len(together)

    def fenced(self, hold: HeldState) -> Any:
        return hold.entry.ticket.kind


def join(client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]) -> Generator[Any, Any, None]:
    """Join, update some times, write, leave; or list the members."""
    del rules  # each id has its own
    oracle, random = client.oracle, client.world.random
    group = SimGroup(client.runtime, NAME)
    if random() < LOOKS:
        yield from looked(client, task, group.members())
    began, who = oracle.asking(client), f"{task.name}/{client.new_id()[-4:]}"
    fixed = FIXED[int(random() * len(FIXED))]
    joining = group.joining(fixed or client.new_id(), new=not fixed)
    attempt = joining._attempt(task, joining._saying(said(who, 0).encode(), None))
    attempt.new_id = client.new_id
    hold = yield from acquired(client, task, kind, attempt)
    if hold is None:
        return
    oracle.granted(client, hold, began)
    oracle.begins_with(hold, attempt.data)
    oracle.write(client, hold)
    membership = SimMembership(hold)
    seconds = kind.holds[int(random() * len(kind.holds))]
    with suppress(Cancelled):  # the with statement leaves all the same
        for number in range(UPDATES[int(random() * len(UPDATES))]):
            says = membership._saying(said(who, number + 1).encode())
            yield from say(client, task, hold, says, ALL)
        if seconds:
            yield from held_for_a_while(client, task, hold, hold, seconds)
    oracle.write(client, hold)
    yield from given_back(client, task, hold)


def watch(client: Client, task: Task) -> Generator[Any, Any, None]:
    """Watch the members, as long as the client lasts."""
    yield from observe(client, task, client.runtime, SimGroup(client.runtime, NAME)._observed(), shown)


GROUP = Use(join, GroupOracle, ("~group/q",), observer=watch)
