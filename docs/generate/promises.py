"""What each store promises, as ``client.guarantees`` says it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from docs.generate.tables import table
from recipes.guarantees import STORES, Guarantees

__all__ = ["promises"]

IN_WORDS = ("survives", "timeout")
"""What is said in a sentence, in a table of its own."""


def promises() -> str:
    """Return both tables; stores that promise the same share a row."""
    alike: dict[Guarantees, list[str]] = defaultdict(list)
    for scheme, given in STORES.items():
        alike[given].append(f"`{scheme}://`")
    short = [field.name for field in dataclasses.fields(Guarantees) if field.name not in IN_WORDS]
    facts = [
        (" ".join(stores), *(_said(getattr(given, name)) for name in short))
        for given, stores in alike.items()
    ]
    words = [
        (" ".join(stores), *(getattr(given, name) for name in IN_WORDS)) for given, stores in alike.items()
    ]
    return "\n\n".join(table(("store", *names), rows) for names, rows in ((short, facts), (IN_WORDS, words)))


def _said(value: bool | str) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else value
