"""Record a holder that is stopped: ``python -m integration.pausing tests/docs/pictures/paused.jsonl``.

A holds, checks, and is stopped (SIGSTOP) before it writes. B waits, is granted when A's session has
ended, and writes. A goes on, and its write is refused by the gate. On an etcd of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from integration import servers
from recipes._run.clock import boot_time

PAUSE_S = 0.4


class Writer:
    """One process, and what it told."""

    def __init__(self, who: str, url: str, file: str, log: list[dict[str, Any]]) -> None:
        self.who = who
        self.log = log
        command = [sys.executable, "-m", "integration.pausing.writer", who, url, file]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def until(self, *kinds: str) -> None:
        """Read what it tells, to one of these."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(json.loads(line))
            if self.log[-1]["kind"] in kinds:
                return
        raise AssertionError(f"{self.who} should have told {kinds}")

    def end(self) -> None:
        """Let it release, and read the rest."""
        said, _ = self.process.communicate("\n", timeout=20)
        self.log.extend(map(json.loads, said.splitlines()))

    def go_on(self) -> None:
        """Let it do the next step."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)

    def send(self, number: signal.Signals, kind: str) -> None:
        """Stop or continue it."""
        os.kill(self.process.pid, number)
        self.log.append({"at": boot_time(), "who": self.who, "kind": kind})


def recorded(url: str, file: str) -> Sequence[dict[str, Any]]:
    """Run it."""
    log: list[dict[str, Any]] = []
    first = Writer("A", url, file, log)
    first.until("written")
    second = Writer("B", url, file, log)
    second.until("lock.queued")
    time.sleep(PAUSE_S)
    first.go_on()
    first.until("checked")
    first.send(signal.SIGSTOP, "stopped")
    second.until("written")
    time.sleep(PAUSE_S)
    first.send(signal.SIGCONT, "continued")
    first.go_on()
    first.until("looked")
    time.sleep(PAUSE_S)
    for kind in ("checked", "written"):
        second.go_on()
        second.until(kind)
    for one in (first, second):
        one.end()
    return sorted(log, key=lambda line: line["at"])


def main() -> None:
    """Write the record to the file that the argument names."""
    with servers.etcd_35().start() as server, tempfile.TemporaryDirectory() as folder:
        log = recorded(server.url("app"), str(Path(folder, "report")))
    began = log[0]["at"]
    lines = (json.dumps({**line, "at": round(line["at"] - began, 3)}) for line in log)
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
