"""Fills the tables of docs/internals/proof.md from docs/proof/*.json: ``python -m tests.docs.proof``.

Each table stands between two comments that name it. What was not run yet says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from integration.soak import summary as soak
from tests.docs.pages import ROOT
from tests.mutants import __main__ as mutants
from tests.simulation import bulk, scale

__all__ = ["PAGE", "filled"]

PAGE = ROOT / "docs/internals/proof.md"
KEPT = ROOT / "docs/proof"
NOT_YET = "Not kept here yet."
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def exhaustive(kept: dict[str, Any]) -> str:
    """Return what the search covered."""
    rows = [
        "| store | clients | lost messages | ended sessions | deviations | runs | states | violations | s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in kept["searches"]:
        most = "all" if one["deviations"] is None else f"at most {one['deviations']}"
        end = "" if one["exhausted"] else " (not exhausted)"
        cells = (one["store"], one["clients"], one["losses"], one["expiries"], most + end)
        sums = (
            f"{one['schedules']:,}",
            f"{one['states']:,}",
            int(one["violation"] is not None),
            one["seconds"],
        )
        rows.append("| " + " | ".join(map(str, (*cells, *sums))) + " |")
    return "\n".join([*rows, "", f"Of commit `{kept['commit']}`; seconds of one core."])


def chaos(kept: Any) -> str:
    """Return the table that the runs on real servers made of themselves."""
    return str(kept["table"])


TABLES: dict[str, Callable[[Any], str]] = {
    "exhaustive": exhaustive,
    "simulation": bulk.table,
    "mutants": mutants.table,
    "chaos": chaos,
    "soak": soak.table,
    "scale": scale.table,
}


def filled(page: str) -> str:
    """Return the page with its tables as they are kept."""

    def fill(found: re.Match[str]) -> str:
        path = KEPT / f"{found[2]}.json"
        words = TABLES[found[2]](json.loads(path.read_text())) if path.exists() else NOT_YET
        return f"{found[1]}\n{words}\n\n{found[3]}"

    return TABLE.sub(fill, page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
