"""What it costs to import the package, over a bare Python."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["importing"]

TIMES = 5
PEAK = "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
PROGRAMS = {
    "bare Python": "pass",
    "import recipes": "import recipes",
    "... and connect to zookeeper://": "import recipes; recipes.connect('zookeeper://127.0.0.1:1/x')",
    "... and connect to etcd://": "import recipes; recipes.connect('etcd://127.0.0.1:1/x')",
    "import kazoo.client": "import kazoo.client",
    "import etcd3gw": "import etcd3gw",
}


def importing(_: Stage, plan: Plan) -> list[Table]:
    """Run each program in turn; wall time and peak memory above those of a bare Python."""
    took: dict[str, list[tuple[float, float]]] = {label: [] for label in PROGRAMS}
    for _ in range(max(plan.rounds, round(plan.rounds * TIMES * plan.scale))):
        for label, program in PROGRAMS.items():
            took[label].append(_run(program))
    bare_s, bare_mib = (statistics.median(column) for column in zip(*took["bare Python"], strict=True))
    table = Table("importing", "Import: what comes on top of a bare Python (p50)")
    for label, found in took.items():
        wall_s, mib = (statistics.median(column) for column in zip(*found, strict=True))
        table.add(label, label=label, ms=round((wall_s - bare_s) * 1000, 1), MiB=round(mib - bare_mib, 1))
    return [table]


def _run(program: str) -> tuple[float, float]:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", f"{program}\n{PEAK}"], stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began, int(done.stdout) / 1024
