"""Which screen there is: a view where one can be drawn, lines where not, JSON for programs."""

from __future__ import annotations

import os
import shutil
from typing import IO

from recipes.cli.demo.screen import JsonScreen, Screen
from recipes.cli.demo.view import View

__all__ = ["NARROWEST", "screen_for"]

NARROWEST, LOWEST = 60, 20
"""Columns and lines that the view needs."""


def screen_for(out: IO[str], notes: IO[str], processes: int, *, json: bool, plain: bool) -> Screen:
    """Return the screen for ``out``, and for notes beside it."""
    if json:
        return JsonScreen(out, notes, processes)
    draws = _draws(out)
    lines = Screen(out, processes, colour=draws and not os.environ.get("NO_COLOR"))
    if plain or not draws or not _has_room():
        return lines
    return View(out, processes)


def _draws(out: IO[str]) -> bool:
    return out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _has_room() -> bool:
    size = shutil.get_terminal_size()
    return size.columns >= NARROWEST and size.lines >= LOWEST
