"""What a client uses, seen from outside, and how much the store keeps; sampled until all is over."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from integration.soak.growth import Growth, Sample, growth

if TYPE_CHECKING:
    from integration.chaos.processes import Process

__all__ = ["FLOORS", "Sampler", "used"]

FLOORS: dict[str, Callable[[float], float]] = {
    "rss": lambda level: max(2**21, 0.03 * level),
    "uss": lambda level: max(2**21, 0.03 * level),
    "blocks": lambda level: 0.02 * level,
    "descriptors": lambda level: 4,
    "threads": lambda level: 3,
    "keys": lambda level: max(20, 0.1 * level),
}
"""By how much each may rise over a run and be nothing; memory is in bytes."""
_FIELD = re.compile(r"^(Rss|Private_Clean|Private_Dirty):\s+(\d+) kB", re.MULTILINE)


def used(client: Process) -> dict[str, float]:
    """Return what a client uses now.

    Raises:
        OSError: It is gone.
    """
    proc = Path(f"/proc/{client.pid}")
    fields = {name: 1024.0 * int(kib) for name, kib in _FIELD.findall((proc / "smaps_rollup").read_text())}
    found = {
        "rss": fields["Rss"],
        "uss": fields["Private_Clean"] + fields["Private_Dirty"],
        "descriptors": float(len(list((proc / "fd").iterdir()))),
        "threads": float(len(list((proc / "task").iterdir()))),
    }
    blocks = client.spec.folder / f"{client.spec.who}.blocks"
    return found | ({"blocks": float(blocks.read_text())} if blocks.exists() else {})


class Sampler:
    """Looks again and again at clients and at a store, each on a thread of its own.

    Args:
        clients: Returns those there are.
        size: Returns how much the store keeps.
        every_s: How often.
    """

    def __init__(self, clients: Callable[[], list[Process]], size: Callable[[], int], every_s: float) -> None:
        self._clients, self._size, self._every_s = clients, size, every_s
        self._over = threading.Event()
        self.samples: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        self._threads = [threading.Thread(target=go, daemon=True) for go in (self._look, self._count)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            for client in self._clients():
                with contextlib.suppress(OSError, KeyError, ValueError):  # it was killed a moment ago
                    self._note(client.spec.who, used(client))

    def _count(self) -> None:
        while not self._over.wait(self._every_s):
            with contextlib.suppress(Exception):  # a store under faults answers later
                self._note("store", {"keys": float(self._size())})

    def _note(self, who: str, figures: dict[str, float]) -> None:
        now = time.monotonic()
        for what, value in figures.items():
            self.samples[who, what].append((now, value))

    def growths(self, since: float) -> dict[tuple[str, str], Growth]:
        """Return what each figure of each client did from a moment on; those that lived all the while."""
        found = {}
        ends = max(samples[-1][0] for samples in self.samples.values())
        late_s = (ends - since) / 10
        for key, samples in self.samples.items():
            late = [sample for sample in samples if sample[0] >= since]
            whole = late and samples[0][0] <= since and ends - late[-1][0] <= late_s
            level = late[0][1] if late else 0.0
            one = growth(late, FLOORS[key[1]](level)) if whole else None
            if one is not None:
                found[key] = one
        return found
