"""What is notified when something fails, as the documentation says it, and as it was observed.

::

    python -m integration.failing.table         # observe all, and write the table anew
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from integration import servers
from integration.failing.scenes import SCENES
from integration.failing.stage import Stage
from integration.harness.embedded import EmbeddedZooKeeper
from integration.observed import ObservedTable

__all__ = ["STORES", "TABLE", "main", "observe"]

STORES: Mapping[str, Callable[[], servers.Server]] = {"etcd": servers.etcd_35, "ZooKeeper": EmbeddedZooKeeper}
TABLE = ObservedTable(
    "internals/results.md",
    "<!-- observed on etcd 3.5.1 and ZooKeeper 3.8.0 -->\n",
    corner="what happens",
    columns={store: store for store in STORES},
    rows=SCENES,
    program="integration.failing.table",
)


def observe(server: servers.Server, scene: str) -> str:
    """Return what was told in a scene, as a cell of the table."""
    with Stage(server) as stage:
        SCENES[scene](stage)
        lines = stage.lines
    return "<br>".join(f"`{line}`" for line in lines) or "nothing out of the ordinary"


def main() -> None:
    """Observe, and write."""
    cells: dict[tuple[str, str], str] = {}
    with contextlib.ExitStack() as stack:
        for store, make in STORES.items():
            server = stack.enter_context(make().start())
            for scene in SCENES:
                cells[scene, store] = observe(server, scene)
                print(f"{store}, {scene}: {cells[scene, store]}", flush=True)
    TABLE.write(cells)


if __name__ == "__main__":
    main()
