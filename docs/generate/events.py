"""The tables of events, and of what is measured, from their lists; recipes that have the same share a row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from docs.generate.tables import code, table
from recipes.events import EVENTS
from recipes.telemetry import INSTRUMENTS

__all__ = ["events", "instruments"]

COMMON = ("name", "recipe", "mode", "attempt", "store")
"""What the table of events leaves out of its fields, since its page says it."""
SHARED = ("recipe", "store")
"""The labels that the table of what is measured leaves out."""
HELD = ["lock", "semaphore", "election", "group", "partition"]
"""Nouns that the tables join to one word."""


def events() -> str:
    """Return the table."""
    rows = (
        (
            event,
            (one.level, one.when, code(field for field in one.fields if field not in (*COMMON, "weight"))),
        )
        for event, one in EVENTS.items()
    )
    return table(("event", "of", "level", "when", "fields besides the common ones"), _joined(rows))


def instruments() -> str:
    """Return the table of what is measured."""
    rows = (
        (one.name, (one.kind, code((label for label in one.labels if label not in SHARED), "none"), one.help))
        for one in INSTRUMENTS
    )
    return table(("name", "of", "kind", "labels besides the common ones", "what it says"), _joined(rows))


def _joined(rows: Iterable[tuple[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Return a row for each name behind the noun, with the nouns that have it."""
    found: dict[Hashable, list[str]] = {}
    for name, cells in rows:
        noun, _, rest = name.partition(".")
        found.setdefault((rest, cells), []).append(noun)
    return [
        (f"`{nouns[0]}.{rest}`" if len(nouns) == 1 else f"`*.{rest}`", _of(nouns), *cells)
        for (rest, cells), nouns in found.items()  # type: ignore[misc]
    ]


def _of(nouns: list[str]) -> str:
    """Return the nouns; those of what is held, which share most rows, as one."""
    rest = [noun for noun in nouns if noun not in HELD]
    return ", ".join(["held", *rest] if set(HELD) <= set(nouns) else nouns)
