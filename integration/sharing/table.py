"""Who waits for whom on Redis, as the documentation says it, and as it was observed.

::

    python -m integration.sharing.table         # observe every pair, and write the table anew
"""

from __future__ import annotations

from integration import servers
from integration.observed import ObservedTable
from integration.sharing.meeting import Ground, ours_beside, theirs_beside
from integration.sharing.others import ALL, Other

__all__ = ["TABLE", "main", "observed"]

TABLE = ObservedTable(
    "internals/sharing.md",
    "<!-- observed on Redis -->\n",
    corner="beside",
    columns={
        "theirs-Lock": "theirs, while our `Lock` holds",
        "theirs-reader": "theirs, while our reader holds",
        "ours-Lock": "our `Lock`, while theirs holds",
        "ours-reader": "our reader, while theirs holds",
    },
    rows=[kind.label for kind in ALL],
    program="integration.sharing.table",
)


def observed(ground: Ground, kind: type[Other], column: str) -> str:
    """Observe one cell."""
    comes, side = column.split("-")
    return (theirs_beside if comes == "theirs" else ours_beside)(ground, kind, side)


def main() -> None:
    """Observe, and write."""
    cells = {}
    with servers.redis() as server, Ground(server, "blocking") as ground:
        for kind in ALL:
            for column in TABLE.columns:
                cells[kind.label, column] = observed(ground, kind, column)
                print(f"{kind.label}, {column}: {cells[kind.label, column]}")
    TABLE.write(cells)


if __name__ == "__main__":
    main()
