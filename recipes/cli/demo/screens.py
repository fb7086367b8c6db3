"""Which screen there is: lines for people, JSON for programs."""

from __future__ import annotations

import os
from typing import IO

from recipes.cli.demo.screen import JsonScreen, Screen

__all__ = ["screen_for"]


def screen_for(out: IO[str], notes: IO[str], processes: int, *, json: bool, plain: bool) -> Screen:
    """Return the screen for ``out``, and for notes beside it."""
    if json:
        return JsonScreen(out, notes, processes)
    draws = _draws(out)
    return Screen(out, processes, colour=draws and not plain and not os.environ.get("NO_COLOR"))


def _draws(out: IO[str]) -> bool:
    return out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
