"""The numbers of many batches together: ``python -m integration.chaos.summary --merge FOLDER --jepsen FILE``.

With ``--merge`` and ``--jepsen`` it writes ``docs/proof/chaos.json`` anew; always it prints that as tables in
Markdown, for the documentation.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from integration.chaos.batch import program
from integration.chaos.resources import REGISTERS

__all__ = ["markdown", "merged"]

KEPT = Path(__file__).parents[2] / "docs/proof/chaos.json"
PUBLISHED = "about 18 % (Jepsen, etcd 3.4.3, 2020)"
MEANS = {
    "fenced": "behind a gate that compares tokens",
    "asked": "no gate, `grant.held` asked right before the write",
    "unfenced": "no gate, and not asked",
}


def merged(batches: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what many batches were together, all and for each store."""
    batches = sorted(batches, key=lambda one: (one["store"], one["seed"], one["first"]))
    stores = sorted({one["store"] for one in batches})
    return {
        **_sum(batches),
        "commits": sorted({one["commit"] for one in batches}),
        "seeds": [
            f"{one['store']}: {one['seed']}/{one['first']} and on, {one['runs']} runs" for one in batches
        ],
        "stores": {name: _sum([one for one in batches if one["store"] == name]) for name in stores},
    }


def _sum(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    paused: Counter[str] = Counter()
    for one in batches:
        numbers = {name: one[name] for name in ("runs", "three at once", "grants", "leaked", "seconds")}
        counts.update(
            {**numbers, "operations": one["figures"]["operations"], "violations": len(one["violations"])}
        )
        faults.update(one["faults"])
        paused.update(one["pause runs"])
    versions = sorted({one["version"] for one in batches})
    return {
        "versions": versions,
        **counts,
        "faults": dict(sorted(faults.items())),
        "pause runs": dict(sorted(paused.items())),
    }


def markdown(kept: dict[str, Any]) -> str:
    """Return the tables."""
    parts = [_runs(kept), _faults(kept), _losses(kept["pause runs"])]
    if "jepsen" in kept:
        parts.append(_jepsen(kept["jepsen"]))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_said(cell) for cell in line) + " |" for line in lines)


def _said(cell: object) -> str:
    return f"{cell:,}".replace(",", " ") if isinstance(cell, int) else str(cell)


def _runs(kept: dict[str, Any]) -> str:
    columns = ("runs", "three at once", "grants", "operations", "violations", "leaked")
    head = ["store", "version", "runs", "of these with three faults at once", "grants checked"]
    head += ["operations put in order", "violations", "leaked contenders"]
    rows = [
        [name, ", ".join(one["versions"]), *(one.get(column, 0) for column in columns)]
        for name, one in kept["stores"].items()
    ]
    return _table(head, [*rows, ["all", "", *(kept.get(column, 0) for column in columns)]])


def _faults(kept: dict[str, Any]) -> str:
    names = list(kept["stores"])
    rows = [
        [fault, *(kept["stores"][name]["faults"].get(fault, 0) for name in names), count]
        for fault, count in kept["faults"].items()
    ]
    return _table(["fault", *names, "all"], rows)


def _losses(paused: dict[str, int]) -> str:
    rows = [
        [MEANS[name], paused.get(f"{name}: acknowledged", 0), paused.get(f"{name}: lost", 0)]
        for name in REGISTERS
    ]
    return _table(
        [f"register, in the {paused.get('runs', 0)} runs with pauses", "acknowledged", "lost"], rows
    )


def _jepsen(measured: dict[str, Any]) -> str:
    rows = []
    for name in REGISTERS:
        one = measured["registers"][name]
        share = 100 * one["lost"] / one["acknowledged"]
        rows.append([MEANS[name], one["acknowledged"], one["lost"], f"{share:.1f} %"])
    rows.append(["published", "", "", PUBLISHED])
    return _table(["in Jepsen's shape", "acknowledged updates", "lost", "share"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge if asked to, print, and return 1 if the numbers do not prove what they should."""
    parser = program("integration.chaos.summary", __doc__)
    parser.add_argument("--merge", type=Path, help="the folder where batches saved their numbers")
    parser.add_argument("--jepsen", type=Path, help="the file of integration.chaos.jepsen")
    asked = parser.parse_args(arguments)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if asked.merge:
        batches = [json.loads(path.read_text()) for path in sorted(asked.merge.glob("*.json"))]
        kept = {**{name: kept[name] for name in ("jepsen",) if name in kept}, **merged(batches)}
    if asked.jepsen:
        kept["jepsen"] = json.loads(asked.jepsen.read_text())
    if asked.merge or asked.jepsen:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    print(markdown(kept))
    bad = kept["violations"] or kept["leaked"] or not kept["pause runs"].get("unfenced: lost")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
