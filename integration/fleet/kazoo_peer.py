"""A contender by kazoo, told what to do on its standard input, line by line (see ``peers.py``).

Run as ``python -m integration.fleet.kazoo_peer ADDRESS``. The kinds are kazoo's classes, with the
patterns they are given besides their own; an election is given them through its lock.
"""

from __future__ import annotations

import sys
import threading
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
CANDIDATES = {"election": (), "election+": (OURS,)}
TRY_S = 3.0  # one that does not wait for ours may be on a machine that stands still
"""How long a candidate, which cannot look without waiting, queues behind others before a try has failed."""


class Candidate:
    """An election, held as a lock is: its function runs until it is released."""

    def __init__(self, client: KazooClient, kind: str, path: str, value: str) -> None:
        self.client = client
        self.election = client.Election(path, value)
        if patterns := CANDIDATES[kind]:
            self.election.lock = client.Lock(path, value, extra_lock_patterns=patterns)
        self.path = path
        self._leads = threading.Event()
        self._resigned = threading.Event()
        self._thread = threading.Thread()

    @property
    def node(self) -> str:
        """The own node."""
        return str(self.election.lock.node)

    def acquire(self, blocking: bool = True) -> bool:
        """Campaign, and lead."""
        opposed = bool(self.client.exists(self.path) and self.client.get_children(self.path))
        self._leads.clear()
        self._resigned.clear()
        self._thread = threading.Thread(target=self.election.run, args=(self._lead,), daemon=True)
        self._thread.start()
        if self._leads.wait(TRY_S if opposed and not blocking else None):
            return True
        self.election.cancel()
        self._thread.join()
        return False

    def release(self) -> None:
        """Resign."""
        self._resigned.set()
        self._thread.join()

    def _lead(self) -> None:
        self._leads.set()
        self._resigned.wait()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Peer:
    """The commands; each returns what is answered."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.lock: Any = None

    def do(self, command: str, *args: str) -> str:
        """Carry out a command."""
        match command:
            case "use":
                self.use(*args)
                return "ready"
            case "acquire" | "try":
                return self.held() if self.lock.acquire(blocking=command == "acquire") else "busy"
            case "release":
                self.lock.release()
                return "released"
            case "count":
                return self.count(Path(args[0]), int(args[1]))
            case "leader":
                return self.leader()
        raise AssertionError(f"{command} should be a command")

    def use(self, kind: str, path: str, *value: str) -> None:
        """Make a lock of a kind, or a candidate."""
        if kind in CANDIDATES:
            self.lock = Candidate(self.client, kind, path, *value)
        else:
            name, patterns = KINDS[kind]
            self.lock = getattr(self.client, name)(path, extra_lock_patterns=patterns)

    def leader(self) -> str:
        """Tell whom kazoo takes for the leader."""
        candidates = self.lock.election.contenders()
        return f"leader {candidates[0]}" if candidates else "nobody"

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
