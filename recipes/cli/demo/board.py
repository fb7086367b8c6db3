"""What the workers' messages add up to at one moment: who holds, who waits, how far it is.

Nothing here draws, and nothing here guesses: every state is what an event said last, and a place in the
queue is the position an event told, less those who were ahead and have gone.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from recipes.cli.demo.member import Message
from recipes.cli.demo.scene import Scene

__all__ = ["HOLDS", "IDLE", "SHARES", "WAITS", "Board", "InOrder", "Lanes", "Tally"]

IDLE, WAITS, SHARES, HOLDS = ".", "w", "S", "H"
SETTLE_S = 0.15
"""Messages of several processes arrive out of order by less than this."""
TAPE = 240
WINDOW_S = 1.0


class InOrder:
    """Messages, handed on in the order of their times."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self._held_back: list[tuple[float, int, Message]] = []

    def add(self, message: Message) -> None:
        """Take one."""
        heapq.heappush(self._held_back, (message["at"], next(self._count), message))

    def settled(self, now: float) -> Iterator[Message]:
        """Yield those before which none can come any more."""
        while self._held_back and self._held_back[0][0] <= now - SETTLE_S:
            yield heapq.heappop(self._held_back)[2]


class Lanes:
    """A letter a worker: ``H`` holds the lock alone, ``S`` shares it, ``w`` waits, ``.`` does neither."""

    def __init__(self, size: int) -> None:
        self._lanes = [IDLE] * size

    def after(self, message: Message) -> str:
        """Return the lanes as they are after a transition."""
        event: str = message["event"]
        if event.startswith("lock.") and event != "lock.suspect":
            self._lanes[message["worker"] - 1] = _lane(event, message.get("mode"))
        return "".join(self._lanes)

    def __getitem__(self, worker: int) -> str:
        return self._lanes[worker - 1]


def _lane(event: str, mode: str | None) -> str:
    if event == "lock.acquired":
        return SHARES if mode == "shared" else HOLDS
    return {"lock.queued": WAITS, "lock.downgraded": SHARES}.get(event, IDLE)


@dataclass(slots=True)
class Tally:
    """The turns of one side.

    Attributes:
        turns: How many there were.
        value: That of the last one.
        wrong: How many were lost, or wrong.
    """

    turns: int = 0
    value: int | None = None
    wrong: int = 0

    def take(self, scene: Scene, value: int) -> None:
        """Count one more turn."""
        self.turns += 1
        self.value = value
        self.wrong = scene.wrong(self.wrong, self.turns, value)


@dataclass(slots=True)
class Board:
    """One scene as it is now.

    Attributes:
        scene: Which.
        began_at: When.
        now: When the last message that is in here was sent.
        lanes: The state of each worker.
        tape: The lanes after each of the last transitions.
        queue: Who holds or waits, in order.
        tokens: What each worker that holds was given.
        twins: The last value of each twin.
        locked: The turns under the lock.
        unlocked: The turns of the twins.
        trouble: Transitions that are out of the ordinary.
    """

    scene: Scene
    began_at: float
    now: float = 0.0
    lanes: Lanes = field(init=False)
    tape: deque[str] = field(default_factory=lambda: deque(maxlen=TAPE))
    queue: list[int] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    twins: dict[int, int] = field(default_factory=dict)
    locked: Tally = field(default_factory=Tally)
    unlocked: Tally = field(default_factory=Tally)
    trouble: list[str] = field(default_factory=list)
    _hand_overs: deque[float] = field(default_factory=deque)
    _last_holder: int | None = None

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.scene.processes)
        self.now = self.began_at

    def take(self, message: Message) -> None:
        """Take the next message."""
        if message["at"] < self.began_at:
            return
        self.now = message["at"]
        if message["kind"] == "turn":
            self._turn(message)
        elif message["kind"] == "transition" and message["event"].startswith("lock."):
            self._transition(message)

    def ahead(self, worker: int) -> int:
        """Return how many hold or wait before a worker that waits."""
        return self.queue.index(worker)

    def a_second(self, now: float) -> int:
        """Return how many hand-overs there were in the second before ``now``."""
        while self._hand_overs and self._hand_overs[0] <= now - WINDOW_S:
            self._hand_overs.popleft()
        return len(self._hand_overs)

    def progress(self, now: float) -> float:
        """Return how much of the scene is over, from 0 to 1."""
        order = self.scene.order
        if order.rounds is not None:
            return min(self.locked.turns / (order.rounds * self.scene.processes), 1.0)
        return min((now - self.began_at) / (order.seconds or 1.0), 1.0)

    def _turn(self, message: Message) -> None:
        if message["twin"]:
            self.twins[message["worker"]] = message["value"]
        (self.unlocked if message["twin"] else self.locked).take(self.scene, message["value"])

    def _transition(self, message: Message) -> None:
        worker, event = message["worker"], message["event"]
        self.tape.append(self.lanes.after(message))
        if event == "lock.queued":
            self._enqueue(worker, message)
        elif event == "lock.acquired":
            self._hold(worker, message)
        elif self.lanes[worker] == IDLE:
            self._leave(worker)
        if event in ("lock.lost", "lock.requeued", "lock.suspect", "lock.timeout"):
            self.trouble.append(f"worker {worker}: {event}, {message.get('reason', 'no reason told')}")

    def _enqueue(self, worker: int, message: Message) -> None:
        """Put a worker where the event says; a reader is told only of those it waits for, and came last."""
        self._leave(worker)
        exclusive = message.get("mode") != "shared"
        self.queue.insert(message["position"] if exclusive else len(self.queue), worker)

    def _hold(self, worker: int, message: Message) -> None:
        if worker not in self.queue:
            self.queue.append(worker)
        self.tokens[worker] = message["token"]
        if self._last_holder not in (worker, None):
            self._hand_overs.append(message["at"])
        self._last_holder = worker

    def _leave(self, worker: int) -> None:
        if worker in self.queue:
            self.queue.remove(worker)
