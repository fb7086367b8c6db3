"""What a command of a shell waits for: the whole process, from its start to its end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["commands"]

TIMES = 10
COMMANDS = {"run --try": ("run", "--try", "x", "--", "true"), "ls": ("ls",)}


def commands(stage: Stage, plan: Plan) -> list[Table]:
    """Run each command on each store in turn; wall time and CPU time."""
    table = Table("commands", "A command of the shell, from its start to its end (p50)")
    with TemporaryDirectory() as folder:
        etcd = stage.server("etcd").url("bench").partition("://")[2]
        urls = {
            "sqlite": f"sqlite:///{Path(folder, 'locks.db')}",
            "etcd": f"etcd://{etcd}",
            "etcd+grpc": f"etcd+grpc://{etcd}",
        }
        took: dict[tuple[str, str], list[tuple[float, float]]] = {
            (store, name): [] for store in urls for name in COMMANDS
        }
        for _ in range(max(plan.rounds, round(plan.rounds * TIMES * plan.scale))):
            for (store, name), found in took.items():
                found.append(_run(urls[store], COMMANDS[name]))
    for (store, name), found in took.items():
        wall_s, cpu_s = (statistics.median(column) for column in zip(*found, strict=True))
        table.add(
            f"{store} {name}",
            label=f"`recipes {name}` on {store}://",
            ms=round(wall_s * 1000),
            **{"CPU ms": round(cpu_s * 1000)},
        )
    return [table]


def _run(url: str, words: tuple[str, ...]) -> tuple[float, float]:
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "recipes", *words],
        env={**os.environ, "RECIPES_STORE": url},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu_s
