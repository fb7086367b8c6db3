"""What the processes of a real run told, to be told again.

Five workers and their twins on a file, six turns each, the first three slowly.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from recipes.cli.demo.board import SETTLE_S, SHARES, Board, InOrder
from recipes.cli.demo.frame import frame
from recipes.cli.demo.orders import Order
from recipes.cli.demo.scene import SCENES, Scene

__all__ = ["boards", "drawn", "messages", "picture", "scene"]

RECORDED = Path(__file__).with_name("recorded.jsonl")
PROCESSES, ROUNDS = 5, 6
MOMENT = 13


def messages() -> list[dict[str, Any]]:
    """Return the lines, as they arrived."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def scene(name: str, *, processes: int = PROCESSES, order: Order | None = None) -> Scene:
    """Return a scene as it was recorded, or of another size."""
    kind = next(one for one in SCENES if one.name == name)
    return kind(processes, order or Order(kind.name, rounds=ROUNDS))


def boards(name: str) -> Iterator[Board]:
    """Yield the board of a scene after each message, in order of time; it is the same board all the time."""
    in_order = InOrder()
    began = next(line for line in messages() if line.get("scene") == name)
    lines = messages()[messages().index(began) + 1 :]
    for line in lines:
        if line["kind"] == "scene":
            break
        in_order.add(line)
    board = Board(scene(name), began["at"])
    for message in in_order.settled(began["at"] + 1000 + SETTLE_S):
        board.take(message)
        yield board


def drawn(what: RenderableType, width: int, *, colour: bool = False) -> list[str]:
    """Return what rich makes of it on a terminal of this width."""
    out = io.StringIO()
    system = "truecolor" if colour else None
    console = Console(file=out, width=width, force_terminal=True, color_system=system)
    console.print(what)
    return out.getvalue().splitlines()


def picture() -> list[str]:
    """Return what the view draws at the moment that the README shows."""
    for board in boards("bank"):
        shared = [board.lanes[worker] for worker in range(1, 6)].count(SHARES)
        if shared > 1 and board.locked.turns >= MOMENT:
            return drawn(frame(board, board.now, 80, 24), 80)
    raise AssertionError("there should be such a moment")
