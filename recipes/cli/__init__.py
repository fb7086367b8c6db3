"""The command ``recipes``; what it does loads when it is called."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process if None); returns its exit code."""
    from recipes.cli.command import run

    return run(argv)
