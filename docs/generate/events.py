"""The table of events, from their list; what a field means is in the record's docstring."""

from __future__ import annotations

from docs.generate.tables import code, table
from recipes.events import EVENTS

__all__ = ["events"]


def events() -> str:
    """Return the table."""
    rows = [(f"`{event}`", level, code(fields)) for event, (level, fields) in EVENTS.items()]
    return table(("event", "level", "fields it always has"), rows)
