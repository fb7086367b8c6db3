"""What the demonstration prints: compact lines, a transition each, and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Self

from recipes._run.clock import boot_time
from recipes.cli.demo.board import InOrder, Lanes
from recipes.cli.demo.figures import CONCLUSION, Figure, figures, notes
from recipes.cli.demo.member import Message
from recipes.cli.demo.scene import Scene
from recipes.cli.demo.verdict import Verdict

__all__ = ["JsonScreen", "Screen", "details", "verdict_lines"]

SHOWN_FIRST = 12
SHOWN_A_SECOND = 4
SHOWN = 24
"""So many transitions of a scene are printed one by one; the rest is summed up, once a second."""
WARNINGS = 12

GREEN, YELLOW, RED, DIM, BOLD = "32", "33", "31", "2", "1"
COLOURS = {"lock.acquired": GREEN, "lock.queued": YELLOW, "lock.downgraded": GREEN, "lock.released": DIM}


class Screen:
    """Prints lines for people.

    Args:
        out: Where to.
        processes: How many workers there are.
        colour: Whether ``out`` understands colours.

    Attributes:
        slow: How many turns each worker should take slowly, to be followed by eye.
    """

    slow = 0

    def __init__(self, out: IO[str], processes: int, *, colour: bool) -> None:
        self._out = out
        self._colour = colour
        self._processes = processes
        self._in_order = InOrder()
        self._reset(0.0)

    def _reset(self, began_at: float) -> None:
        self._lanes = Lanes(self._processes)
        self._began_at = began_at
        self._shown = 0
        self._allowed = SHOWN_FIRST
        self._warned = 0
        self._summed: Counter[str] = Counter()
        self._last_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""

    def say(self, text: str = "") -> None:
        """Print one line."""
        print(text, file=self._out, flush=True)

    def open(self, url: str, pids: list[int]) -> None:
        """Tell what there is, before the first scene."""
        workers, twins = pids[: len(pids) // 2], pids[len(pids) // 2 :]
        self.say(f"store: {url}")
        self.say(f"processes that use the lock: {' '.join(map(str, workers))}")
        self.say(f"that do the same without it: {' '.join(map(str, twins))}")

    def watch(self, messages: Iterable[Message | None]) -> None:
        """Show all of these."""
        for message in messages:
            self.pass_on(message)

    def pass_on(self, message: Message | None) -> None:
        """Show a message, or that time goes by."""
        if message is None:
            self.tick(boot_time())
        else:
            self.show(message, boot_time())

    def begin(self, scene: Scene, at: float) -> None:
        """Print the heading of a scene; times count from ``at``."""
        self._reset(at)
        order = scene.order
        size = f"{order.rounds} turns each" if order.rounds else f"{order.seconds:g} s"
        self.say(f"\n{scene.number}. {scene.title} {scene.lock!r}: {size}\n   {scene.does}")
        self.say(f"   H holds it, {'S shares it, ' * (scene.name == 'bank')}w waits\n")
        self.say(self._paint(f" seconds  {'lanes'.ljust(self._processes)}  who  transition", BOLD))

    def show(self, message: Message, now: float) -> None:
        """Take a message, and print whatever is old enough to be in order."""
        if message["kind"] == "transition" and message["at"] >= self._began_at > 0:
            self._in_order.add(message)
        self.tick(now)

    def tick(self, now: float) -> None:
        """Print whatever is old enough to be in order."""
        for message in self._in_order.settled(now):
            self._transition(message)

    def end(self) -> None:
        """Print what is left of a scene, in order."""
        self.tick(float("inf"))
        self._sum_up(self._last_s)
        self._began_at = 0.0

    def verdict(self, verdict: Verdict) -> None:
        """Print what the demonstration showed."""
        self.say()
        for line in verdict_lines(verdict):
            self.say(line)
        self.say()
        for problem in verdict.problems:
            self.say(self._paint(f"FAILED  {problem}", RED))
        if verdict.ok:
            self.say(self._paint(f"OK  {CONCLUSION}", GREEN))

    def _transition(self, message: Message) -> None:
        event = message["event"]
        lanes = self._lanes.after(message)
        seconds = message["at"] - self._began_at
        if int(seconds) > int(self._last_s):
            self._sum_up(int(self._last_s) + 1)
            self._allowed = min(self._shown + SHOWN_A_SECOND, SHOWN)
        self._last_s = seconds
        if not self._has_room(event):
            self._summed[event] += 1
            return
        text = f"{seconds:8.3f}  {lanes:5}  {message['worker']:3}  {event:15}  {details(message)}"
        self.say(self._paint(text.rstrip(), COLOURS.get(event, RED)))

    def _has_room(self, event: str) -> bool:
        """Whether one more of this kind may be printed; what is out of the ordinary has room of its own."""
        if event in COLOURS:
            room = self._shown < self._allowed
            self._shown += room
        else:
            self._warned += 1
            room = self._warned <= WARNINGS
        return room

    def _sum_up(self, until_s: float) -> None:
        if self._summed:
            parts = ", ".join(
                f"{n} {event.removeprefix('lock.')}" for event, n in sorted(self._summed.items())
            )
            self.say(self._paint(f"{until_s:8.3f}  ...  and {parts}", DIM))
            self._summed.clear()

    def _paint(self, text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._colour else text


class JsonScreen(Screen):
    """Prints for programs: every message of the workers and the verdict, a JSON object a line."""

    def __init__(self, out: IO[str], notes: IO[str], processes: int) -> None:
        super().__init__(out, processes, colour=False)
        self._notes = notes

    def say(self, text: str = "") -> None:
        """Print one line beside the JSON."""
        if text:
            print(text.strip(), file=self._notes, flush=True)

    def open(self, url: str, pids: list[int]) -> None:
        """Print nothing: the messages say it."""

    def begin(self, scene: Scene, at: float) -> None:
        """Print which scene begins."""
        self._print({"kind": "scene", "scene": scene.name, "at": at})

    def show(self, message: Message, now: float) -> None:
        """Print the message as it came."""
        self._print(message)

    def end(self) -> None:
        """Print nothing: nothing was held back."""

    def verdict(self, verdict: Verdict) -> None:
        """Print it as one object."""
        self._print({"kind": "verdict", **verdict.as_fields()})

    def _print(self, document: dict[str, Any]) -> None:
        print(json.dumps(document), file=self._out, flush=True)


def details(message: Message) -> str:
    """Return the fields of a transition that people want to see."""
    known: dict[str, Callable[[Any], str]] = {
        "position": lambda ahead: f"{ahead} ahead",
        "waited_s": lambda seconds: f"waited {seconds * 1000:7.1f} ms",
        "held_s": lambda seconds: f"held   {seconds * 1000:7.1f} ms",
        "token": lambda token: f"token {token}",
        "reason": str,
    }
    return "  ".join(words(message[name]) for name, words in known.items() if name in message)


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the figures as a table in plain text, and what there is to say about them."""
    rows = list(figures(verdict))
    if rows:
        yield _row(Figure("", "with the lock", "without it"))
    for row in rows:
        yield row.what if row.heading else _row(row)
    yield from notes(verdict)


def _row(row: Figure) -> str:
    return f"  {row.what:16}  {row.locked:20}  {row.unlocked}".rstrip()
