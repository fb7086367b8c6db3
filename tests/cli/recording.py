"""What the processes of a real run told, to be told again: four workers, three turns each, on a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recipes.cli.demo.board import SETTLE_S, Board, InOrder
from recipes.cli.demo.orders import Order
from recipes.cli.demo.scene import SCENES, Scene

__all__ = ["boards", "messages", "scene"]

RECORDED = Path(__file__).with_name("recorded.jsonl")
PROCESSES, ROUNDS = 4, 3


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
