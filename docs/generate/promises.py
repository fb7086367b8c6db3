"""What each store promises, as ``client.guarantees`` says it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from docs.generate.tables import table
from recipes.guarantees import STORES, Guarantees

__all__ = ["promises"]

IN_WORDS = ("survives", "timeout")
"""What is said in a sentence: ``client.guarantees`` has it, and the page of the store."""


def promises() -> str:
    """Return the table; stores that promise the same share a row."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    names = [field.name for field in dataclasses.fields(Guarantees) if field.name not in IN_WORDS]
    for scheme, given in STORES.items():
        alike[tuple(_said(getattr(given, name)) for name in names)].append(f"`{scheme}://`")
    return table(("store", *names), [(" ".join(stores), *facts) for facts, stores in alike.items()])


def _said(value: bool | str) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else value
