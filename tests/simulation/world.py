"""The simulated world: one seed decides every step, and the same seed decides the same.

Nothing runs by itself here. A step is one choice among what could happen next: a message
of some pipe arrives, a task that was woken goes on, time moves on to the next timer, a
fault strikes. The package's own programs, protocols, session keeper and cleaner run in
tasks, unchanged; only what they ask of a transport ends in a model server.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from recipes._run.interpret import Receive
from recipes.errors import StoreUnavailable

Message = Callable[[], None]
NEVER = float("inf")


class Violation(AssertionError):
    """A promise was broken; the text says which, and the trace how."""


class Pipe:
    """Messages in order; ``open()`` says whether the first may arrive now."""

    __slots__ = ("is_open", "messages", "priority", "world")

    def __init__(self, world: World, is_open: Callable[[], bool]) -> None:
        self.world = world
        self.is_open = is_open
        self.messages: deque[Message] = deque()
        self.priority = world.random() if world.pct else 0.0

    def push(self, message: Message) -> None:
        if not self.messages:
            self.world.pipes.append(self)
        self.messages.append(message)

    def clear(self) -> None:
        if self.messages:
            self.messages.clear()
            self.world.pipes.remove(self)


class Task:
    """Something that runs in a client: a user's thread, the keeper, the cleaner."""

    __slots__ = (
        "asked",
        "call",
        "client",
        "daemon",
        "done",
        "name",
        "patient",
        "priority",
        "receiving",
        "steps",
        "wake_at",
    )

    def __init__(
        self, client: Any, name: str, steps: Generator[Any, Any, Any], *, daemon: bool = False
    ) -> None:
        self.client = client
        self.name = name
        self.steps = steps
        self.daemon = daemon
        self.call: Any = None
        self.done = False
        self.receiving = False
        self.patient = False  # waits for an event, not for a pause to end
        self.asked: Any = None
        self.wake_at: float | None = None
        self.priority = client.world.random() if client.world.pct else 0.0


class World:
    """Everything there is in one schedule.

    Args:
        seed: Decides all.
        pct: Choose by random priorities that change a few times (PCT), not uniformly.
    """

    def __init__(self, seed: int, *, pct: bool = False) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.pct = pct
        self.now = 1000.0
        self.pipes: list[Pipe] = []
        self.tasks: list[Task] = []
        self.ready: list[Task] = []
        self.requests = 0
        self.steps = 0
        self.timers: list[Callable[[], float | None]] = []
        self.ticks: list[Callable[[], None]] = []
        self.trace: list[str] | None = None
        self.hash = 0
        self.over = False

    # Tasks.

    def start(self, task: Task) -> None:
        self.tasks.append(task)
        self.resume(task, None, None)

    def resume(self, task: Task, value: Any, error: BaseException | None) -> None:
        """Let a task go on until it waits again."""
        if self.over:
            return
        task.asked = None
        task.wake_at = None
        task.receiving = False
        while True:
            try:
                effect = task.steps.send(value) if error is None else task.steps.throw(error)
            except StopIteration:
                task.done = True
                self.tasks.remove(task)
                return
            call = task.call
            value = error = None
            now = call.runtime.now()
            try:
                if type(effect) is not Receive:
                    within = call.bound()
                    self.ask(task, call.epoch.link, effect, within)
                    return
                within = call.deadline.bound(effect.at_most_s, now)
            except BaseException as raised:
                error = raised
                continue
            events = call.mailbox.events
            if events:
                value = events.popleft()
                continue
            task.receiving = True
            task.patient = effect.at_most_s is not None and effect.at_most_s > 2.0
            task.wake_at = None if within is None else self.now + within / task.client.rate
            return

    def ask(self, task: Task, link: Any, request: Any, within: float) -> None:
        """Send a request on its way."""
        task.wake_at = self.now + within / task.client.rate
        task.asked = link.send(task, request)

    def wake(self, task: Task) -> None:
        """An event came for a task that waits for one."""
        if task.receiving and task not in self.ready:
            self.ready.append(task)

    # Steps.

    def step(self) -> bool:
        """Do one of the things that could happen next; False if nothing can but time."""
        choices: list[Any] = [pipe for pipe in self.pipes if pipe.is_open()]
        if self.ready:
            choices += [task for task in self.ready if not task.client.paused]
        if not choices:
            return False
        self.steps += 1
        if self.pct:
            chosen = max(choices, key=_priority)
            if self.random() < 0.02:
                chosen.priority = self.random() * 0.5
        else:
            chosen = choices[int(self.random() * len(choices))]
        if type(chosen) is Task:
            self.ready.remove(chosen)
            self._deliver(chosen)
        else:
            message = chosen.messages.popleft()
            if not chosen.messages:
                self.pipes.remove(chosen)
            message()
        return True

    def _deliver(self, task: Task) -> None:
        if task.receiving and task.call.mailbox.events:
            self.resume(task, task.call.mailbox.events.popleft(), None)

    def advance(self, limit: float | None = None) -> bool:
        """Move time on to the next timer; False if there is none (before ``limit``)."""
        at = NEVER
        for task in self.tasks:
            if task.wake_at is not None and task.wake_at < at and not task.client.paused:
                at = task.wake_at
        for timer in self.timers:
            due = timer()
            if due is not None and due < at:
                at = due
        if at is NEVER:
            return False
        if limit is not None and at > limit:
            self.now = limit
        elif at > self.now:
            self.now = at
        for tick in self.ticks:
            tick()
        self.fire()
        return True

    def fire(self) -> None:
        """Wake the tasks whose time has come."""
        now = self.now
        for task in [task for task in self.tasks if task.wake_at is not None and task.wake_at <= now]:
            if task.client.paused or task.done or task.wake_at is None:
                continue
            if task.receiving:
                self.resume(task, None, None)
            elif task.asked is not None:
                task.asked.abandoned = True
                self.resume(task, None, StoreUnavailable("model", "no answer in time"))

    def note(self, *what: Any) -> None:
        """Add to the trace, and to the fingerprint of this schedule."""
        self.hash = hash((self.hash, what))
        if self.trace is not None:
            self.trace.append(f"{self.now - 1000:9.3f}  " + "  ".join(str(part) for part in what))


def _priority(choice: Any) -> float:
    return choice.priority  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class Asked:
    """A request in flight, of one or several parts."""

    world: World
    task: Task
    replies: list[Any]
    missing: int
    single: bool
    abandoned: bool = False

    def answer(self, part: int, reply: Any) -> None:
        """Take the reply of one part; the task goes on with the last."""
        if self.abandoned:
            return
        self.replies[part] = reply
        self.missing -= 1
        if self.missing == 0:
            self.abandoned = True
            if not self.single:
                self.world.resume(self.task, tuple(self.replies), None)
            elif isinstance(self.replies[0], Exception):
                self.world.resume(self.task, None, self.replies[0])
            else:
                self.world.resume(self.task, self.replies[0], None)

    def fail(self, error: Exception) -> None:
        """The connection broke: no reply will come."""
        if not self.abandoned:
            self.abandoned = True
            self.world.resume(self.task, None, error)
