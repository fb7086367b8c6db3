"""Tables of the documentation that say what was observed: who observes it writes them, tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["Cells", "ObservedTable"]

DOCS = Path(__file__).parents[1] / "docs"
Cells = Mapping[tuple[str, str], str]
"""What was observed, by row and column."""


class ObservedTable:
    """One table of a page.

    Args:
        page: The page, below ``docs``.
        mark: The line that stands before the table.
        corner: What its head begins with.
        columns: What to call each column on the page, by its name in `Cells`.
        rows: What each row begins with, in order.
        program: The module that writes it.

    Attributes:
        page: The page.
        columns: The columns by their names in `Cells`.
    """

    def __init__(
        self,
        page: str,
        mark: str,
        *,
        corner: str,
        columns: Mapping[str, str],
        rows: Iterable[str],
        program: str,
    ) -> None:
        self.page = DOCS / page
        self._mark = mark
        self._head: Sequence[str] = (corner, *columns.values())
        self.columns = tuple(columns)
        self._rows = tuple(rows)
        self._program = program
        self._pattern = re.compile(rf"{re.escape(mark)}(?P<rows>(?:\|.*\n)*)")

    def _rendered(self, cells: Cells) -> str:
        rows = [self._head, ["---"] * len(self._head)]
        rows += [[row, *(cells[row, column] for column in self.columns)] for row in self._rows]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def documented(self) -> Cells:
        """Return what the page says; AssertionError if it does not speak of just these rows and columns."""
        found = self._pattern.search(self.page.read_text())
        assert found is not None, f"{self.page.name} should have the table"
        rows = [[part.strip() for part in line[1:-1].split("|")] for line in found["rows"].splitlines()[2:]]
        cells = {
            (row[0], name): said for row in rows for name, said in zip(self.columns, row[1:], strict=True)
        }
        assert found["rows"] == self._rendered(cells), f"run {self._program} to write the table"
        return cells

    def write(self, cells: Cells) -> None:
        """Put what was observed on the page."""
        rows = self._rendered(cells)
        self.page.write_text(self._pattern.sub(lambda _: self._mark + rows, self.page.read_text()))
