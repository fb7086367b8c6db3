"""Puts a run into the documentation: ``python -m bench.publish bench-results``.

Its numbers and pictures go to ``docs/internals/results/``, and the tables of
``docs/internals/results.md`` are made of them. Without a folder they are made once more of what is kept.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from bench.report import markdown
from bench.tables import Table

__all__ = ["KEPT", "PAGE", "filled", "main"]

PAGE = Path(__file__).parents[1] / "docs/internals/results.md"
KEPT = PAGE.with_suffix("")
RUN = re.compile(r"(?<=<!-- run -->\n).*?(?=<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return the page with the run that is kept."""
    found = json.loads((KEPT / "results.json").read_text())
    tables = {name: Table.from_json(name, one) for name, one in found["tables"].items()}
    made = markdown(tables, found["run"], found["missing"])
    run = re.sub(r"^#", "##", made, flags=re.MULTILINE)
    return RUN.sub(lambda _: f"\n{run}\n", page)


def main(words: list[str]) -> None:
    """Keep a run, if one is named, and write the page."""
    for folder in map(Path, words):
        for found in (folder / "results.json", *folder.glob("*.svg")):
            shutil.copy(found, KEPT)
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
