"""What the clients of a schedule do with partitions: join, share items, work on the own ones, leave."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from recipes._api.membership import ALL
from recipes._contract.contenders import Contender
from recipes._contract.deadline import Expired
from recipes._contract.names import queue_of
from recipes._contract.rule import Rule
from recipes._programs.queueing import Attempt
from recipes._programs.rewriting import rewrite
from recipes._programs.sharing import Over
from recipes._rules.sharing import Sharing
from recipes._run.effects import Receive
from recipes.errors import ClientClosed, LockLost, SessionLost, StoreError
from recipes.group import Membership
from recipes.partition import Assignment, Partitions
from tests.simulation.clients import Cancelled, Client
from tests.simulation.faults import remove
from tests.simulation.group import GroupOracle, SimGroup
from tests.simulation.oracles import Oracle
from tests.simulation.standing import Stands
from tests.simulation.users import Flavour, acquired, given_back
from tests.simulation.uses import Use
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from recipes.grant import Grant
    from tests.simulation.moving import Task

__all__ = ["PARTITIONS"]

NAME = "q"
GROUP = queue_of("group", NAME)
ITEMS = tuple("abcde")
QUEUES = {item: queue_of("partition", f"{NAME}/{item}") for item in ITEMS}
STEPS = (1, 2, 3, 4, 6)
WITHIN_S = (0.01, 0.3, 2.0)
UPDATES = 0.3
ONLY_JOINS = 0.2
CLOSES = 0.6  # before it leaves the group; else its leaving does
RESTS_S, REMOVES_S = 40.0, 28.0
STAYS_S = 6.0
STAYING = Flavour("stays", (0.0,), (10.0, 10.0), tries=0.0)
"""Of who joins at last: a store that has just started, or a way that has just healed, may let it wait."""


class SimPartitions(Partitions):
    """Partitions whose contenders have ids that are not drawn at random."""

    def _attempt(self, item: str) -> Attempt:
        attempt = super()._attempt(item)
        attempt.new_id = self._runtime.client.new_id
        return attempt


class PartitionOracle(Oracle):
    """No item has two holders: S1 to S4 of the lock, for each; and nobody loses one while it works on it.

    P1: what was given to a user is held until it is done with it, unless the user released or lost it.
    P2: at rest every item has one holder, which is the member that it belongs to, and is given to its user.
    """

    woken_by_one = GroupOracle.woken_by_one

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.remover: Any = None
        self.given: dict[Task, dict[str, Grant]] = {}
        self.resting: dict[str, set[str]] = {}

    def free(self, standing: list[Stands]) -> list[Stands]:
        first: dict[str, Stands] = {}
        for one in standing:
            first.setdefault(one.kind, one)
        return list(first.values())

    def blocked(self, kind: str, ahead: list[Stands]) -> bool:
        return any(one.kind == {"lock": "W"}.get(kind, kind) or one.kind == kind for one in ahead)

    def may_hold(self, together: list[Contender]) -> bool:
        return len({one.kind for one in together}) == len(together)

    def fenced(self, hold: HeldState) -> Any:
        return hold.entry.ticket.queue, hold.entry.ticket.kind

    def steps(self, task: Task) -> None:
        """A user asks for its next assignment: until now it worked on what it was given."""
        for item, grant in self.given.pop(task, {}).items():
            if grant._hold.released:
                raise Violation(f"P1: {item} was given back while {task.name} worked on it")

    def assigned(self, task: Task, before: Assignment[Grant], assignment: Assignment[Grant]) -> None:
        """A user has its next assignment; what was leaving in the one before it has done with."""
        self.observed += 1
        self.world.note(task.name, "has", sorted(assignment), "leaving", sorted(assignment.leaving))
        given = {**assignment.leaving, **assignment}
        self.given[task] = {
            item: grant for item, grant in given.items() if before.leaving.get(item) is not grant
        }
        for item, grant in given.items():
            if grant._hold.entry.ticket.queue != QUEUES[item]:
                raise Violation(f"P1: {task.name} was given {grant} for {item}")
        for item, grant in before.items():
            if given.get(item) is not grant and self.holds(task.client, grant._hold):
                raise Violation(f"P1: {item} of {task.name} is held, and in no assignment")
            if item not in given and grant._hold.released:
                raise Violation(f"P1: {item} of {task.name} was given back before it was leaving")

    def removes(self) -> None:
        """An operator removes a member, or the holder of an item."""
        standing = self.standing()
        if standing:
            queue, one = self.world.rng.choice(standing)
            remove(self.store, self, (queue, one.token))

    def rests(self, hold: HeldState, items: set[str]) -> None:
        """Nothing has happened for a while, and this member still has these."""
        self.resting[hold.entry.ticket.kind] = items

    def rested(self) -> None:
        """Each has said what it has."""
        owners = Sharing(ITEMS).owners(self.resting)
        wanted = {
            kind: {item for item, one in zip(ITEMS, owners, strict=False) if one == kind}
            for kind in self.resting
        }
        if self.resting != wanted:
            raise Violation(f"P2: at rest members have {self.resting}, and not {wanted}")


def work(client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]) -> Generator[Any, Any, None]:
    """Join, and have a share of the items for some time."""
    del rules
    random = client.world.random
    hold = yield from _joined(client, task, kind)
    if hold is None:
        return
    parts = SimPartitions(Membership(client.runtime, hold), ITEMS)
    with suppress(Cancelled, Over, LockLost, StoreError):
        for _ in range(STEPS[int(random() * len(STEPS))]):
            yield from _work_once(client, task, parts, WITHIN_S[int(random() * len(WITHIN_S))])
            if random() < UPDATES:
                yield from _update(client, task, parts._membership)
    yield from _over(client, task, hold, parts)


def _update(client: Client, task: Task, membership: Any) -> Generator[Any, Any, None]:
    """Say something else, while the program that shares the items may write its mark."""
    call = client.runtime.begin(task, 1.0, fail_fast=True)
    call.session = membership._hold.session
    yield from client.run(task, call, rewrite(membership._hold, None, membership._saying(b"new"), ALL))


def stay(client: Client, task: Task) -> Generator[Any, Any, None]:
    """Be a member until nothing happens any more, and say what it has then."""
    client.oracle.remover = client  # the last to come
    until, shares = client.local + RESTS_S, client.world.random() >= ONLY_JOINS
    while True:
        hold = yield from _joined(client, task, None)
        assert hold is not None
        if not shares:
            client.runtime.begin(task, None)
            yield Receive(RESTS_S + STAYS_S)
            yield from given_back(client, task, hold)
            return
        parts = SimPartitions(Membership(client.runtime, hold), ITEMS)
        try:
            while (left := until - client.local) > 0:
                if client is client.oracle.remover and left < REMOVES_S:
                    client.oracle.remover = None
                    client.oracle.removes()
                yield from _work_once(client, task, parts, min(left, 1.0))
            break
        except LockLost:
            yield from _over(client, task, hold, parts)
    client.oracle.rests(hold, {item for item, grant in parts._given[1].items() if grant.held})
    client.runtime.begin(task, None)
    yield Receive(STAYS_S)
    yield from _over(client, task, hold, parts)


def _joined(client: Client, task: Task, kind: Flavour | None) -> Generator[Any, Any, HeldState | None]:
    joining = SimGroup(client.runtime, NAME).joining(client.new_id(), new=True)
    attempt = joining._attempt(task, joining._saying(b"", None))
    attempt.new_id = client.new_id
    began = client.oracle.asking(client)
    hold = yield from acquired(client, task, kind or STAYING, attempt)
    if hold is not None:
        client.oracle.granted(client, hold, began)
    return hold


def _work_once(
    client: Client, task: Task, parts: SimPartitions, within_s: float
) -> Generator[Any, Any, None]:
    """Wait for an assignment, and write what is its own; now and then work on it for a while."""
    random, oracle = client.world.random, client.oracle
    before = parts._given[1]
    oracle.steps(task)
    program, call = parts._next(within_s)
    mailbox: Any = call.mailbox
    mailbox.task = task
    try:
        found = yield from client.run(task, call, program)
    except Expired:
        oracle.given[task] = dict(parts._given[1])
        return
    assignment = parts._assigned(found)
    oracle.assigned(task, before, assignment)
    for grant in assignment.values():
        oracle.write(client, grant._hold)
    if random() < 0.5:
        client.runtime.begin(task, None)
        yield Receive(random())
    for item, grant in assignment.leaving.items():
        oracle.write(client, grant._hold)
        if random() < 0.3:
            oracle.given[task].pop(item, None)
            yield from given_back(client, task, grant._hold)


def _over(client: Client, task: Task, hold: HeldState, parts: SimPartitions) -> Generator[Any, Any, None]:
    """Give the items back, and leave; or leave, which gives them back."""
    client.oracle.given.pop(task, None)
    if client.world.random() < CLOSES and (closing := parts._closing()) is not None:
        program, call = closing
        mailbox: Any = call.mailbox
        mailbox.task = task
        with suppress(Cancelled, StoreError, SessionLost, ClientClosed):
            yield from client.run(task, call, program)
    parts._membership._releasing(client.runtime.call(None, None))
    yield from given_back(client, task, hold)


PARTITIONS = Use(work, PartitionOracle, (GROUP, *QUEUES.values()), finale=stay)
