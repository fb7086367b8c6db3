"""The command ``recipes``; what it does loads when it is called."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

HOW_TO_HAVE_IT = "recipes: the command line needs more: pip install 'coordination-recipes[cli]'"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process if None); returns its exit code."""
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # it was closed by whatever started this
            empty = Path(os.devnull).open(mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            setattr(sys, stream, empty)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # its encoding may lack what names have
    if any(importlib.util.find_spec(needed) is None for needed in ("click", "rich")):
        print(HOW_TO_HAVE_IT, file=sys.stderr)
        return 2
    from recipes.cli.command import run

    return run(argv)
