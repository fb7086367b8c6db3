"""What clients cost that hold a lock each, and do nothing."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.stage import Stage, cpu_s
from bench.tables import Plan, Table
from integration.fleet.peers import Process

__all__ = ["idle"]

CLIENTS = 100
FOR_S = 30.0  # two session timeouts: each renews six times
PATIENCE_S = 120.0
LABELS = {
    "kazoo": "kazoo alone",
    **{
        f"floor-{wire}": f"the same renewals by raw sockets, {wire}" for wire in ("etcd", "grpc", "zookeeper")
    },
}


def idle(stage: Stage, plan: Plan) -> list[Table]:
    """Measure a process of each kind, one after the other."""
    count, for_s = plan.count(CLIENTS), plan.seconds(FOR_S)
    table = Table("idle", f"{count} idle clients of one process, each holds a lock (session timeout 15 s)")
    with TemporaryDirectory() as folder:
        for store, by in (
            *(("etcd", "etcd"), ("etcd", "etcd+grpc"), ("etcd", "floor-etcd"), ("etcd", "floor-grpc")),
            *(("zookeeper", "zookeeper"), ("zookeeper", "kazoo"), ("zookeeper", "floor-zookeeper")),
        ):
            server = stage.server(store)
            url = f"{by}://{server.url('bench').partition('://')[2]}"
            label = LABELS.get(by, f"{by}://")
            table.add(by, label=label, **_measured(url, count, for_s, server.pid))
        url = f"sqlite:///{Path(folder, 'idle.db')}"
        table.add("sqlite", label="sqlite://", **_measured(url, count, for_s, None))
    table.notes.append("Clients of kazoo alone renew nothing but their session, with pings.")
    return [table]


def _measured(url: str, count: int, for_s: float, server: int | None) -> dict[str, float | None]:
    process = Process([sys.executable, "-m", "bench.idlers", url, str(count)])
    try:
        before = _cpu_s(process), time.monotonic(), server and cpu_s(server)
        time.sleep(for_s)
        after = _cpu_s(process), time.monotonic(), server and cpu_s(server)
    finally:
        process.finish(20)
    took = after[1] - before[1]
    servers = None if before[2] is None or after[2] is None else (after[2] - before[2]) / took * 100
    return {
        "clients, % of a core": round((after[0] - before[0]) / took * 100, 2),
        "server, % of a core": None if servers is None else round(servers, 2),
    }


def _cpu_s(process: Process) -> float:
    process.tell("cpu")
    said = process.next_line(PATIENCE_S)
    if not said:
        raise AssertionError("the process of idle clients ended, or is silent")
    return float(json.loads(said))
