"""What the demonstration prints: one compact line a transition, and the verdict."""

from __future__ import annotations

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import IO, Any

from recipes.cli.demo.crew import Message
from recipes.cli.demo.verdict import Locked, Unlocked, Verdict, hand_overs, overlaps, rising

__all__ = ["JsonScreen", "Lanes", "Screen", "verdict_lines"]

SHOWN_FIRST = 20
SHOWN_A_SECOND = 6
SHOWN = 48
"""So many transitions are printed one by one, in all; the rest is summed up, once a second."""
WARNINGS = 12
SETTLE_S = 0.15
"""Lines of several processes arrive out of order by less than this."""

GREEN, YELLOW, RED, DIM, BOLD = "32", "33", "31", "2", "1"
COLOURS = {"lock.acquired": GREEN, "lock.queued": YELLOW, "lock.released": DIM}
LANES = {"lock.queued": "w", "lock.acquired": "H"}


class Lanes:
    """One character for each worker: ``H`` holds the lock, ``w`` waits for it, a dot does neither."""

    def __init__(self, size: int) -> None:
        self._lanes = ["."] * size

    def after(self, worker: int, event: str) -> str:
        """Return the lanes as they are after ``event``."""
        if event.startswith("lock.") and event != "lock.suspect":
            self._lanes[worker - 1] = LANES.get(event, ".")
        return "".join(self._lanes)


class Screen:
    """Prints for people.

    Args:
        out: Where to.
        processes: How many workers there are.
        colour: Whether ``out`` understands colours.
    """

    def __init__(self, out: IO[str], processes: int, *, colour: bool) -> None:
        self._out = out
        self._colour = colour
        self._processes = processes
        self._lanes = Lanes(processes)
        self._count = itertools.count()
        self._held_back: list[tuple[float, int, Message]] = []
        self._began_at = 0.0
        self._shown = 0
        self._allowed = SHOWN_FIRST
        self._warned = 0
        self._summed: Counter[str] = Counter()
        self._last_s = 0.0

    def say(self, text: str = "") -> None:
        """Print one line."""
        print(text, file=self._out, flush=True)

    def begin(self, at: float) -> None:
        """Print the heading of the transitions; their times count from ``at``."""
        self._began_at = at
        lanes = "lanes".ljust(self._processes)
        self.say(self._paint(f" seconds  {lanes}  worker  transition", BOLD))

    def show(self, message: Message, now: float) -> None:
        """Take a message, and print whatever is old enough to be in order."""
        if message["kind"] == "transition" and message["at"] >= self._began_at > 0:
            heapq.heappush(self._held_back, (message["at"], next(self._count), message))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Print whatever is old enough to be in order."""
        while self._held_back and self._held_back[0][0] <= now - SETTLE_S:
            self._transition(heapq.heappop(self._held_back)[2])

    def end(self) -> None:
        """Print what is left, in order."""
        self.tick(float("inf"))
        self._sum_up(self._last_s)

    def verdict(self, verdict: Verdict) -> None:
        """Print what the demonstration showed."""
        self.say()
        for line in verdict_lines(verdict):
            self.say(line)
        self.say()
        for problem in verdict.problems:
            self.say(self._paint(f"FAILED  {problem}", RED))
        if verdict.ok:
            self.say(self._paint("OK      no update was lost under the lock", GREEN))

    def _transition(self, message: Message) -> None:
        event = message["event"]
        lanes = self._lanes.after(message["worker"], event)
        seconds = message["at"] - self._began_at
        if int(seconds) > int(self._last_s):
            self._sum_up(int(self._last_s) + 1)
            self._allowed = min(self._shown + SHOWN_A_SECOND, SHOWN)
        self._last_s = seconds
        if not self._has_room(event):
            self._summed[event] += 1
            return
        text = f"{seconds:8.3f}  {lanes:5}  {message['worker']:6}  {event:13}  {details(message)}"
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
            indent = " " * max(self._processes, 5)
            self.say(self._paint(f"{until_s:8.3f}  {indent}     ...  and {parts}", DIM))
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

    def begin(self, at: float) -> None:
        """Print nothing: no heading."""

    def show(self, message: Message, now: float) -> None:
        """Print the message as it came."""
        print(json.dumps(message), file=self._out, flush=True)

    def end(self) -> None:
        """Print nothing: nothing was held back."""

    def verdict(self, verdict: Verdict) -> None:
        """Print it as one object."""
        print(json.dumps({"kind": "verdict", **verdict.as_fields()}), file=self._out, flush=True)


def details(message: Message) -> str:
    """Return the fields of a transition that people want to see."""
    known: dict[str, Callable[[Any], str]] = {
        "position": lambda ahead: f"{ahead} ahead",
        "waited_s": lambda seconds: f"waited {seconds * 1000:8.1f} ms",
        "held_s": lambda seconds: f"held   {seconds * 1000:8.1f} ms",
        "token": lambda token: f"token {token}",
        "reason": str,
    }
    return "  ".join(words(message[name]) for name, words in known.items() if name in message)


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the figures in words, one line each."""
    lines: list[str] = []
    if verdict.locked is not None:
        lines += _locked(verdict.locked)
    if verdict.unlocked is not None:
        lines += _unlocked(verdict.unlocked)
    return lines


def _locked(part: Locked) -> list[str]:
    tokens = [entry.token for entry in part.ledger]
    order = "strictly rising" if rising(tokens) else "NOT rising"
    span = f", from {tokens[0]} to {tokens[-1]}" if tokens else ""
    at_once = overlaps(part.turns)
    changes = hand_overs(part.turns)
    median, p90 = changes.median_s, changes.p90_s
    took = "" if median is None or p90 is None else f", median {median * 1e3:.2f} ms, p90 {p90 * 1e3:.2f} ms"
    return [
        f"with the lock     {part.lost} of {part.updates} updates lost; the counter says {part.counter}",
        f"                  tokens {order}{span}",
        f"                  two holders at once: {f'{at_once} times' if at_once else 'never'}",
        f"                  {changes.count} hand-overs{took}",
    ]


def _unlocked(part: Unlocked) -> list[str]:
    share = f" ({part.lost / part.updates:.0%})" if part.updates else ""
    lost = f"{part.lost} of {part.updates} updates lost{share}"
    lines = [f"without the lock  {lost}; the counter says {part.counter}"]
    collision = part.collision()
    if collision is not None:
        value, workers = collision
        who = ", ".join(map(str, workers[:-1])) + f" and {workers[-1]}"
        lines.append(f"                  for example, workers {who} all wrote {value}")
    if not part.lost:
        lines.append("                  this run was too small to show a difference; try more --rounds")
    return lines
