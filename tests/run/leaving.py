"""Scripts that end without closing their clients, for ``test_leaving.py`` and the tests on real servers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SCRIPTS", "Ended", "Script", "run"]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

SCRIPTS = {
    "blocking": """
        client = recipes.connect(URL, session_timeout=20)
        client.lock("x").acquire()
        ready()
    """,
    "a loop that was closed": """
        client = recipes.connect_async(URL, session_timeout=20)

        async def main():
            await client.lock("x").acquire()
            ready()

        asyncio.run(main())
    """,
    "a loop that was closed, and a client that nobody has": """
        async def main():
            await recipes.connect_async(URL, session_timeout=20).lock("x").acquire()
            ready()

        asyncio.run(main())
        gc.collect()
    """,
    "a loop that was left open": """
        client = recipes.connect_async(URL, session_timeout=20)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(client.lock("x").acquire())
        ready()
    """,
    "a loop that runs in a daemon thread": """
        client = recipes.connect_async(URL, session_timeout=20)
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(client.lock("x").acquire(), loop).result()
        ready()
    """,
    "a loop that is blocked in a daemon thread": """
        client = recipes.connect_async(URL, session_timeout=20)
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(client.lock("x").acquire(), loop).result()
        loop.call_soon_threadsafe(time.sleep, 60)
        ready()
    """,
    "sys.exit in a thread": """
        def work():
            client.lock("x").acquire()
            sys.exit(3)

        client = recipes.connect(URL, session_timeout=20)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        ready()
    """,
    "an error": """
        client = recipes.connect(URL, session_timeout=20)
        client.lock("x").acquire()
        ready()
        raise LookupError("mine")
    """,
    "daemon threads that use the client": """
        client = recipes.connect(URL, session_timeout=20)
        client.lock("x").acquire()
        others = recipes.connect(URL, session_timeout=20).open()

        def wait():
            others.lock("x").acquire()

        def work():
            while True:
                with client.lock("y"):
                    pass

        for target in (wait, work):
            threading.Thread(target=target, daemon=True).start()
        while not client.lock("x").waiters():
            time.sleep(0.01)
        ready()
    """,
}
"""By what they show: each holds the lock ``x`` as it ends."""

HEAD = """\
import asyncio, atexit, gc, os, sys, threading, time

began = None
atexit.register(lambda: began and print(time.monotonic() - began))  # after what the package does

import recipes

if os.environ.get("RECIPES_TEST_MUTANT"):  # a planted bug that these tests should notice
    from tests.mutants.planting import plant_for_good

    plant_for_good()

URL = {url!r}

def begin():
    global began
    began = time.monotonic()

def ready():
    atexit.register(begin)  # before what the package does
    print("ready", flush=True)
    sys.stdin.readline()

"""


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a script.

    Attributes:
        took_s: How long the package took at its exit.
    """

    code: int
    said: str
    took_s: float


class Script:
    """A script in a process of its own, which waits after its last line until it may `end`."""

    def __init__(self, url: str, body: str, *options: str) -> None:
        text = HEAD.format(url=url) + textwrap.dedent(body)
        self.process = subprocess.Popen(
            [sys.executable, *options, "-c", text],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError(f"it did not get so far: {self.process.communicate(timeout=PATIENCE_S)[1]}")

    def end(self) -> Ended:
        """Let it end, and wait for that."""
        took, said = self.process.communicate("\n", timeout=PATIENCE_S)
        return Ended(self.process.returncode, said, float(took or 0))


def run(url: str, body: str, *options: str) -> Ended:
    """Run a script to its end."""
    return Script(url, body, *options).end()
