"""The simulated world: one seed decides every step, and the same seed decides the same.

Nothing runs by itself here. A step is one choice among what could happen next: a message
of some pipe arrives, a task that was woken goes on, time moves on to the next timer, a
fault strikes. The package's own programs, protocols, session keepalive loop and cleaner run in
tasks, unchanged; only what they ask of a transport ends in a model server.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from recipes._run.effects import Receive
from recipes.errors import StoreUnavailable
from tests.simulation.moving import Task

__all__ = ["Violation", "World"]

NEVER = float("inf")
NO_ANSWER = "no answer in time"
ADMITTED, FAULT, HEALED = 1, 2, 3  # what a fingerprint has beside requests

priority = attrgetter("priority")


class Violation(AssertionError):
    """A promise was broken; the text says which, and the trace how."""


class World:
    """Everything there is in one schedule.

    Args:
        seed: Decides all.
        pct: Choose by random priorities that change a few times (PCT), not uniformly.

    Attributes:
        moving: What is on its way. Each has a ``gate``, a ``priority``, and ``go()``.
        unfinished: How many users' tasks have not ended, not counting those that died.
        asker: The task that asked last.
        listening: The client that was stopped, and hears what came meanwhile before its timers.
    """

    def __init__(self, seed: int, *, pct: bool = False) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.pct = pct
        self.now = 1000.0
        self.moving: list[Any] = []
        self.tasks: list[Task] = []
        self.clients: list[Any] = []
        self.unfinished = 0
        self.requests = 0
        self.steps = 0
        self.timers: list[Callable[[], float]] = []
        self.ticks: list[Callable[[], None]] = []
        self.trace: list[str] | None = None
        self.hash = 0
        self.asker: Any = None
        self.listening: Any = None
        self.over = False

    # Tasks.

    def start(self, task: Task) -> None:
        self.tasks.append(task)
        if not task.daemon:
            self.unfinished += 1
        self.resume(task, None, None)

    def resume(self, task: Task, value: Any, error: BaseException | None) -> None:
        """Let a task go on until it waits again."""
        if self.over:
            return
        task.asked = None
        task.wake_at = NEVER
        task.receiving = False
        client, steps = task.client, task.steps
        while True:
            try:
                effect = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                self._ended(task)
                return
            call = task.call
            value = error = None
            try:
                if type(effect) is not Receive:
                    task.wake_at = self.now + call.bound() * client.pace
                    self.asker = task
                    task.asked = call.session.connection.send(task, effect)
                    return
                at_most = effect.at_most_s
                within = call.deadline.bound(at_most, client.local)
            except BaseException as raised:
                error = raised
                continue
            events = call.mailbox.events
            if events:
                value = events.popleft()
                continue
            task.receiving = True
            task.patient = at_most is not None and at_most > 2.0
            if within is not None:
                task.wake_at = self.now + within * client.pace
            return

    def _ended(self, task: Task) -> None:
        task.done = True
        self.tasks.remove(task)
        if not task.daemon and not task.client.dead:
            self.unfinished -= 1

    # Steps.

    def step(self) -> bool:
        """Do one of the things that could happen next; False if nothing can but time."""
        moving = self.moving
        if self.pct:
            free = [one for one in moving if one.gate.open]
            if not free:
                return False
            chosen = max(free, key=priority)
            if self.random() < 0.02:
                chosen.priority = self.random() * 0.5
            at = moving.index(chosen)
        else:
            left = len(moving)
            while True:  # draw until one is free to go; those that are not stand behind
                if not left:
                    return False
                at = int(self.random() * left)
                chosen = moving[at]
                if chosen.gate.open:
                    break
                left -= 1
                moving[at], moving[left] = moving[left], chosen
        self.steps += 1
        chosen.go(at)
        return True

    def drop(self, at: int) -> None:
        """Have nothing more on its way at this place of `moving`."""
        moving = self.moving
        last = moving.pop()
        if at < len(moving):
            moving[at] = last

    # Time.

    def advance(self, limit: float = NEVER) -> bool:
        """Move time on to the next timer; False if there is none."""
        self.listening = None
        at = NEVER
        for task in self.tasks:
            if task.wake_at < at and task.gate.open:
                at = task.wake_at
        for timer in self.timers:
            due = timer()
            at = min(at, due)
        if at == NEVER:
            return False
        self.move_to(min(at, limit))
        self.fire()
        return True

    def move_to(self, now: float) -> None:
        """Let time pass, on all clocks."""
        if now > self.now:
            self.now = now
            for client in self.clients:
                client.local = now * client.rate + client.offset
        for tick in self.ticks:
            tick()

    def fire(self) -> None:
        """Wake the tasks whose time has come."""
        now = self.now
        for task in [task for task in self.tasks if task.wake_at <= now]:
            if not task.gate.open or task.done or task.wake_at > now or task.client is self.listening:
                continue
            if task.receiving:
                self.resume(task, None, None)
            elif task.asked is not None:
                task.asked.abandoned = True
                self.resume(task, None, StoreUnavailable("model", NO_ANSWER))

    # The trace.

    def mark(self, kind: int, which: int) -> None:
        """Add to the fingerprint of this schedule: numbers alone, which are hashed alike everywhere."""
        self.hash = hash((self.hash, kind, which))

    def note(self, *what: Any) -> None:
        """Add to the trace, if one is wanted."""
        if self.trace is not None:
            self.trace.append(f"{self.now - 1000:9.3f}  " + "  ".join(str(part) for part in what))
