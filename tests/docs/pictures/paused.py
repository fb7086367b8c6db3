"""A holder that was stopped, and what fencing did: drawn from what ``integration.pausing`` recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.docs.pictures.svg import BLUE, GREEN, GREY, INK, PALE, RED, YELLOW, Picture

__all__ = ["picture"]

RECORD = Path(__file__).with_name("paused.jsonl")
LEFT, SCALE = 120, 145
LANES = {"A": 78.0, "B": 148.0, "file": 218.0}
HEIGHT = 300


def picture() -> str:
    """Draw the record."""
    lines = [json.loads(line) for line in RECORD.read_text().splitlines()]
    ends = max(line["at"] for line in lines)
    drawn = Picture(
        round(LEFT + ends * SCALE) + 130, HEIGHT, "A paused holder writes too late, and is refused"
    )
    _axis(drawn, ends)
    for lane, words in (("A", "client A"), ("B", "client B"), ("file", "the file's gate")):
        drawn.words((16, LANES[lane] + 4), words, bold=True)
    _first(drawn, lines)
    _second(drawn, lines)
    for line in lines:
        _write(drawn, line)
    return drawn.text


def _axis(drawn: Picture, ends: float) -> None:
    for second in range(int(ends) + 1):
        drawn.line([(_x(second), 44), (_x(second), HEIGHT - 40)], colour=PALE, width=1)
        drawn.words((_x(second), HEIGHT - 22), f"{second} s", colour=GREY, size=11, anchor="middle")


def _first(drawn: Picture, lines: list[dict[str, Any]]) -> None:
    at = {line["kind"]: line["at"] for line in lines if line["who"] == "A"}
    token = next(line["token"] for line in lines if line["who"] == "A")
    _bar(drawn, "A", (at["lock.acquired"], at["stopped"]), BLUE, f"holds, token {token}")
    drawn.box(
        (_x(at["stopped"]), LANES["A"] - 12),
        ((at["continued"] - at["stopped"]) * SCALE, 24),
        fill="#f1f3f5",
        edge=GREY,
        dashed=True,
    )
    middle = (at["stopped"] + at["continued"]) / 2
    drawn.words(
        (_x(middle), LANES["A"] + 4),
        "stopped (SIGSTOP): renews nothing",
        colour=GREY,
        size=11.5,
        anchor="middle",
    )
    drawn.words((_x(at["checked"]), 52), "checks: held is true", colour=INK, size=11.5, anchor="end")
    drawn.words(
        (_x(at["continued"]) - 4, 38),
        "continues, and writes;",
        "looks: held is false",
        colour=RED,
        size=11.5,
    )


def _second(drawn: Picture, lines: list[dict[str, Any]]) -> None:
    at = {line["kind"]: line["at"] for line in lines if line["who"] == "B"}
    token = next(line["token"] for line in lines if line["who"] == "B" and line["token"])
    _bar(drawn, "B", (at["lock.queued"], at["lock.acquired"]), YELLOW, "waits")
    _bar(drawn, "B", (at["lock.acquired"], at["lock.released"]), BLUE)
    drawn.words((_x(at["lock.released"]) + 8, LANES["B"] + 4), f"holds, token {token}", colour=BLUE)
    words = "the store has ended A's session: it was not renewed"
    drawn.words((_x(at["lock.acquired"]) - 6, LANES["B"] - 18), words, colour=GREY, size=11.5, anchor="end")


def _write(drawn: Picture, line: dict[str, Any]) -> None:
    if line["kind"] not in ("written", "refused"):
        return
    taken = line["kind"] == "written"
    at, y = _x(line["at"]), LANES["file"]
    drawn.arrow([(at, LANES[line["who"]] + 13), (at, y - 10)], colour=GREEN if taken else RED)
    if taken:
        drawn.dot((at, y), 6, GREEN)
    else:
        drawn.cross((at, y), RED)
    near = line["who"] == "B" and line["at"] < 4.5
    words = f"{line['token']}: taken" if taken else f"{line['token']}: refused"
    drawn.words(
        (at + (4 if near else 0), y + 24),
        words,
        colour=GREEN if taken else RED,
        anchor="end" if near else "middle",
    )


def _bar(drawn: Picture, lane: str, span: tuple[float, float], colour: str, words: str = "") -> None:
    start, end = span
    drawn.box((_x(start), LANES[lane] - 12), ((end - start) * SCALE, 24), fill=colour, edge=colour)
    ink = INK if colour == YELLOW else "#ffffff"
    drawn.words((_x((start + end) / 2), LANES[lane] + 4), words, colour=ink, anchor="middle")


def _x(seconds: float) -> float:
    return LEFT + seconds * SCALE
