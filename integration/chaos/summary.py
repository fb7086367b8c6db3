"""The numbers of many batches together: ``python -m integration.chaos.summary --merge FOLDER``.

With ``--merge FOLDER`` or ``--jepsen FILE...`` it writes ``docs/proof/chaos.json`` anew. Always it prints
that as tables in Markdown, which are kept there too, for the documentation.
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

__all__ = ["KEPT", "failed", "markdown", "measured", "merged"]

KEPT = Path(__file__).parents[2] / "docs/proof/chaos.json"
PUBLISHED = "about 18 % (Jepsen, etcd 3.4.3, 2020)"
OLD_LANES = [12]
"""How many there were in runs that do not say it."""
MEANS = {
    "fenced": "behind a gate that compares tokens",
    "asked": "no gate, `grant.held` asked right before the write",
    "unfenced": "no gate, and not asked",
}
WHY_ASKED = (
    "An update can be lost in spite of `held` if the process is stopped, or waits for the file, between\n"
    "question and write, or if its session was ended from outside, which no client can know."
)


def merged(batches: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what many batches were together, all and for each store."""
    batches = sorted(batches, key=lambda one: (one["store"], one["seed"], one["first"]))
    stores = sorted({one["store"] for one in batches})
    return {
        **_sum(batches),
        "commits": sorted({one["commit"] for one in batches}),
        "lanes": sorted({lanes for one in batches for lanes in one.get("lanes", OLD_LANES)}),
        "seeds": [
            f"{one['store']}: {one['seed']}/{one['first']} and on, {one['runs']} runs of {one['commit']}"
            for one in batches
        ],
        "stores": {name: _sum([one for one in batches if one["store"] == name]) for name in stores},
    }


def measured(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what several measurements in Jepsen's shape were together."""
    runs = sorted(runs, key=lambda one: str(one["seed"]))
    names = ("seconds", "groups", "pauses", "grants")
    return {
        "versions": sorted({f"{one['store'].partition('-')[0]} {one['version']}" for one in runs}),
        "commits": sorted({one["commit"] for one in runs}),
        "violations": sum(len(one["violations"]) for one in runs),
        "registers": {
            name: dict(sum((Counter(one["registers"][name]) for one in runs), Counter()))
            for name in REGISTERS
        },
        "runs": [
            {name: one[name] for name in ("seed", *names)} | {"registers": one["registers"]} for one in runs
        ],
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
    parts = [_about(kept), _runs(kept), _faults(kept), _losses(kept["pause runs"])]
    if "jepsen" in kept:
        parts += [_shape(kept["jepsen"]), _jepsen(kept["jepsen"])]
    return "\n\n".join(parts)


def _about(kept: dict[str, Any]) -> str:
    lanes = " or ".join(map(str, kept.get("lanes", OLD_LANES)))
    return (
        f"Five processes with {lanes} lanes each, and for at least four seconds faults that a seed draws "
        "([how](../../integration/chaos/run.py)).\n"
        f"Of commit {_commits(kept)}; the seeds are in [chaos.json](../proof/chaos.json)."
    )


def _shape(found: dict[str, Any]) -> str:
    runs = found["runs"]
    lasted = {f"{one['seconds']:.0f} s, on {one['groups']} locks beside each other" for one in runs}
    grants = _said(sum(one["grants"] for one in runs))
    return (
        f"The shape of Jepsen's lock test, on {', '.join(found['versions'])}: a TTL of 2 s, five processes "
        "on each lock, some\npaused every 5 s, and updates that take up to 2 s. "
        f"Measurements: {len(runs)} of {', '.join(sorted(lasted))};\n"
        f"{grants} grants, {found['violations']} violations. Of commit {_commits(found)}."
    )


def _commits(found: dict[str, Any]) -> str:
    return ", ".join(f"`{one}`" for one in found["commits"])


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_said(cell) for cell in line) + " |" for line in lines)


def _said(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


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
    head = [f"register, in the {paused.get('runs', 0)} runs with pauses", "acknowledged", "lost"]
    return _table(head, rows) + "\n\n" + WHY_ASKED


def _jepsen(found: dict[str, Any]) -> str:
    rows = [
        [
            MEANS[name],
            found["registers"][name]["acknowledged"],
            found["registers"][name].get("lost", 0),
            f"{_share(found['registers'][name]):.1f} %",
            ", ".join(f"{_share(one['registers'][name]):.1f}" for one in found["runs"]),
        ]
        for name in REGISTERS
    ]
    head = ["in Jepsen's shape", "acknowledged updates", "lost", "share", "of each measurement"]
    return _table(head, [*rows, ["published", "", "", PUBLISHED, ""]])


def _share(counted: dict[str, int]) -> float:
    return 100 * counted.get("lost", 0) / max(1, counted["acknowledged"])


def failed(kept: dict[str, Any]) -> list[str]:
    """Return in what the numbers do not prove what they should."""
    wrong = {
        "there are violations": kept["violations"],
        "contenders were left": kept["leaked"],
        "an update was lost behind the gate": kept["pause runs"].get("fenced: lost"),
        "the register without a gate lost nothing": not kept["pause runs"].get("unfenced: lost"),
    }
    if jepsen := kept.get("jepsen"):
        wrong["there are violations in Jepsen's shape"] = jepsen["violations"]
        wrong["an update was lost behind the gate in Jepsen's shape"] = jepsen["registers"]["fenced"].get(
            "lost"
        )
    return [what for what, how in wrong.items() if how]


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge if asked to, print, and return 1 if the numbers do not prove what they should."""
    parser = program("integration.chaos.summary", __doc__)
    parser.add_argument("--merge", type=Path, help="the folder where batches saved their numbers")
    parser.add_argument("--jepsen", type=Path, nargs="+", help="what integration.chaos.jepsen saved")
    asked = parser.parse_args(arguments)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if asked.merge:
        batches = [json.loads(path.read_text()) for path in sorted(asked.merge.glob("*.json"))]
        kept = {**{name: kept[name] for name in ("jepsen",) if name in kept}, **merged(batches)}
    if asked.jepsen:
        kept["jepsen"] = measured(json.loads(path.read_text()) for path in asked.jepsen)
    if asked.merge or asked.jepsen:
        kept["table"] = markdown(kept)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    print(markdown(kept), *failed(kept), sep="\n\n")
    return int(bool(failed(kept)))


if __name__ == "__main__":
    sys.exit(main())
