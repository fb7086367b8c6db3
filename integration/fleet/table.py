"""Who excludes whom, as the documentation says it, and as it was observed.

::

    python -m integration.fleet.table         # observe every pair, and write the tables anew
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from integration import servers
from integration.fleet.kinds import ETCD, OURS, ZOOKEEPER, Kind
from integration.fleet.meeting import Ground, Meeting, meet

__all__ = ["KINDS", "cell", "documented", "main", "render"]

PAGE = Path(__file__).parents[2] / "docs/sharing.md"
KINDS = {"etcd": ETCD, "ZooKeeper": ZOOKEEPER}
Cells = Mapping[tuple[Kind, str], str]


def cell(kind: Kind, ours: str, meeting: Meeting) -> str:
    """Return how the documentation says what happened."""
    match meeting.ours_waited, meeting.theirs_waited, kind.reader and ours == "reader":
        case True, True, _:
            return "excluded"
        case False, False, True:
            return "shared"
        case True, False, True:
            return "ours waits, theirs does not"
        case False, True, True:
            return "theirs waits, ours does not"
        case True, False, False:
            return "**not excluded**: theirs does not wait"
    raise AssertionError(f"our {ours} should wait for {kind.label}")


def render(store: str, cells: Cells) -> str:
    """Return the table of a store."""
    head = ["beside", *(f"our {'`Lock`' if ours == 'Lock' else ours}" for ours in OURS)]
    rows = [head, ["---"] * len(head)]
    rows += [[kind.label, *(cells[kind, ours] for ours in OURS)] for kind in KINDS[store]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def documented(store: str) -> Cells:
    """Return what the page says; AssertionError if it does not speak of just these kinds."""
    found = _table(store).search(PAGE.read_text())
    assert found is not None, f"{PAGE.name} should have a table of {store}"
    rows = [[part.strip() for part in line[1:-1].split("|")] for line in found["rows"].splitlines()[2:]]
    kinds = {kind.label: kind for kind in KINDS[store]}
    cells = {(kinds[row[0]], ours): said for row in rows for ours, said in zip(OURS, row[1:], strict=True)}
    assert found["rows"] == render(store, cells), f"run {__spec__.name} to write the table of {store}"
    return cells


def _table(store: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<mark><!-- observed on {store} -->\n)(?P<rows>(?:\|.*\n)*)")


def main() -> None:
    """Observe, and write."""
    page = PAGE.read_text()
    for store, start in (("etcd", servers.etcd_35), ("ZooKeeper", servers.zookeeper_38)):
        page = _table(store).sub(_written(store, start), page)
    PAGE.write_text(page)


def _written(store: str, make: Callable[[], servers.Server]) -> Callable[[re.Match[str]], str]:
    cells = {}
    with make() as server, Ground(server) as ground:
        for kind in KINDS[store]:
            for ours in OURS:
                cells[kind, ours] = cell(kind, ours, meet(ground, kind, ours))
                print(f"{kind.label} beside our {ours}: {cells[kind, ours]}")
    rows = render(store, cells)
    return lambda found: found["mark"] + rows


if __name__ == "__main__":
    main()
