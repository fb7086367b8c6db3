"""Who excludes whom, as the documentation says it, and as it was observed.

::

    python -m integration.fleet.table         # observe every pair, and write the tables anew
"""

from __future__ import annotations

from integration import servers
from integration.fleet.kinds import ETCD, OURS, ZOOKEEPER, Kind
from integration.fleet.meeting import Ground, Meeting, meet
from integration.observed import ObservedTable

__all__ = ["TABLES", "cell", "main"]

KINDS = {"etcd": ETCD, "ZooKeeper": ZOOKEEPER}
TABLES = {
    store: ObservedTable(
        "sharing.md",
        f"<!-- observed on {store} -->\n",
        corner="beside",
        columns={ours: f"our {'`Lock`' if ours == 'Lock' else ours}" for ours in OURS},
        rows=[kind.label for kind in kinds],
        program="integration.fleet.table",
    )
    for store, kinds in KINDS.items()
}


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


def main() -> None:
    """Observe, and write."""
    for store, start in (("etcd", servers.etcd_35), ("ZooKeeper", servers.zookeeper_38)):
        cells = {}
        with start() as server, Ground(server) as ground:
            for kind in KINDS[store]:
                for ours in OURS:
                    cells[kind.label, ours] = cell(kind, ours, meet(ground, kind, ours))
                    print(f"{kind.label} beside our {ours}: {cells[kind.label, ours]}")
        TABLES[store].write(cells)


if __name__ == "__main__":
    main()
