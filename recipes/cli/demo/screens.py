"""Which screen there is: a view where one can be drawn, lines where not, JSON for programs."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import IO

from recipes.cli.demo.screen import JsonScreen, Screen

__all__ = ["HOW_TO_SEE", "NARROWEST", "screen_for"]

NARROWEST, LOWEST = 60, 20
"""Columns and lines that the view needs."""
HOW_TO_SEE = "for the live view: pip install 'coordination-recipes[cli]'"


def screen_for(out: IO[str], notes: IO[str], processes: int, *, json: bool, plain: bool) -> Screen:
    """Return the screen for ``out``, and for notes beside it."""
    if json:
        return JsonScreen(out, notes, processes)
    draws = _draws(out)
    lines = Screen(out, processes, colour=draws and not os.environ.get("NO_COLOR"))
    if plain or not draws or not _has_room():
        return lines
    if importlib.util.find_spec("rich") is None:
        lines.say(HOW_TO_SEE)
        return lines
    from recipes.cli.demo.view import View  # noqa: PLC0415 - rich is an extra

    return View(out, processes)


def _draws(out: IO[str]) -> bool:
    return out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _has_room() -> bool:
    size = shutil.get_terminal_size()
    return size.columns >= NARROWEST and size.lines >= LOWEST
