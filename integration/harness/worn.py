"""A ZooKeeper whose counters are near their end: it wakes from a log that says so, written here by hand.

The numbers of sequential nodes come from the parent's ``cversion``, a signed 32-bit number that only
two thousand million creates bring to its end. A transaction of the log carries it, and is believed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from integration.harness.zookeeper import Java, ZooKeeper

__all__ = ["WornZooKeeper"]

LAST = 2**31 - 1
CREATE, DELETE = 1, 2
ALL = 31


class WornZooKeeper(ZooKeeper):
    """One ZooKeeper with these nodes; below each the next sequential node has the number ``first``."""

    def __init__(self, label: str, java: Java, nodes: Sequence[str], *, first: int = LAST - 2) -> None:
        super().__init__(label, java, jvm=["-Dzookeeper.snapshot.trust.empty=true"])
        self._nodes = list(nodes)
        self._first = first

    def prepare(self) -> None:
        super().prepare()
        log = self.home / "data/version-2/log.1"
        if not log.parent.exists():
            log.parent.mkdir()
            log.write_bytes(b"".join(_log(self._transactions())))

    def _transactions(self) -> Iterator[tuple[int, bytes]]:
        """Yield what makes every node, and a child that brings its parent's counter on and is gone."""
        made: set[str] = set()
        for node in self._nodes:
            parts = node.strip("/").split("/")
            for path in ("/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)):
                if path not in made:
                    made.add(path)
                    yield CREATE, _create(path, counter=len(made))
            yield CREATE, _create(f"{node}/worn", counter=self._first)
            yield DELETE, _text(f"{node}/worn")


def _log(transactions: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield a transaction log: a header, then each entry with its checksum before and a mark behind."""
    yield struct.pack(">4siq", b"ZKLG", 2, 0)
    for zxid, (kind, body) in enumerate(transactions, 1):
        entry = struct.pack(">qiqqi", 0, 0, zxid, 0, kind) + body
        yield struct.pack(">qi", zlib.adler32(entry), len(entry)) + entry + b"B"


def _create(path: str, counter: int) -> bytes:
    """Return what creates a node, open to all, and sets its parent's counter."""
    acl = struct.pack(">ii", 1, ALL) + _text("world") + _text("anyone")
    return _text(path) + struct.pack(">i", 0) + acl + struct.pack(">?i", False, counter)


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()
