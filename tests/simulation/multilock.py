"""What the clients of a schedule do with multi-locks: acquire several, hold them, verify, release."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from recipes._api.held import Held
from recipes._api.options import AcquireOptions
from recipes._api.together import BaseMultiLock
from recipes._contract.rule import Rule
from recipes._programs.hold import HeldState
from recipes._programs.queueing import acquire
from recipes._programs.together import Together, acquire_all, release_all, try_all, verify_all
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.permits import permits
from recipes._rules.readwrite import SHARED
from recipes._rules.registry import rule_of
from recipes._run.effects import Receive
from recipes.errors import LockLost, LockTimeout, SessionLost, StoreError
from recipes.rlock import _BaseRLock
from tests.simulation.clients import Cancelled, Client
from tests.simulation.oracles import Oracle, given
from tests.simulation.users import Flavour
from tests.simulation.uses import Use
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.moving import Task

__all__ = ["MULTILOCK"]

QUEUES = ("a", "b", "c", "~semaphore/s")
MOST = (1, 2, 2, 3, 4)
"""How many are acquired together."""
ENTERS, VERIFIES = 0.2, 0.5
EXPECTED = (LockTimeout, StoreError, SessionLost, LockLost, Cancelled)


class SimLock(Held):
    """A lock of some kind; its grants are what is held."""

    def __init__(self, client: Client, task: Task, name: str, rule: Rule, max_hold_s: float | None) -> None:
        super().__init__(client.runtime, name, max_hold=max_hold_s)
        self._rule = rule
        self.client = client
        self.task = task

    def _attempt(self, owner: object, options: AcquireOptions) -> Any:
        attempt = super()._attempt(owner, options)
        attempt.new_id = self.client.new_id
        return attempt

    def _grant_of(self, hold: HeldState) -> HeldState:
        return hold


class SimPermits(SimLock):
    """Permits; their queue is not where locks are."""

    _recipe = "semaphore"


class SimRLock(SimLock, _BaseRLock):
    """A re-entrant lock of a task."""

    _guard = staticmethod(nullcontext)
    _is_over = staticmethod(lambda owner: owner.done)


class SimMultiLock(BaseMultiLock):
    """What a multi-lock is in both runtimes; its grants are what is held."""

    _part = Held

    def _grant_of(self, hold: Together, of: Any) -> Together:
        hold.follow()
        return hold


class MultiLockOracle(Oracle):
    """All or none, in one order, and lost with one: T1 to T5; and what holds for every lock."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.together: list[tuple[Any, Together]] = []

    def admitted(self, client: Any, hold: Any) -> None:
        """T1: what is acquired next comes behind all that its owner holds."""
        before = self.held_by(hold.owner)
        super().admitted(client, hold)
        if any(one.entry.ticket.queue >= hold.entry.ticket.queue for one in before):
            raise Violation(f"T1: {hold.entry.ticket.queue} was acquired behind what comes later")

    def held_by(self, owner: Any) -> list[Any]:
        """Return what somebody holds."""
        return [hold for client, hold in self.live if hold.owner is owner and self.holds(client, hold)]

    def all_granted(self, client: Any, together: Together, began: dict[str, int]) -> None:
        """T2: what is returned is held, every part."""
        for part in together.parts:
            self.granted(client, part, began)
            if part.remaining(client.local) <= 0:
                raise Violation(f"T2: {part.entry.ticket.queue} was returned, and is not held")
        self.together.append((client, together))

    def none_granted(self, task: Any, outer: Any) -> None:
        """T3: of what was not acquired, and of what was released, no part is held."""
        left = [hold.entry.ticket.queue for hold in self.held_by(task) if hold is not outer]
        if left:
            raise Violation(f"T3: {left} is held, and was not returned")
        if outer is not None and outer.released:
            raise Violation("T3: what was held before was given away")

    def verified(self, together: Together, stands: bool, since: float) -> None:
        """T4: what was removed before is found to be gone, whichever part it is."""
        gone = [part for part in together.parts if self.removed.get(given(part), since) < since]
        if stands and gone and not all(self._is_back(part) for part in gone):
            raise Violation(f"T4: {gone[0].entry.ticket.queue} was removed, and verified")

    def _is_back(self, part: Any) -> bool:
        """Whether the server that took over, or started with less, has never heard of its removal."""
        queue, token = given(part)
        return any(one.token == token for one in self.store.standing(queue))

    def observe(self) -> None:
        """T5: the whole is held only while every part is."""
        super().observe()
        for client, together in self.together:
            if together.ended or client.paused or client.dead:
                continue
            if together.remaining(client.local) > min(
                part.remaining(client.local) for part in together.parts
            ):
                raise Violation("T5: the whole is held for longer than its parts")
        self.together = [(client, one) for client, one in self.together if not one.ended]

    def heard(self, event: Any, mailbox: Any) -> None:
        """An event; what was watched in a queue before is of no use any more."""
        ticket = None if mailbox.task is None else getattr(mailbox.task.call, "ticket", None)
        again = ticket is not None and not rule_of(ticket.kind).steps_up  # it may have queued before
        if not again and (ticket is None or f"{ticket.queue}/" in str(getattr(event, "ref", ""))):
            super().heard(event, mailbox)

    def quiet(self) -> None:
        """T6: what waits for a part is woken when another that it holds is lost."""
        super().quiet()
        for task in self.world.tasks:
            if task.client.dead or task.client.paused or task.daemon or not (task.patient and task.receiving):
                continue
            lost = [hold.entry.ticket.queue for hold in task.call.kept if hold.ended]
            if lost and not task.call.mailbox.events:
                raise Violation(f"T6: {task.name} waits on, and {lost} is lost")


def use_several(
    client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]
) -> Generator[Any, Any, None]:
    """Acquire one to four of four, in some order; maybe enter one of them before."""
    del rules  # each queue has its own
    oracle, rng = client.oracle, client.world.rng
    began = oracle.asking(client)
    outer = entered = None
    chosen = rng.sample(QUEUES, rng.choice(MOST))
    if chosen[0] == "a" and rng.random() < ENTERS:
        rlock = SimRLock(client, task, "a", EXCLUSIVE, kind.max_hold_s)
        call = client.runtime.begin(task, kind.timeouts[1])
        outer = yield from client.run(task, call, acquire(rlock._attempt(task, AcquireOptions())))
        oracle.granted(client, outer, began)
        entered = rlock._grantable(outer)
    try:
        yield from _use(client, task, kind, chosen, outer=outer, began=began)
    except EXPECTED:
        oracle.none_granted(task, outer)
    if entered is not None:
        client.runtime.give_back(entered)
        oracle.none_granted(task, None)
        yield from _gone(client, task)


def _use(
    client: Client,
    task: Task,
    kind: Flavour,
    chosen: list[str],
    *,
    outer: HeldState | None,
    began: dict[str, int],
) -> Generator[Any, Any, None]:
    oracle, runtime, random = client.oracle, client.runtime, client.world.random
    together = yield from _acquired(client, task, kind, chosen)
    if together is None:
        oracle.none_granted(task, outer)
        return
    oracle.all_granted(client, together, began if outer is None else {})
    for part in together.parts:
        oracle.write(client, part)
    seconds = kind.holds[int(random() * len(kind.holds))]
    with suppress(Cancelled, StoreError):  # the with statement releases all the same
        if seconds:
            runtime.begin(task, None)
            yield Receive(seconds)
        if random() < VERIFIES:
            yield from _verified(client, task, together)
    for part in together.parts:
        oracle.write(client, part)
    yield from _given_back(client, task, together)
    oracle.none_granted(task, outer)


def _acquired(
    client: Client, task: Task, kind: Flavour, chosen: list[str]
) -> Generator[Any, Any, Together | None]:
    runtime, random = client.runtime, client.world.random
    made = SimMultiLock(runtime, [_lock(client, task, kind, queue) for queue in chosen])
    way, timeout_s = random(), None
    if way < kind.tries:
        call = runtime.begin(task, 1.0, fail_fast=True)
        program: Any = try_all(made._whole(call, AcquireOptions()))
    else:
        if way > 0.75:
            least, most = kind.timeouts
            timeout_s = least + (most - least) * random()
        call = runtime.begin(task, timeout_s)
        program = acquire_all(made._whole(call, AcquireOptions(timeout_s)))
    whole = yield from client.run(task, call, program)
    return None if whole is None else made._granted(whole)


def _lock(client: Client, task: Task, kind: Flavour, queue: str) -> SimLock:
    rng = client.world.rng
    if queue == "a":
        return SimRLock(client, task, "a", EXCLUSIVE, kind.max_hold_s)
    if queue == "b":
        return SimLock(client, task, "b", EXCLUSIVE, kind.max_hold_s)
    if queue == "c":
        return SimLock(client, task, "c", rng.choice((SHARED, SHARED, WRITER)), kind.max_hold_s)
    return SimPermits(client, task, "s", permits(rng.choice((1, 2)), 2), kind.max_hold_s)


def _verified(client: Client, task: Task, together: Together) -> Generator[Any, Any, None]:
    if together.remaining(client.local) <= 0:
        return
    since = client.world.now
    call = client.runtime.begin(task, 1.0, fail_fast=True)
    call.session = together.session
    stands = yield from client.run(task, call, verify_all(together))
    client.oracle.verified(together, stands, since)


def _given_back(client: Client, task: Task, together: Together) -> Generator[Any, Any, None]:
    runtime = client.runtime
    call = runtime.begin(task, 1.0)
    call.session, call.kept = together.session, [*together.parts]
    if together.release(runtime.now()):
        yield from client.run(task, call, release_all(together))


def _gone(client: Client, task: Task) -> Generator[Any, Any, None]:
    """Let the cleaner withdraw what was given back, before the same task asks again."""
    client.runtime.begin(task, None)
    yield Receive(0.05)


MULTILOCK = Use(use_several, MultiLockOracle, QUEUES, forgives=True)
