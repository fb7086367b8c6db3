"""Texts that others chose, as they may be printed: names, owners and reasons may have any characters."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return a text without characters that would move a cursor, or that XML has no place for."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
