"""Tables as Markdown has them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["code", "said", "table"]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(words: Iterable[str], otherwise: str = "") -> str:
    """Return words as code, with commas between."""
    return ", ".join(f"`{word}`" for word in words) or otherwise


def said(thing: Any) -> str:
    """Return the first sentence of a docstring, without the mark at its end."""
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(first.split()).removesuffix(".").replace("``", "`")
