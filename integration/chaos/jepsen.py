"""The shape of Jepsen's lock test on etcd, and the share of acknowledged updates that is lost.

``python -m integration.chaos.jepsen --seconds 120 --groups 8``

Jepsen's test of etcd 3.4.3 (2020) had five processes take a lock with leases of two seconds, and under it
read a set, wait for up to two seconds, and write the set with one more element; with processes paused
every five seconds about 18 % of the acknowledged updates were lost. Here the five are processes of
their own with clients of this package, a counter takes the place of the set (an old value written
back undoes all updates since, as with the set), and what is paused, every five seconds, are one to
three of these processes, for longer than the lease. Groups of five run beside each other on one
server, each with a lock of its own.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from integration.chaos.batch import commit, program
from integration.chaos.client import Spec
from integration.chaos.judge import judge
from integration.chaos.lanes import Shape
from integration.chaos.processes import Process
from integration.chaos.resources import Bank, Registers
from integration.chaos.stage import Stage
from integration.chaos.stages import STAGES, staged
from integration.faults.looking import hold_fault
from integration.harness.throwaway import memory_directory

__all__ = ["measured"]

TTL_S = 2.0
EVERY_S = 5.0
PROCESSES = 5
SHAPE = Shape(wait_s=20.0, update_s=2.0)
APIS = ("blocking", "asyncio")


class Group:
    """Five processes, their lock and their registers."""

    def __init__(self, stage: Stage, seed: str, folder: Path) -> None:
        self._stage, self._seed = stage, seed
        self._prefix = f"jepsen-{uuid.uuid4().hex[:10]}"
        self._folder = folder / self._prefix
        self._folder.mkdir()

    def go(self, seconds: float) -> dict[str, Any]:
        """Work and be paused for so long; return the figures, and what is wrong."""
        registers, bank = Registers(self._folder / "registers.db"), Bank(self._folder / "bank.db")
        registers.make()
        bank.make()
        clients = [self._client(number) for number in range(PROCESSES)]
        try:
            pauses = self._pause(clients, seconds)
            for client in clients:
                client.tell("stop")
            for client in clients:
                client.answer(60)
                client.tell("close")
            ended = [client.ended() for client in clients]
        finally:
            for client in clients:
                client.kill()
        judged = judge(self._folder, registers.values(), 0, 0)
        return {"pauses": pauses, "violations": judged.violations, "ended": all(ended), **judged.figures}

    def _client(self, number: int) -> Process:
        url, options = self._stage.way(proxied=False).url(self._prefix), self._stage.options
        api = APIS[number % len(APIS)]
        spec = Spec(f"c{number}", api, url, TTL_S, self._seed, self._folder, ("counting",), SHAPE, options)
        return Process(spec)

    def _pause(self, clients: list[Process], seconds: float) -> int:
        chance = random.Random(self._seed)
        until = time.monotonic() + seconds
        count = 0
        while (began := time.monotonic()) < until:
            chosen = chance.sample(clients, chance.randint(1, 3))
            lengths = [(chance.uniform(TTL_S + 0.5, TTL_S + 1.5), client) for client in chosen]
            threads = [threading.Thread(target=_stopped, args=(client, length)) for length, client in lengths]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            count += len(chosen)
            hold_fault(max(0.0, began + EVERY_S - time.monotonic()))
        return count


def _stopped(client: Process, seconds: float) -> None:
    client.stop()
    hold_fault(seconds)
    client.go_on()


def measured(store: str, groups: int, seconds: float, seed: str) -> dict[str, Any]:
    """Return what became of the updates of so many groups."""
    revision = commit()
    with (
        tempfile.TemporaryDirectory(prefix="jepsen-", dir=memory_directory()) as scratch,
        staged(store) as stage,
        ThreadPoolExecutor(groups) as pool,
    ):
        version = stage.version()
        all_of_them = [Group(stage, f"{seed}/{number}", Path(scratch)) for number in range(groups)]
        found = list(pool.map(lambda group: group.go(seconds), all_of_them))
    total: Counter[str] = Counter()
    for one in found:
        total.update({name: value for name, value in one.items() if isinstance(value, int)})
    return {
        "store": store,
        "version": version,
        "commit": revision,
        "seed": seed,
        "groups": groups,
        "seconds": seconds,
        "pauses": total["pauses"],
        "grants": total["grants"],
        "violations": [one for each in found for one in each["violations"]],
        "registers": {
            name: {"acknowledged": total[f"{name}: acknowledged"], "lost": total[f"{name}: lost"]}
            for name in ("fenced", "unfenced", "asked")
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, tell, and return 1 if the fenced register lost anything, or the unfenced nothing."""
    parser = program("integration.chaos.jepsen", __doc__)
    parser.add_argument("--store", choices=STAGES, default="etcd-3.4")
    parser.add_argument("--groups", type=int, default=8, help="of five processes, beside each other")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--save", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args(arguments)
    result = measured(asked.store, asked.groups, asked.seconds, asked.seed)
    if asked.save:
        asked.save.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1), flush=True)
    lost = {name: one["lost"] for name, one in result["registers"].items()}
    return int(bool(lost["fenced"] or result["violations"] or not lost["unfenced"]))


if __name__ == "__main__":
    sys.exit(main())
