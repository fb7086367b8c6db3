"""Who stands in a queue and whom everybody watches, as the acquire programs have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recipes._contract.rule import Rule
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.readwrite import SHARED
from tests.docs.pictures.svg import BLUE, GREEN, GREY, INK, PALE, RED, Picture
from tests.programs.hall import Guest, Hall

__all__ = ["EVERYBODY_AHEAD", "herd", "lock", "rwlock", "woken"]

EVERYBODY_AHEAD = Rule("lock", lambda ahead: ahead, depth=10_000, steps_up=False)
"""What not to do: watch all who are ahead, and look again whenever one of them goes."""

LEFT, STEP, BOX, ROW = 150, 130, (84, 34), 150


@dataclass(frozen=True)
class Frame:
    """The queue after something happened."""

    title: str
    places: tuple[tuple[str, str, bool], ...]
    watches: tuple[tuple[int, int], ...]
    heard: tuple[str, ...]


class Show:
    """A hall whose guests have names, and what was seen in it."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.hall = Hall()
        self.guests = [self.hall.come(rule) for rule in rules]
        self.names = {guest.name: letter for guest, letter in zip(self.guests, "ABCDEFGH", strict=False)}
        self.frames: list[Frame] = []

    def see(self, title: str, heard: Sequence[Guest] = ()) -> None:
        """Note how all stand."""
        queue = [self.hall.guests[one.ref] for one in reversed(self.hall.queue)]
        at = {guest.name: number for number, guest in enumerate(queue)}
        downgraded = {one.ref for one in self.hall.queue if one.downgraded}
        places = tuple((self.names[one.name], _kind(one, downgraded), one.granted) for one in queue)
        watches = tuple(
            (at[guest.name], at[ref])
            for guest in queue
            if not guest.granted
            for ref in sorted(guest.watching)
            if ref in at
        )
        self.frames.append(Frame(title, places, watches, tuple(self.names[one.name] for one in heard)))

    def go(self, number: int, does: str = "releases") -> None:
        """Have one leave."""
        guest = self.guests[number]
        self.see(f"{self.names[guest.name]} {does}", self.hall.go(guest))

    def downgrade(self, number: int) -> None:
        """Have one let readers in."""
        guest = self.guests[number]
        self.see(f"{self.names[guest.name]} downgrades", self.hall.downgrade(guest))


def _kind(guest: Guest, downgraded: set[str]) -> str:
    kind = {"R": "reader", "W": "writer"}.get(guest.rule.kind, "")
    return f"{kind}, reads now" if guest.name in downgraded else kind


def lock() -> str:
    """Draw the exclusive lock: two hear of a release, whoever else waits."""
    show = Show([EXCLUSIVE] * 6)
    show.see("six came")
    show.go(0)
    show.go(3, "gives up")
    return _drawn(show.frames, "A queue of the exclusive lock, and who watches whom")


def herd() -> str:
    """Draw what happens if everybody watches all who are ahead."""
    show = Show([EVERYBODY_AHEAD] * 6)
    show.see("six came")
    show.go(0)
    return _drawn(show.frames, "A queue in which everybody watches all who are ahead: a herd")


def rwlock() -> str:
    """Draw the read-write lock."""
    show = Show([WRITER, SHARED, SHARED, WRITER, SHARED, WRITER])
    show.see("six came")
    show.downgrade(0)
    show.go(0)
    show.go(1)
    show.go(2)
    return _drawn(show.frames, "A queue of the read-write lock, and who watches whom")


def woken(rule: Rule, waiters: int) -> int:
    """Return how many of so many waiters hear of one release."""
    hall = Hall()
    guests = [hall.come(rule) for _ in range(waiters + 1)]
    return len(hall.go(guests[0]))


def _drawn(frames: Sequence[Frame], words: str) -> str:
    widest = max(len(frame.places) for frame in frames)
    drawn = Picture(LEFT + STEP * widest, ROW * len(frames) + 34, words)
    drawn.words(
        (16, 24),
        "first in the queue on the left; an arrow leads from who watches to who is watched",
        size=11.5,
        colour=GREY,
    )
    for number, frame in enumerate(frames):
        _frame(drawn, frame, 34 + ROW * number)
    return drawn.text


def _frame(drawn: Picture, frame: Frame, top: float) -> None:
    drawn.words((16, top + 62), frame.title, bold=True, size=13)
    if frame.heard:
        drawn.words((16, top + 80), f"woken: {', '.join(frame.heard)}", colour=RED, size=11.5)
    x: Callable[[int], float] = lambda place: LEFT + STEP * place + BOX[0] / 2  # noqa: E731
    for watcher, watched in frame.watches:
        far = watcher - watched
        if far == 1:
            drawn.arrow(
                [(x(watcher) - BOX[0] / 2, top + 57), (x(watched) + BOX[0] / 2, top + 57)], colour=GREY
            )
        else:
            ends = (x(watcher) - 10, top + 76), (x(watched) + 10, top + 76)
            low = top + 92 + 14 * far
            drawn.arrow([ends[0], (ends[0][0] - 30, low), (ends[1][0] + 30, low), ends[1]], colour=GREY)
    for number, (name, kind, holds) in enumerate(frame.places):
        fill, edge = (
            (BLUE, BLUE)
            if holds and kind != "reader" and "now" not in kind
            else (GREEN, GREEN)
            if holds
            else ("#ffffff", INK)
        )
        drawn.box(
            (x(number) - BOX[0] / 2, top + 40),
            BOX,
            fill=fill,
            edge=RED if name in frame.heard and not holds else edge,
        )
        ink = "#ffffff" if holds else INK
        drawn.words(
            (x(number), top + (62 if not kind else 55)), name, colour=ink, size=14, anchor="middle", bold=True
        )
        if kind:
            drawn.words((x(number), top + 69), kind, colour=ink, size=10, anchor="middle")
        drawn.words(
            (x(number), top + 32),
            "holds" if holds else "waits",
            colour=edge if holds else GREY,
            size=11,
            anchor="middle",
        )
    drawn.line([(16, top + ROW - 6), (LEFT + STEP * 6 - 16, top + ROW - 6)], colour=PALE)
