"""What the users of a schedule do: acquire in some way, hold for a while, write, release."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recipes._contract.rule import Rule
from recipes._programs.queueing import Attempt, acquire, downgrade, release, try_acquire
from recipes._programs.reentry import Reentries, Reentry
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.permits import permits
from recipes._rules.readwrite import SHARED
from recipes._run.effects import Receive
from recipes.errors import LockLost, LockTimeout, SessionLost, StoreError
from tests.simulation.clients import Cancelled, Client

if TYPE_CHECKING:
    from recipes._programs.hold import HeldState
    from tests.simulation.moving import Task

__all__ = [
    "FLAVOURS",
    "LABELS",
    "MIXED",
    "PERMITS",
    "Flavour",
    "acquired",
    "flavour",
    "given_back",
    "held_for_a_while",
    "labels",
    "mixture",
    "use_a_lock",
    "user",
]

MOST_ROUNDS = 60
DOWNGRADES = 0.5
MIXED = (SHARED, SHARED, SHARED, WRITER, WRITER, EXCLUSIVE)
PERMITS = (permits(1, 2), permits(1, 2), permits(2, 2), permits(1, 3), permits(3, 3))
"""Of a semaphore of which some say that there is one permit more, as in a rolling restart."""
Once = Callable[..., Generator[Any, Any, None]]
"""What a user does once: with its client, its task, a flavour, and the rules it draws from."""


def labels(recipe: str, name: str = "q", *, mode: str = "exclusive") -> dict[str, Any]:
    """Return the fields of all events of one call."""
    return {"name": name, "recipe": recipe, "mode": mode, "store": "model"}


LABELS = {mode: labels("lock", mode=mode) for mode in ("exclusive", "shared")}


@dataclass(frozen=True, slots=True)
class Flavour:
    """How the users of a schedule behave.

    Attributes:
        holds: For how many seconds they hold; one is drawn each time.
        timeouts: Between how many seconds those wait that do not wait for ever.
        aimed: Strike renewals, too, at the worst moment.
        tries: How often they only try.
        max_hold_s: For how long they may hold without progress; they enter once more, too.
    """

    name: str
    holds: tuple[float, ...]
    timeouts: tuple[float, float]
    aimed: bool = False
    tries: float = 0.15
    max_hold_s: float | None = None


#: Most schedules are busy: what goes wrong between operations shows in many of them. What the
#: clocks are about shows only where grants are held about as long as sessions last.
FLAVOURS = {
    one.name: one
    for one in (
        Flavour("busy", (0.0, 0.0, 0.0, 0.0, 0.02, 0.1), (0.05, 2.0)),
        Flavour("long", (0.0, 0.0, 0.2, 0.2, 3.0, 9.0), (0.1, 8.0)),
        Flavour("aimed", (0.2, 6.0, 6.0, 9.0), (0.1, 8.0), aimed=True),
        Flavour("hung", (0.0, 0.1, 1.0, 3.0, 6.0), (0.1, 8.0), max_hold_s=1.2),
    )
}


def flavour(seed: int) -> str:
    """Return what kind of schedule a seed makes; a quarter of each kind is chosen by priorities."""
    entry = seed // 4 % 20
    return "aimed" if entry == 7 else "hung" if entry == 16 else "long" if entry in (2, 9, 12, 19) else "busy"


def mixture(seed: int) -> tuple[Rule, ...]:
    """Return of which recipes a seed's users draw: every other schedule is of read-write locks."""
    return MIXED if seed % 2 else (EXCLUSIVE,)


def user(
    client: Client,
    task: Task,
    kind: Flavour,
    rules: tuple[Rule, ...],
    once: Once,
    *,
    rounds: int,
    enough: int,
) -> Generator[Any, Any, None]:
    """Do something ``rounds`` times, and on until the schedule has had ``enough`` requests."""
    world = client.world
    done = 0
    while done < rounds or (world.requests + 4 * world.unfinished < enough and done < MOST_ROUNDS):
        done += 1
        try:
            yield from once(client, task, kind, rules)
        except (LockTimeout, StoreError, SessionLost, Cancelled):
            continue


def use_a_lock(
    client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]
) -> Generator[Any, Any, None]:
    """Acquire a lock or a semaphore, of one of these rules, write, and release."""
    rule = rules[0] if len(rules) == 1 else client.world.rng.choice(rules)
    oracle, random = client.oracle, client.world.random
    began = oracle.asking(client)
    queue = "q" if rule.weight is None else "~semaphore/q"
    attempt = Attempt(queue, rule, client.new_id, LABELS[rule.mode])
    attempt.max_hold_s = kind.max_hold_s
    if client.number % 3 == 1:  # then it moves up where a look is cheap, too
        attempt.on_position = _sees
    hold = yield from acquired(client, task, kind, attempt)
    if hold is None:
        return
    oracle.granted(client, hold, began)
    oracle.write(client, hold)
    if hold.entry.ticket.kind == "W" and random() < DOWNGRADES:
        yield from _downgrade(client, task, hold)
    entered = hold if kind.max_hold_s is None else _enter_twice(client, hold)
    seconds = kind.holds[int(random() * len(kind.holds))]
    if seconds:
        try:
            yield from held_for_a_while(client, task, hold, entered, seconds)
        except Cancelled:
            pass  # the with statement releases all the same
        oracle.write(client, hold)
    yield from given_back(client, task, hold, entered)


def _sees(position: int) -> None:
    """See where in the queue it is."""


def given_back(
    client: Client, task: Task, hold: HeldState, entered: HeldState | None = None
) -> Generator[Any, Any, None]:
    """Release what is held, unless it was lost."""
    runtime = client.runtime
    entered = hold if entered is None else entered
    was_held = entered.release(runtime.now()) and entered.freed
    if client.oracle.releasing(client, hold, was_held):
        call = runtime.begin(task, 1.0)
        call.session, call.ticket, call.entry = hold.session, hold.entry.ticket, hold.entry
        yield from client.run(task, call, release(entered))


def held_for_a_while(
    client: Client, task: Task, hold: HeldState, entered: HeldState, seconds: float
) -> Generator[Any, Any, None]:
    """Hold for a while: hang, or make progress now and then, at the worst moment too."""
    runtime, oracle, random = client.runtime, client.oracle, client.world.random
    runtime.begin(task, None)
    if hold.max_hold_s is None or random() < 0.5:
        yield Receive(seconds)
        return
    for _ in range(3):
        yield Receive(hold.max_hold_s * (0.9 + 0.2 * random()))
        now = runtime.now()
        oracle.progressed(client, hold, entered.progress(now))


def _enter_twice(client: Client, hold: HeldState) -> Reentry:
    """Enter what was granted, and once more; one of the two is left at once."""
    oracle, now = client.oracle, client.runtime.now()
    reentries = Reentries(hold, nullcontext(), lambda reentries: None)
    outer, inner = reentries.new(), reentries.new()
    try:
        assert reentries.enter(outer, now)
        assert reentries.enter(inner, now)
    except LockLost:
        return outer  # as if it had been entered before
    oracle.left_inner(client, hold, inner.release(now))
    return outer


def _downgrade(client: Client, task: Task, hold: HeldState) -> Generator[Any, Any, None]:
    call = client.runtime.begin(task, 1.0, fail_fast=True)
    call.session = hold.session
    with suppress(StoreError, Cancelled):  # shared all the same, and released in the end
        stands = yield from client.run(task, call, downgrade(hold))
        client.oracle.downgraded(client, hold, stands)


def acquired(
    client: Client, task: Task, kind: Flavour, attempt: Attempt
) -> Generator[Any, Any, HeldState | None]:
    """Acquire in one of the ways there are; None: it was only tried, and not free."""
    runtime, random = client.runtime, client.world.random
    way = random()
    if way < kind.tries:
        attempt.timeout_s = 0.0
        call = runtime.begin(task, 1.0, fail_fast=True)
        return (yield from client.run(task, call, try_acquire(attempt)))
    if way > 0.75:
        least, most = kind.timeouts
        attempt.timeout_s = least + (most - least) * random()
    call = runtime.begin(task, attempt.timeout_s)
    return (yield from client.run(task, call, acquire(attempt)))
