"""The tables of events, and of what is measured, from their lists."""

from __future__ import annotations

from docs.generate.tables import code, table
from recipes.events import EVENTS
from recipes.telemetry import INSTRUMENTS

__all__ = ["events", "instruments"]


def events() -> str:
    """Return the table."""
    rows = [(f"`{event}`", one.level, one.when, code(one.fields)) for event, one in EVENTS.items()]
    return table(("event", "level", "when", "fields it always has"), rows)


def instruments() -> str:
    """Return the table of what is measured."""
    rows = [(f"`{one.name}`", one.kind, one.unit, code(one.labels), one.help) for one in INSTRUMENTS]
    return table(("name", "kind", "unit", "labels", "what it says"), rows)
