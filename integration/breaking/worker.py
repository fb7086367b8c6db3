"""A process that lives the same life again and again, each time in a child, with another call broken.

Run as ``python -m integration.breaking.worker API FOLDER OPTIONS`` with the library of `breaker` preloaded.
Each line of its input is an order: a name, a URL, a fault, which call it strikes, and the session's timeout.
The life of an order that is "here" is lived in the process itself: what is imported, and made once for all
clients, is there for its children. It prints a line when a child waits for what another process holds, and
when it has ended; what became of it is in the folder, in a file of its name.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recipes
from integration.breaking.breaker import Breaker, certificates_read_once
from integration.breaking.life import ACQUIRE_S, REQUEST_S, Step, life
from integration.harness.process import eventually
from recipes._run.clock import boot_time
from tests.pace import grown_s, put_off

HOLDS_S = 0.03
STOP_S = 3.0
QUIET_S = 5.0
TRIES = 3
BEHIND = 5
"""How much nicer than the tests beside it: these lives compute, and how late one is, is left out."""


class Child:
    """One life, and what became of it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.place: str = order["name"]
        self.api, folder, options = sys.argv[1:]
        self.options = json.loads(options)
        self.report = Path(folder) / self.place
        self.client: Any = None
        self.steps: list[dict[str, Any]] = []
        self.held: list[tuple[str, float]] = []
        self.strays: list[str] = []
        self.breaker = Breaker(Path(folder) / f"{self.place}.trace", self.forked)

    def run(self) -> None:
        """Live, and write what became of it."""
        self.before = self.descriptors()
        threading.excepthook = lambda args: self.stray(args.exc_value)
        sys.unraisablehook = lambda args: self.stray(args.exc_value or args.err_msg)
        warnings.showwarning = lambda message, *_, **__: self.stray(message)
        warnings.simplefilter("always")
        {"blocking": self.blocking, "asyncio": lambda: asyncio.run(self.asyncio())}[self.api]()
        self.client = None
        gc.collect()
        # What the package ends behind its caller may take a moment.
        eventually(lambda: not self.threads() and self.descriptors() == self.before, QUIET_S)
        found = {
            "where": self.breaker.where,
            "counted": self.breaker.counted,
            "stopped": self.breaker.stopped,
            "steps": self.steps,
            "held": self.held,
            "strays": self.strays + self.breaker.said,
            "threads": self.threads(),
            "descriptors": sorted(map(str, self.descriptors() ^ self.before)),
        }
        self.report.write_text(json.dumps(found, default=repr))

    def blocking(self) -> None:
        """Call one after the other."""
        self.begin(recipes.connect)
        for step in self.life(self.hold):
            with self.timed(step):
                step.result = step.call()
        self.breaker.disarm()

    async def asyncio(self) -> None:
        """Await one after the other."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: self.stray(context.get("exception") or context["message"])
        )
        self.begin(recipes.connect_async)
        for step in self.life(self.hold_beside_the_loop):
            with self.timed(step):
                result = step.call()
                step.result = await result if hasattr(result, "__await__") else result
        self.breaker.disarm()
        self.client = None
        gc.collect()  # what is dropped here shows an exception that nobody fetched
        await asyncio.sleep(0.01)

    def begin(self, connect: Any) -> None:
        """Make the client; from here on calls are counted."""
        timeouts = {"session_timeout": self.order["session_s"], "request_timeout": REQUEST_S}
        self.client = connect(self.order["url"], **timeouts, **self.options)
        self.breaker.arm(self.order["fault"], self.order["nth"])

    def life(self, hold: Any) -> Any:
        """Yield the steps, one at a time, and keep them."""
        steps = life(self.client, hold, lambda: say("waiting", self.place))
        step = next(steps)
        while True:
            yield step
            self.steps.append(step.facts)
            try:
                step = steps.send(step)
            except StopIteration:
                return

    @contextlib.contextmanager
    def timed(self, step: Step) -> Iterator[None]:
        """Note how long a step takes, and how late this process was meanwhile."""
        with self.breaker.exempt():
            before = put_off()
        with step:
            yield
        with self.breaker.exempt():
            step.late_s = grown_s(before, put_off())

    def hold(self, grant: Any) -> None:
        """Hold it for a moment."""
        self.note(grant)
        time.sleep(HOLDS_S)
        self.note(grant)

    async def hold_beside_the_loop(self, grant: Any) -> None:
        self.note(grant)
        await asyncio.sleep(HOLDS_S)
        self.note(grant)

    def note(self, grant: Any) -> None:
        """Note when it was held, by the clock before the question."""
        at = boot_time()
        if grant.held:
            self.held.append((grant.name, at))

    def stray(self, error: object) -> None:
        """Note what nobody was raised."""
        trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self.strays.append(f"{error!r}\n{trace}")

    def forked(self) -> str:
        """Use what was inherited, in a child that was forked amid a call; returns what is wrong."""
        if any(grant.held for grant in self.client.grants):
            return "a child holds what its parent holds"
        said = ""
        for _ in range(TRIES if self.api == "blocking" else 0):
            try:
                self.client.lock("forked").acquire(timeout=ACQUIRE_S).release()
                self.client.close()
            except recipes.StoreUnavailable:  # a busy machine may be late once, and not always
                said = f"in a child: {traceback.format_exc()}"
                continue
            except recipes.ClientClosed:  # so it was
                return ""
            except BaseException:
                return f"in a child: {traceback.format_exc()}"
            return ""
        return said

    def threads(self) -> list[str]:
        """Return the threads that are left."""
        return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]

    @staticmethod
    def descriptors() -> set[tuple[int, str]]:
        """Return what is open."""
        found = set()
        for link in Path("/proc/self/fd").iterdir():
            try:
                found.add((int(link.name), str(link.readlink())))
            except FileNotFoundError:  # that of the listing itself
                continue
        return found


def say(*words: object) -> None:
    """Print a line, whole."""
    os.write(1, (json.dumps(words) + "\n").encode())


def live(order: dict[str, Any]) -> None:
    """Live, and say so."""
    Child(order).run()
    say("lived", order["name"], boot_time())


def born(order: dict[str, Any]) -> int:
    """Fork a child that lives; returns its number."""
    gc.freeze()  # a child neither looks at nor frees what it has of its parent
    child = os.fork()
    if child:
        return child
    os.close(sys.stdin.fileno())
    live(order)
    if not order["ends_whole"]:
        end()
    sys.exit()


def end() -> None:
    """End as Python does, but for what takes it the most time: to free, one by one, all that there is."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(0)


def main() -> int:
    """Obey, until there are no more orders and no child is left."""
    os.nice(BEHIND)
    reader, children, orders = sys.stdin.fileno(), {}, b""
    more, stopped = True, {}
    while more or children:
        if more and select.select([reader], [], [], 0.02)[0]:
            read = os.read(reader, 65536)
            more, orders = bool(read), orders + read
        elif not more:
            time.sleep(0.02)
        *whole, orders = orders.split(b"\n")
        for line in whole:
            order = json.loads(line)
            if order.get("here"):
                live(order)
                say("ended", order["name"], boot_time(), 0)
            else:
                children[born(order)] = order["name"]
        while children:
            child, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if not child:
                break
            if os.WIFSTOPPED(status):
                stopped[child] = boot_time() + STOP_S
            else:
                say("ended", children.pop(child), boot_time(), os.waitstatus_to_exitcode(status))
        for child, until in list(stopped.items()):
            if boot_time() >= until:
                del stopped[child]
                os.kill(child, signal.SIGCONT)
    return 0


if __name__ == "__main__":
    with certificates_read_once():
        status = main()
    sys.exit(status)
