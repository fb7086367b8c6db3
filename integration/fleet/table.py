"""Who excludes whom, as the documentation says it, and as it was observed.

::

    python -m integration.fleet.table         # observe every pair, and write the tables anew
"""

from __future__ import annotations

from integration import servers
from integration.fleet.elections import Known, known
from integration.fleet.kinds import (
    ELECTION,
    ETCD,
    ETCD_ELECTIONS,
    OURS,
    ZOOKEEPER,
    ZOOKEEPER_ELECTIONS,
    Kind,
)
from integration.fleet.meeting import Ground, Meeting, meet
from integration.fleet.parties import PARTIES, party_row
from integration.observed import ObservedTable

__all__ = ["ELECTIONS", "GROUPS", "TABLES", "cell", "election_row", "main"]

PROGRAM = "integration.fleet.table"
KINDS = {"etcd": ETCD, "ZooKeeper": ZOOKEEPER}
TABLES = {
    store: ObservedTable(
        "internals/sharing.md",
        f"<!-- observed on {store} -->\n",
        corner="beside",
        columns={ours: f"our {'`Lock`' if ours == 'Lock' else ours}" for ours in OURS},
        rows=[kind.label for kind in kinds],
        program=PROGRAM,
    )
    for store, kinds in KINDS.items()
}
CANDIDATES = {"etcd": ETCD_ELECTIONS, "ZooKeeper": ZOOKEEPER_ELECTIONS}
ELECTIONS = {
    store: ObservedTable(
        "internals/sharing.md",
        f"<!-- elections observed on {store} -->\n",
        corner="beside our `Election`",
        columns={
            "leads": "at most one leads",
            "ours": "our leader, shown by theirs",
            "theirs": "their leader, shown by ours",
        },
        rows=[kind.label for kind in kinds],
        program=PROGRAM,
    )
    for store, kinds in CANDIDATES.items()
}
GROUPS = ObservedTable(
    "internals/sharing.md",
    "<!-- groups observed on ZooKeeper -->\n",
    corner="beside our `Group`",
    columns={"ours": "our member, shown by theirs", "theirs": "their member, shown by ours"},
    rows=PARTIES,
    program=PROGRAM,
)


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


def election_row(kind: Kind, meeting: Meeting, shown: Known) -> dict[str, str]:
    """Return how the documentation says what happened between two kinds of candidates."""
    assert meeting.ours_waited, f"ours should wait for {kind.label}"
    assert shown.theirs == kind.value, f"ours should show {kind.label}"
    match shown.ours, shown.proclaimed:
        case "ours", "ours-2":
            ours = "its latest value"
        case kind.value, kind.value:
            ours = "**not at all**: their own candidate"
        case others:
            raise AssertionError(f"{kind.label} shows {others}")
    return {
        "leads": "yes" if meeting.theirs_waited else "**no**: theirs does not wait",
        "ours": ours,
        "theirs": "its latest value",
    }


def main() -> None:
    """Observe, and write."""
    for store, start in (("etcd", servers.etcd_35), ("ZooKeeper", servers.zookeeper_38)):
        cells: dict[tuple[str, str], str] = {}
        candidates: dict[tuple[str, str], str] = {}
        with start() as server, Ground(server) as ground:
            for kind in KINDS[store]:
                for ours in OURS:
                    cells[kind.label, ours] = cell(kind, ours, meet(ground, kind, ours))
                    print(f"{kind.label} beside our {ours}: {cells[kind.label, ours]}")
            for kind in CANDIDATES[store]:
                row = election_row(kind, meet(ground, kind, ELECTION), known(ground, kind))
                candidates |= {(kind.label, column): said for column, said in row.items()}
                print(f"{kind.label} beside our election: {row}")
            if store == "ZooKeeper":
                parties = {party: party_row(ground, party) for party in PARTIES}
                print(f"parties beside our group: {parties}")
                GROUPS.write(
                    {(party, column): said for party, row in parties.items() for column, said in row.items()}
                )
        TABLES[store].write(cells)
        ELECTIONS[store].write(candidates)


if __name__ == "__main__":
    main()
