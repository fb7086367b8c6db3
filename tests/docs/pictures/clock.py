"""The clock of a session that is renewed no more, as the package reckons it."""

from __future__ import annotations

from recipes._programs.lease import SessionClock
from tests.docs.pictures.svg import BLUE, GREEN, GREY, INK, ORANGE, RED, Picture

__all__ = ["picture"]

TTL_S, PER_TTL = 15.0, 3
LEFT, SCALE = 70, 48


def picture() -> str:
    """Draw 18 seconds: one renewal that was answered, and then silence."""
    clock = SessionClock(TTL_S, 0.0, per_ttl=PER_TTL)
    drawn = Picture(
        960, 210, "A session of 15 s after its last renewal: in doubt, given up, ended by the store"
    )
    spans = [
        (0.0, clock.suspect_at, GREEN, "held"),
        (clock.suspect_at, clock.deadline, ORANGE, "suspect"),
        (clock.deadline, TTL_S + 3, RED, "lost: held is false"),
    ]
    for start, end, colour, words in spans:
        drawn.box((_x(start), 70), ((end - start) * SCALE, 30), fill=colour, edge=colour)
        drawn.words((_x((start + end) / 2), 90), words, colour="#ffffff", anchor="middle", bold=True)
    marks = [
        (0.0, "sent: the renewal", "that was answered", BLUE),
        (clock.due, f"{clock.due:g} s: the next one", "is not answered", GREY),
        (clock.suspect_at, f"{clock.suspect_at:g} s", "lock.suspect", ORANGE),
        (clock.deadline, f"{clock.deadline:g} s", "lock.lost", RED),
    ]
    for at, first, second, colour in marks:
        drawn.line([(_x(at), 56), (_x(at), 108)], colour=colour, width=2)
        drawn.words((_x(at), 34), first, second, colour=colour, size=11.5, anchor="middle")
    drawn.line([(_x(TTL_S), 108), (_x(TTL_S), 142)], colour=INK, width=2)
    drawn.words(
        (_x(TTL_S), 158), f"{TTL_S:g} s: from here on", "the store may end it", size=11.5, anchor="middle"
    )
    drawn.arrow([(_x(clock.deadline), 124), (_x(TTL_S), 124)], colour=INK)
    drawn.words(
        (_x(clock.deadline) - 8, 128), f"margin {TTL_S - clock.deadline:g} s", size=11.5, anchor="end"
    )
    drawn.words(
        (_x(0), 196),
        "A renewal counts from when it was sent: the store may have counted from any moment after.",
        size=11.5,
        colour=GREY,
    )
    return drawn.text


def _x(seconds: float) -> float:
    return LEFT + seconds * SCALE
