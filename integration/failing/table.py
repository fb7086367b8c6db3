"""What is told when something fails, as the documentation says it, and as it was observed.

::

    python -m integration.failing.table         # observe all, and write the table anew
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from integration import servers
from integration.failing.scenes import SCENES
from integration.failing.stage import Stage
from integration.harness.embedded import EmbeddedZooKeeper

__all__ = ["STORES", "documented", "main", "observe"]

PAGE = Path(__file__).parents[2] / "docs/operating/failure-modes.md"
MARK = "<!-- observed on etcd 3.5.1 and ZooKeeper 3.8.0 -->\n"
STORES: Mapping[str, Callable[[], servers.Server]] = {"etcd": servers.etcd_35, "ZooKeeper": EmbeddedZooKeeper}
Cells = Mapping[tuple[str, str], str]


def observe(server: servers.Server, scene: str) -> str:
    """Return what was told in a scene, as a cell of the table."""
    with Stage(server) as stage:
        SCENES[scene](stage)
        lines = stage.lines
    return "<br>".join(f"`{line}`" for line in lines) or "nothing out of the ordinary"


def render(cells: Cells) -> str:
    """Return the table; one column where both stores tell the same."""
    rows = [["what happens", *STORES], ["---"] * 3]
    rows += [[scene, *(cells[scene, store] for store in STORES)] for scene in SCENES]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def documented() -> Cells:
    """Return what the page says; AssertionError if it does not speak of just these."""
    found = _table().search(PAGE.read_text())
    assert found is not None, f"{PAGE.name} should have the table"
    rows = [[part.strip() for part in line[1:-1].split("|")] for line in found["rows"].splitlines()[2:]]
    cells = {(row[0], store): said for row in rows for store, said in zip(STORES, row[1:], strict=True)}
    assert found["rows"] == render(cells), f"run {__spec__.name} to write the table"
    return cells


def _table() -> re.Pattern[str]:
    return re.compile(rf"{re.escape(MARK)}(?P<rows>(?:\|.*\n)*)")


def main() -> None:
    """Observe, and write."""
    cells: dict[tuple[str, str], str] = {}
    with contextlib.ExitStack() as stack:
        for store, make in STORES.items():
            server = stack.enter_context(make().start())
            for scene in SCENES:
                cells[scene, store] = observe(server, scene)
                print(f"{store}, {scene}: {cells[scene, store]}", flush=True)
    rows = render(cells)
    PAGE.write_text(_table().sub(lambda _: MARK + rows, PAGE.read_text()))


if __name__ == "__main__":
    main()
