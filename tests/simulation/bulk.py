"""Long runs: the tally so far is appended to a file as JSON lines, and a run goes on where the last ended.

``python -m tests.simulation.bulk FILE ...`` adds up what such files hold, as a table, and with
``--out`` as the JSON that docs/internals/proof.md is made from; sums of other commits, stores and mixtures
stay there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.revision import revision
from tests.simulation.quick import hurried

__all__ = ["Part", "added_up", "commit", "keep", "run", "table"]

EVERY = 5_000
NUMBERS = ("schedules", "counted", "requests", "grants")


def commit() -> str:
    """Return the last commit that changed the package, or what simulates it."""
    return revision("recipes", "tests/simulation")


def run(
    out: Path, tally: Any, seeds: range, some: Callable[[int, int], Any], *, jobs: int, recipe: str
) -> int:
    """Run seeds, or those that follow the file's last line of this kind; 1 at a violation.

    A line has what came to be since the line before, of one commit, one store, one mixture of
    recipes. ``some(first, count)`` runs a few, in a process of its own.
    """
    kind = {"commit": commit(), "store": tally.store, "recipe": recipe}
    done = [line["upto"] for line in _lines([out]) if kind.items() <= line.items()]
    before, began = _copied(tally), time.monotonic()
    with hurried(jobs) as pool:
        for first in range(max([seeds.start, *done]), seeds.stop, EVERY):
            upto = min(first + EVERY, seeds.stop)
            size = max(1, (upto - first) // (4 * jobs))
            parts = [pool.submit(some, at, min(size, upto - at)) for at in range(first, upto, size)]
            for part in parts:
                tally.merge(part.result())
            now = _copied(tally)
            line = {**kind, "first": first, "upto": upto, **_since(before, now)}
            line["seconds"] = round(time.monotonic() - began)
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            before, began = now, time.monotonic()
    return int(bool(before["violations"]))


def _copied(tally: Any) -> dict[str, Any]:
    numbers = tally.numbers()
    return {**numbers, "faults": Counter(numbers["faults"]), "violations": list(numbers["violations"])}


def _since(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return what came to be between two moments."""
    return {
        **{name: now[name] - before[name] for name in NUMBERS},
        "faults": dict(now["faults"] - before["faults"]),
        "violations": now["violations"][len(before["violations"]) :],
    }


@dataclass(slots=True)
class Part:
    """The sum of the lines of one commit, one store and one mixture."""

    commit: str
    store: str
    recipe: str
    first: int = sys.maxsize
    upto: int = 0
    schedules: int = 0
    counted: int = 0
    requests: int = 0
    grants: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Any] = field(default_factory=list)
    seconds: int = 0

    def add(self, line: dict[str, Any]) -> None:
        for name in (*NUMBERS, "seconds"):
            setattr(self, name, getattr(self, name) + line[name])
        self.first, self.upto = min(self.first, line["first"]), max(self.upto, line["upto"])
        self.faults.update(line["faults"])
        self.violations += line["violations"]

    def numbers(self) -> dict[str, Any]:
        """Return what is kept."""
        return {name: getattr(self, name) for name in self.__slots__}  # type: ignore[attr-defined]


def _lines(files: Iterable[Path]) -> list[dict[str, Any]]:
    found = []
    for path in files:
        if path.exists():
            for text in path.read_text().splitlines():
                try:
                    found.append(json.loads(text))
                except ValueError:  # the last line of a run that was killed
                    continue
    return found


def added_up(files: Iterable[Path]) -> list[Part]:
    """Add up the lines of some files; seeds that two lines share count once."""
    parts: dict[tuple[str, str, str], Part] = {}
    seen: set[tuple[str, str, str, int]] = set()
    for line in _lines(files):
        key = line["commit"], line["store"], line["recipe"]
        if (*key, line["first"]) not in seen:
            seen.add((*key, line["first"]))
            parts.setdefault(key, Part(*key)).add(line)
    return list(parts.values())


def table(parts: list[dict[str, Any]]) -> str:
    """Return the sums as Markdown."""
    head = (
        "store | locks | from seed | schedules | counted | requests | grants | faults | violations | commit"
    )
    rows = [f"| {head} |", "|" + "---|" * 10]
    for part in parts:
        counts = [part[name] for name in ("first", *NUMBERS)]
        counts += [sum(part["faults"].values()), len(part["violations"])]
        cells = [part["store"], part["recipe"], *(f"{count:,}" for count in counts), f"`{part['commit']}`"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def keep(out: Path, parts: list[dict[str, Any]]) -> None:
    """Write sums beside what is kept of other commits, stores and mixtures."""
    of = ("store", "recipe", "commit")
    kept = json.loads(out.read_text()) if out.exists() else []
    both = {tuple(part[name] for name in of): part for part in (*kept, *parts)}
    out.write_text(json.dumps([both[key] for key in sorted(both)], indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    """Print the sums."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.bulk", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="keep the sums here, as JSON")
    options = parser.parse_args(argv)
    parts = [part.numbers() for part in added_up(options.files)]
    print(table(parts))
    if options.out is not None:
        keep(options.out, parts)
    return int(any(part["violations"] for part in parts))


if __name__ == "__main__":
    sys.exit(main())
