"""A client as a process of its own, told what to do on its standard input, line by line in JSON.

Run as ``python -m integration.faults.worker FACE URL SESSION_S``. When it is continued after a
stop, the very first thing it does is to look at its grant: in a signal handler, which
runs in the main thread before anything that waited there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

from integration.faults.seen import Seen
from integration.opening import opened, opened_in_tasks
from recipes._run.clock import boot_time


class Worker:
    """The commands; each returns what is answered."""

    def __init__(self, client: Any, seen: Seen) -> None:
        self.client = client
        self.seen = seen
        self.grant: Any = None
        self.continued: dict[str, Any] | None = None
        self.lost_at: float | None = None
        signal.signal(signal.SIGCONT, self._on_continue)

    def _on_continue(self, *_: object) -> None:
        if self.grant is not None:
            held = self.grant.held  # the first call of all
            self.continued = {
                "held": held,
                "lost": self.grant.lost.is_set(),
                "reason": self.grant.lost_reason,
                "remaining": self.grant.remaining,
            }

    def _on_lost(self, _: object) -> None:
        self.lost_at = boot_time()

    def do(self, command: str, *args: Any) -> Any:  # noqa: PLR0911 - one for each command
        """Start what needs the store, or answer what does not."""
        match command:
            case "acquire":
                return self.client.lock(args[0]).acquire(timeout=args[1])
            case "release":
                return self.grant.release()
            case "verify":
                return self.grant.verify()
            case "continued":
                return self.continued
            case "state":
                grant = self.grant
                return {"held": grant.held, "token": grant.token, "reason": grant.lost_reason}
            case "deadline":
                return self.grant._hold.session.clock.deadline
            case "wall":
                return time.time()
            case "lost_at":
                return self.lost_at
            case "told":
                return len(self.seen.of(args[0]))
            case "wait_told":
                return len(self.seen.wait(args[0]))
        raise AssertionError(f"{command} should be a command")

    def answer(self, result: Any) -> str:
        """Return the line that answers; a grant is kept."""
        if hasattr(result, "token"):
            self.grant, self.lost_at = result, None
            result.lost.add_callback(self._on_lost)
            result = result.token
        return json.dumps(result)


def blocking(url: str, session_s: float) -> None:
    """Serve with a blocking client, in the main thread."""
    with Seen() as seen, opened(url, session_timeout=session_s) as client:
        worker = Worker(client, seen)
        print("ready", flush=True)
        for line in sys.stdin:
            print(worker.answer(worker.do(*json.loads(line))), flush=True)


async def tasks(url: str, session_s: float) -> None:
    """Serve with an asyncio client."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    with Seen() as seen:
        async with await opened_in_tasks(url, session_timeout=session_s) as client:
            worker = Worker(client, seen)
            print("ready", flush=True)
            while line := await reader.readline():
                result = worker.do(*json.loads(line))
                if hasattr(result, "__await__"):
                    result = await result
                print(worker.answer(result), flush=True)


if __name__ == "__main__":
    _, api, address, length = sys.argv
    if api == "blocking":
        blocking(address, float(length))
    else:
        asyncio.run(tasks(address, float(length)))
