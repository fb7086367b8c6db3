"""What the commands that look at a store share: how it is asked, and where the answer goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import click

import recipes
from recipes._printable import printable
from recipes.cli import codes
from recipes.cli.options import connected

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["Justify", "can_redraw", "columns", "console", "json_option", "looking", "table"]

Justify = Literal["left", "right"]

NARROW = 100
"""Columns where there is no terminal."""
DESCRIBE = {"data", "host", "owner", "since", "value"}
"""Columns that a narrow terminal cuts. The others are whole: other commands take what they say."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def looking(store: str, act: Callable[[recipes.Client], int]) -> int:
    """Do something with a client; says what is wrong if the store does not answer."""
    try:
        with connected(store) as client:
            return act(client)
    except recipes.RecipesError as error:
        click.echo(f"recipes: {error}", err=True)
        return codes.UNREACHABLE


def console() -> Console:
    """Return what draws on standard output."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and JSON needs none of it

    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else NARROW * 2,
        highlight=False,
        markup=False,
        emoji=False,
    )


def can_redraw(screen: Console) -> bool:
    """Return whether a picture can move there: ``FORCE_COLOR`` makes no terminal of a pipe."""
    return screen.file.isatty() and screen.is_terminal and not screen.is_dumb_terminal


def table(title: str, heads: Sequence[tuple[str, Justify]], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of rows, each of one line.

    Args:
        title: What stands above it.
        heads: The names of its columns, and how each is justified.
        rows: Their cells.
    """
    from rich.table import Table  # noqa: PLC0415 - slow to import, and JSON needs none of it
    from rich.text import Text  # noqa: PLC0415

    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for head, justify in heads:
        made.add_column(head, justify=justify, no_wrap=head not in DESCRIBE)
    for row in rows:
        made.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    return made


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines, one column below the other, without characters that would move the cursor.

    Importing rich for this takes as long as asking the store.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
