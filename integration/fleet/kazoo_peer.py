"""A contender by kazoo, told what to do on its standard input, line by line (see ``peers.py``).

Run as ``python -m integration.fleet.kazoo_peer ADDRESS``. The kinds are kazoo's classes, with the
patterns they are given besides their own.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

OURS = "-lock-"
"""Every contender of ours, and of Curator's mutex."""

EXCLUSIVE_OURS = "(?<!-R)-lock-"
"""The same but for our readers: kazoo makes a regular expression of a pattern."""

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "lock": ("Lock", ()),
    "lock+": ("Lock", (OURS,)),
    "write": ("WriteLock", ()),
    "write+": ("WriteLock", (OURS,)),
    "read": ("ReadLock", ()),
    "read+": ("ReadLock", (OURS,)),
    "read+exclusive": ("ReadLock", (EXCLUSIVE_OURS,)),
}


class Peer:
    """The commands; each returns what is answered."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.lock: Any = None

    def do(self, command: str, *args: str) -> str:
        """Carry out a command."""
        match command:
            case "use":
                name, patterns = KINDS[args[0]]
                self.lock = getattr(self.client, name)(args[1], extra_lock_patterns=patterns)
                return "ready"
            case "acquire":
                self.lock.acquire()
                return self.held()
            case "try":
                return self.held() if self.lock.acquire(blocking=False) else "busy"
            case "release":
                self.lock.release()
                return "released"
            case "count":
                return self.count(Path(args[0]), int(args[1]))
        raise AssertionError(f"{command} should be a command")

    def held(self) -> str:
        """Tell the fencing token: the transaction that created the own node."""
        stat = self.client.exists(f"{self.lock.path}/{self.lock.node}")
        return f"held {stat.czxid}"

    def count(self, path: Path, times: int) -> str:
        """Add one to the number in a file, times over; only the lock protects it."""
        for _ in range(times):
            with self.lock:
                number = int(path.read_text())
                time.sleep(0.001)  # wide enough for another to fall in between
                path.write_text(str(number + 1))
        return "counted"


def main(address: str) -> None:
    """Serve until standard input ends."""
    client = KazooClient(address)
    client.start(10)
    peer = Peer(client)
    print("hello", flush=True)
    for line in sys.stdin:
        try:
            said = peer.do(*line.split())
        except Exception as error:
            said = f"error {error!r}"
        print(said, flush=True)
    client.stop()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1])
