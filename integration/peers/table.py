"""Which packages stand which bugs, as the documentation says it, and as it was observed.

::

    python -m integration.peers.table         # observe all, and write the table anew
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from integration import servers
from integration.harness.finding import find_zookeeper
from integration.harness.worn import WornZooKeeper
from integration.peers.checks import BUGS, Bug
from integration.peers.stage import Broken, DoesNotApply, Stage
from integration.peers.subjects import SUBJECTS

__all__ = ["documented", "main", "observe", "worn_zookeeper"]

PAGE = Path(__file__).parents[2] / "docs/peers.md"
MARK = "<!-- observed on the versions above -->\n"
Cells = Mapping[tuple[str, str], str]


def worn_zookeeper() -> WornZooKeeper:
    """Return a ZooKeeper whose counters are near their end, for each subject one, not yet started."""
    return WornZooKeeper("worn", find_zookeeper(), [f"/{_worn(name)}/x" for name in SUBJECTS])


def _worn(name: str) -> str:
    return f"worn-{name}"


def observe(server: servers.Server, bug: Bug, name: str) -> str:
    """Return how the documentation says what a check came to."""
    try:
        with Stage(server, name, prefix=_worn(name) if bug.worn else "") as stage:
            bug.check(stage)
    except Broken as seen:
        return f"**fails**: {seen}"
    except DoesNotApply as why:
        return f"does not apply: {why}"
    return "passes"


def render(cells: Cells) -> str:
    """Return the table."""
    head = ["", *(subject.label for subject in SUBJECTS.values())]
    rows = [head, ["---"] * len(head)]
    rows += [[bug.said, *(cells[bug.said, name] for name in SUBJECTS)] for bug in BUGS]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def documented() -> Cells:
    """Return what the page says; AssertionError if it does not speak of just these."""
    found = _table().search(PAGE.read_text())
    assert found is not None, f"{PAGE.name} should have the table"
    rows = [[part.strip() for part in line[1:-1].split("|")] for line in found["rows"].splitlines()[2:]]
    cells = {(row[0], name): said for row in rows for name, said in zip(SUBJECTS, row[1:], strict=True)}
    assert found["rows"] == render(cells), f"run {__spec__.name} to write the table"
    return cells


def _table() -> re.Pattern[str]:
    return re.compile(rf"{re.escape(MARK)}(?P<rows>(?:\|.*\n)*)")


def main() -> None:
    """Observe, and write; with arguments, only tell of these checks."""
    cells: dict[tuple[str, str], str] = {}
    wanted = [bug for bug in BUGS if not sys.argv[1:] or str(bug) in sys.argv[1:]]
    with servers.etcd_35() as etcd, servers.zookeeper_38() as zookeeper, worn_zookeeper() as worn:
        for bug in wanted:
            for name, subject in SUBJECTS.items():
                start = time.monotonic()
                server = etcd if subject.engine == "etcd" else worn if bug.worn else zookeeper
                cells[bug.said, name] = observe(server, bug, name)
                took = time.monotonic() - start
                print(f"{bug}, {name} ({took:.1f} s): {cells[bug.said, name]}", flush=True)
    if wanted == list(BUGS):
        rows = render(cells)
        PAGE.write_text(_table().sub(lambda _: MARK + rows, PAGE.read_text()))


if __name__ == "__main__":
    main()
