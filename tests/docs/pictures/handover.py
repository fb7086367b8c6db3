"""A lock that is handed over, operation by operation, as the programs ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recipes._contract.contenders import Ahead
from recipes._contract.operations import Check, Enqueue, Look, Watch
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Event
from recipes._rules.exclusive import EXCLUSIVE
from tests.docs.pictures.svg import BLUE, GREEN, GREY, INK, PALE, RED, Picture
from tests.programs.hall import Guest, Hall

__all__ = ["picture"]

LANES = {"A": 130.0, "store": 420.0, "B": 690.0, "C": 900.0}
ROW, TOP = 38, 80


@dataclass(frozen=True)
class Message:
    """One arrow: to the store and back, an event from it, or a word at a lane."""

    lane: str
    words: str
    kind: str  # "asks", "hears" or "is"


class Told(Guest):
    """A guest whose operations are written down."""

    hall: Recorded

    def _answer(self, op: Any) -> Any:
        words = self._words(op)
        if words:
            self.hall.note(self, words, "asks")
        return super()._answer(op)

    def _words(self, op: Any) -> str:
        match op:
            case Enqueue():
                return "join the queue, look"
            case Watch(targets=targets):
                return f"watch {self.hall.letters(targets)}"
            case Look(targets=targets) if targets:
                return f"watch {self.hall.letters(targets)}, look"
            case Look():
                return "look"
            case Check():
                return "am I there, and nobody ahead?"
        return ""

    def go_on(self) -> None:
        """Run on, and say if that ended in a grant."""
        before = self.granted
        super().go_on()
        if self.granted and not before:
            self.hall.note(self, "holds", "is")


class Recorded(Hall):
    """A hall that writes down what is asked and told."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.names: dict[str, str] = {}

    def come(self, rule: Rule) -> Guest:
        """Have one more join."""
        self._number += 1
        self.names[f"{rule.kind}{self._number}"] = "ABC"[self._number - 1]
        guest = Told(self, self._number, rule)
        self.guests[guest.name] = guest
        return guest

    def note(self, guest: Guest, words: str, kind: str) -> None:
        """Write down."""
        self.messages.append(Message(self.names[guest.name], words, kind))

    def letters(self, targets: Ahead) -> str:
        """Return who these are."""
        return ", ".join(self.names[target.ref] for target in targets)

    def go(self, guest: Guest) -> list[Guest]:
        """Have one leave."""
        self.note(guest, "release: delete my own", "asks")
        return super().go(guest)

    def _tell(self, event: Event, ref: str) -> list[Guest]:
        for guest in self.guests.values():
            if ref in guest.watching and not guest.granted:
                self.note(guest, f"{self.names[ref]} is gone", "hears")
        return super()._tell(event, ref)


def picture() -> str:
    """Draw three that come, and two hand-overs."""
    hall = Recorded()
    first, second, _ = (hall.come(EXCLUSIVE) for _ in range(3))
    hall.go(first)
    hall.go(second)
    drawn = Picture(1010, TOP + ROW * len(hall.messages) + 30, "Two hand-overs of a lock, step by step")
    for lane, x in LANES.items():
        drawn.words((x, 36), lane, size=15, anchor="middle", bold=True)
        drawn.line(
            [(x, 48), (x, TOP + ROW * len(hall.messages))], colour=INK if lane == "store" else PALE, width=2
        )
    for number, message in enumerate(hall.messages):
        _message(drawn, message, TOP + ROW * number)
    return drawn.text


def _message(drawn: Picture, message: Message, y: float) -> None:
    x, store = LANES[message.lane], LANES["store"]
    if message.kind == "is":
        drawn.box((x - 34, y - 12), (68, 24), fill=BLUE, edge=BLUE)
        drawn.words((x, y + 5), message.words, colour="#ffffff", anchor="middle", bold=True)
        return
    side = -1 if x < store else 1
    middle = (store + LANES["A" if side < 0 else "B"]) / 2
    if message.kind == "hears":
        drawn.arrow([(store, y), (x, y)], colour=RED, dash="5 4")
        drawn.words((middle, y - 6), message.words, colour=RED, anchor="middle", size=11.5)
        return
    released = message.words.startswith("release")
    drawn.arrow([(x, y), (store, y)], colour=GREEN if released else GREY)
    drawn.words((middle, y - 6), message.words, colour=GREEN if released else INK, anchor="middle", size=11.5)
