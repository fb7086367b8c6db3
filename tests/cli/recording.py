"""What the processes of a real run wrote, to be read again.

Five workers at a file, eight turns each with the lock and without it, all of them slow.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from recipes.cli.demo.scenes import SCENES
from recipes.cli.demo.screen import Screen
from recipes.cli.demo.verdict import Side

__all__ = ["PROCESSES", "ROUNDS", "drawn", "messages", "picture", "screen", "sides"]

RECORDED = Path(__file__).with_name("recorded.jsonl")
PROCESSES, ROUNDS = 5, 8


def messages() -> list[dict[str, Any]]:
    """Return the lines, as they arrived."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def sides(name: str) -> Iterator[tuple[float, Side, Side]]:
    """Yield both sides of a scene after each message, in order of time; they are the same all the time."""
    scene = SCENES[name]
    both = Side(scene), Side(scene)
    for message in sorted(messages(), key=lambda one: one["at"]):
        if message.get("scene", name) == name:
            both[message.get("side") == "unlocked"].take(message)
            yield (message["at"], *both)


def screen(locked: Side, unlocked: Side, workers: int = PROCESSES) -> Screen:
    """Return a screen that shows these, 80 columns wide."""
    one = Screen("sqlite:///x", workers, plain=True, quiet=False)
    one.sides = locked, unlocked
    return one


def drawn(what: RenderableType, width: int = 80) -> list[str]:
    """Return what rich makes of it on a terminal of this width."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(what)
    return out.getvalue().splitlines()


def picture() -> list[str]:
    """Return what is drawn at the moment that the documentation shows."""
    for at, locked, unlocked in sides("accounts"):
        held = [
            hold for hold in locked.recent(1000, at).holds if hold.how == "open" and hold.mode == "shared"
        ]
        if len(held) > 1 and unlocked.turns:
            return drawn(screen(locked, unlocked).picture(at, PROCESSES))
    raise AssertionError("there should be such a moment")
