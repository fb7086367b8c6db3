"""The numbers of soaks, as they are kept in ``docs/proof/soak.json``, and as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["KEPT", "failed", "keep", "table"]

KEPT = Path(__file__).parents[2] / "docs/proof/soak.json"
FIGURES = {
    "rss": ("memory, MiB", 2**20),
    "blocks": ("Python's blocks", 1),
    "descriptors": ("descriptors", 1),
    "threads": ("threads", 1),
    "keys": ("keys in the store", 1),
}
"""What is shown of what was measured, and in which unit."""


def keep(result: dict[str, Any], path: Path = KEPT) -> None:
    """Put a result in the place of an earlier one of its store."""
    kept = json.loads(path.read_text()) if path.exists() else []
    both = {one["store"]: one for one in (*kept, result)}
    path.write_text(json.dumps([both[store] for store in sorted(both)], indent=1) + "\n")


def table(kept: Iterable[dict[str, Any]]) -> str:
    """Return the results as Markdown: of each figure its level, and its slope by the hour."""
    head = ["store", "minutes", "grants", "faults", "violations", "not decided"]
    head += [words for words, _ in FIGURES.values()] + ["leaks", "commit"]
    lines = [head, ["---"] * len(head)]
    for one in kept:
        cells = [f"{one['store']} {one['version']}", f"{one['seconds'] / 60:.1f}", f"{one['grants']:,}"]
        cells += [f"{sum(one['faults'].values()):,}", str(len(one["violations"])), str(one["undecided"])]
        cells += [_figure(one["figures"].get(what), unit) for what, (_, unit) in FIGURES.items()]
        lines.append([*cells, str(len(one["leaks"])), f"`{one['commit']}`"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(found: dict[str, float] | None, unit: float) -> str:
    if found is None:
        return "-"
    level, slope = found["level"] / unit, found["per_hour"] / unit
    return f"{level:,.0f} ({slope:+,.1f})"


def failed(kept: Iterable[dict[str, Any]]) -> list[str]:
    """Return in what the numbers do not prove what they should."""
    return [
        f"{one['store']}: {what}"
        for one in kept
        for what, wrong in (
            ("there are violations", one["violations"]),
            ("it leaks", one["leaks"]),
            ("nothing was measured", not {"rss", "keys"} <= one["figures"].keys()),
        )
        if wrong
    ]
