"""What a run found: tables of rows, for people (Markdown) and programs (JSON)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.figures import Summary
from bench.kinds import KINDS

__all__ = ["Plan", "Row", "Table"]


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: How often everybody has a turn.
        scale: How long a turn is, and how large a sample, of what is usual.
        long: With 10 000 waiters.
        most: No more processes at a time than so many; only to see whether all runs.
    """

    rounds: int = 4
    scale: float = 1.0
    long: bool = False
    most: int = 1000

    def count(self, usual: int) -> int:
        """Return how many, of so many usually."""
        return max(2, round(usual * self.scale))

    def processes(self, usual: int) -> int:
        """Return how many processes, of so many usually."""
        return min(usual, self.most)

    def seconds(self, usual: float) -> float:
        """Return how long, of so long usually."""
        return max(0.2, usual * self.scale)


@dataclass
class Row:
    """One line of a table: who, and what was found; None where nothing was."""

    who: str
    figures: dict[str, Any]
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            kind = KINDS[self.who]
            self.label = f"{kind.store}: {kind.label}" if kind.store != "folder" else f"file: {kind.label}"


@dataclass
class Table:
    """One scenario.

    Attributes:
        name: What bars and pictures call it.
        title: A sentence for people.
        rows: In the order of who was measured.
        notes: What one has to know to read it.
    """

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, who: str, sample: Summary | None = None, label: str = "", **figures: Any) -> None:
        """Add a line: a sample of durations, and other figures."""
        durations = {} if sample is None else {**_microseconds(sample), "n": sample.count}
        self.rows.append(Row(who, {**durations, **figures}, label))

    def find(self, who: str, figure: str) -> Any:
        """Return a figure; None if it was not measured."""
        return next((row.figures.get(figure) for row in self.rows if row.who == who), None)

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        rows = [{"who": row.who, "label": row.label, **row.figures} for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}

    @classmethod
    def from_json(cls, name: str, found: dict[str, Any]) -> Table:
        """Return what `as_json` was made of."""
        rows = [dict(row) for row in found["rows"]]
        made = [Row(row.pop("who"), label=row.pop("label"), figures=row) for row in rows]
        return cls(name, found["title"], made, found["notes"])

    def markdown(self) -> str:
        """Return it for people."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row.figures))
        lines = [
            f"### {self.title}",
            "",
            "| | " + " | ".join(columns) + " |",
            "|---|" + "---:|" * len(columns),
        ]
        for row in self.rows:
            cells = [_cell(row.figures.get(column)) for column in columns]
            lines.append(f"| {row.label} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *(f"{note}\n" for note in self.notes)])


def _microseconds(sample: Summary) -> dict[str, float]:
    return {"p50 us": round(sample.p50), "p90 us": round(sample.p90), "mean us": round(sample.mean)}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
