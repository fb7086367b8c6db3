"""What moves in the simulated world: tasks, and messages in pipes, each behind a gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Asked", "Gate", "Pipe", "Task", "Way"]


class Gate:
    """Whether what stands behind it may move now."""

    __slots__ = ("open",)

    def __init__(self, *, is_open: bool = True) -> None:
        self.open = is_open


class Pipe:
    """Messages that arrive in order; ``arrive`` takes each."""

    __slots__ = ("arrive", "gate", "messages", "priority", "world")

    def __init__(self, world: World, gate: Gate, arrive: Callable[[Any], None]) -> None:
        self.world = world
        self.gate = gate
        self.arrive = arrive
        self.messages: deque[Any] = deque()
        self.priority = world.random() if world.pct else 0.0

    def push(self, message: Any) -> None:
        messages = self.messages
        if not messages:
            self.world.moving.append(self)
        messages.append(message)

    def go(self, at: int) -> None:
        """Let the first message arrive."""
        messages = self.messages
        message = messages.popleft()
        if not messages:
            self.world.drop(at)
        self.arrive(message)

    def clear(self) -> None:
        if self.messages:
            self.messages.clear()
            self.world.moving.remove(self)


class Way:
    """The way of one session of one client to a server, and what closes it.

    Attributes:
        says, hears: Open while what the client sends arrives, and while what is sent to it does.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.world: World = client.world
        self.cut = self.half_cut = self.mute = self.closed = False
        self.says, self.hears = Gate(), Gate()

    @property
    def over(self) -> bool:
        """Whether nothing that its session sent can have any effect: it was closed, or its client ended."""
        return self.closed or self.client.dead

    def set_gates(self) -> None:
        """Say what may move, after anything changed that it depends on."""
        self.says.open = not (self.cut or self.mute)
        self.hears.open = not (self.cut or self.half_cut or self.client.paused)

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        self.set_gates()

    def set_half_cut(self, half_cut: bool) -> None:
        self.half_cut = half_cut
        self.set_gates()

    def set_mute(self, mute: bool) -> None:
        self.mute = mute
        self.set_gates()


class Task:
    """Something that runs in a client: a user's thread, the keepalive loop, the cleaner.

    Attributes:
        receiving: It waits for an event, until ``wake_at``.
        patient: It waits for an event, not for a pause to end.
        asked: The request that it waits for.
        woken: An event came, and it is about to go on.
    """

    __slots__ = (
        "asked",
        "call",
        "client",
        "daemon",
        "done",
        "gate",
        "name",
        "number",
        "patient",
        "priority",
        "receiving",
        "steps",
        "wake_at",
        "woken",
        "world",
    )

    def __init__(
        self, client: Any, name: str, steps: Generator[Any, Any, Any], *, daemon: bool = False
    ) -> None:
        self.world: World = client.world
        self.client = client
        self.gate: Gate = client.gate
        self.name = name
        self.number = client.next_number()
        self.steps = steps
        self.daemon = daemon
        self.call: Any = None
        self.done = False
        self.receiving = False
        self.patient = False
        self.woken = False
        self.asked: Any = None
        self.wake_at = float("inf")
        self.priority = self.world.random() if self.world.pct else 0.0

    def wake(self) -> None:
        """An event came: if it waits for one, it may go on."""
        if self.receiving and not self.woken:
            self.woken = True
            self.world.moving.append(self)

    def go(self, at: int) -> None:
        """Go on with the event, unless it went on by itself meanwhile."""
        self.world.drop(at)
        self.woken = False
        if self.receiving:
            events = self.call.mailbox.events
            if events:
                self.world.resume(self, events.popleft(), None)


class Asked:
    """A request in flight: one, or (``parts``) several sent together.

    Attributes:
        write: The write of a value that it carries out; None: it does something else.
        session: That on which it was asked.
    """

    __slots__ = ("abandoned", "missing", "replies", "session", "task", "world", "write")

    def __init__(self, world: World, task: Task, parts: int | None = None) -> None:
        self.world = world
        self.task = task
        self.replies: list[Any] | None = None if parts is None else [None] * parts
        self.missing = parts or 1
        self.abandoned = False
        self.write = task.call.doubt
        self.session = task.call.session.id
        if self.write is not None:
            task.client.wrote[self.write.number] = task.call.session

    def answer(self, position: int, reply: Any) -> None:
        """Take the reply of one part; the task goes on with the last."""
        if self.abandoned:
            return
        replies = self.replies
        if replies is None:
            self.abandoned = True
            if isinstance(reply, Exception):
                self.world.resume(self.task, None, reply)
            else:
                self.world.resume(self.task, reply, None)
            self._note_answer()
            return
        replies[position] = reply
        self.missing -= 1
        if self.missing == 0:
            self.abandoned = True
            self.world.resume(self.task, tuple(replies), None)
            self._note_answer()

    def _note_answer(self) -> None:
        """Note that nothing of the write is on its way any more, if it was refused and the call goes on."""
        write, call = self.write, self.task.call
        if write is None or call.doubt is not None:
            return
        settled = (job.write for job in call.runtime.cleaning.values())
        if all(one is None or one.number != write.number for one in settled):
            self.task.client.wrote.pop(write.number, None)
