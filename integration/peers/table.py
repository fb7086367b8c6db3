"""Which packages stand which bugs, as the documentation says it, and as it was observed.

::

    python -m integration.peers.table         # observe all, and write the table anew
"""

from __future__ import annotations

import sys
import time

from integration import servers
from integration.harness.finding import find_zookeeper
from integration.harness.worn import WornZooKeeper
from integration.observed import ObservedTable
from integration.peers.checks import BUGS, Bug
from integration.peers.stage import Broken, DoesNotApply, Stage
from integration.peers.subjects import SUBJECTS

__all__ = ["TABLE", "main", "observe", "worn_zookeeper"]

TABLE = ObservedTable(
    "internals/peers.md",
    "<!-- observed on the versions above -->\n",
    corner="",
    columns={name: subject.label for name, subject in SUBJECTS.items()},
    rows=[bug.said for bug in BUGS],
    program="integration.peers.table",
)


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


def main() -> None:
    """Observe, and write; with arguments, only tell of these checks."""
    cells: dict[tuple[str, str], str] = {}
    wanted = [bug for bug in BUGS if not sys.argv[1:] or str(bug) in sys.argv[1:]]
    with servers.etcd_35() as etcd, servers.zookeeper_38() as zookeeper, worn_zookeeper() as worn:
        for bug in wanted:
            for name, subject in SUBJECTS.items():
                start = time.monotonic()
                server = etcd if subject.backend == "etcd" else worn if bug.worn else zookeeper
                cells[bug.said, name] = observe(server, bug, name)
                took = time.monotonic() - start
                print(f"{bug}, {name} ({took:.1f} s): {cells[bug.said, name]}", flush=True)
    if wanted == list(BUGS):
        TABLE.write(cells)


if __name__ == "__main__":
    main()
