"""Holders that are stopped past their session while they write by `Grant.guarding`.

``python -m integration.pausing.guarded --store etcd --pauses 1000``. Two processes, of threads and of tasks,
hold locks in turn, each lock in a lane of its own, and write a value under each, as fast as they get answers.
The one that holds is stopped (SIGSTOP) at a random moment, and every other time what it has sent is held up
on the way; when the other has been granted all its locks, and writes, it goes on, and what was held up
arrives. No write of it may land. A holder that is stopped in the middle of a transaction of SQLite holds the
others up, and is continued; such a pause does not count. With ``--plain`` they write without the guard, and
writes of paused holders have to be seen to land.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from integration import servers
from integration.chaos.batch import program
from integration.exactly_once.__main__ import SHORT
from integration.exactly_once.run import STORES
from integration.faults.looking import hold_fault
from integration.fleet.peers import Process
from integration.proxy import Proxy
from integration.stores import make_tables

__all__ = ["Result", "paused"]

APIS = ("blocking", "asyncio")
LANES = 10
SESSION_S = 2.0
PATIENCE_S = 60.0
TAKEN_OVER_S = 10.0
MOST_BEFORE_S, MOST_AFTER_S = 0.3, 0.1


@dataclass
class Result:
    """What came of it.

    Attributes:
        pauses: How many holders were stopped until another had been granted their lock.
        held_up: Of these, with what they had sent held up until then.
        writes: How many guarded writes were done.
        wrong: What may not be.
        blocked: How often a stopped process held all others up.
    """

    pauses: int = 0
    held_up: int = 0
    writes: int = 0
    wrong: list[str] = field(default_factory=list)
    blocked: int = 0


class Holder:
    """A process, and the lanes that it holds, as far as it has said so."""

    def __init__(
        self, command: Sequence[str], proxy: Proxy | None, result: Result, changed: threading.Condition
    ) -> None:
        self.process = Process(command)
        self.proxy = proxy
        self.held: dict[str, int] = {}
        self.changed = changed
        self._result = result
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while line := self.process.next_line(10 * PATIENCE_S):
            with self.changed:
                match line.split(maxsplit=2):
                    case ["granted", lane, token]:
                        self.held[lane] = int(token)
                    case ["lost", lane, said]:
                        self.held.pop(lane)
                        self._result.writes += int(said.split()[1])
                    case words:
                        self._result.wrong.append(" ".join(words))
                self.changed.notify_all()
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def wait(self, until: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
        """Wait until something is so of what the holders hold; whether it is."""
        with self.changed:
            self.changed.wait_for(lambda: until() or self._ended, within_s)
            assert not self._ended, "a holder ended by itself"
            return until()

    def stop(self, *, hold_up: bool) -> None:
        """Stop it; what it sends from just before is held up on the way."""
        if self.proxy is not None and hold_up:
            self.proxy.blackhole("up")
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue it; what was held up arrives."""
        os.kill(self.process.pid, signal.SIGCONT)
        if self.proxy is not None:
            self.proxy.heal()


def paused(
    server: servers.Server, pauses: int, seed: str, *, lanes: int = LANES, how: str = "guarded"
) -> Result:
    """Stop so many holders, which write ``guarded``, or ``plain``."""
    result, chance, changed = Result(), random.Random(seed), threading.Condition()
    prefix = f"paused-{os.getpid()}-{time.monotonic_ns()}"
    if isinstance(server, servers.Database):
        make_tables(server)
    with contextlib.ExitStack() as stack:
        rest = [str(lanes), str(SESSION_S), how]
        holders = [_holder(server, [prefix, api, *rest], stack, result, changed) for api in APIS]
        while result.pauses < pauses and not result.wrong:
            assert holders[0].wait(lambda: any(one.held for one in holders)), "one of them should hold"
            mine, other = sorted(holders, key=lambda one: -len(one.held))
            _once(mine, other, result, chance)
        for one in holders:
            one.process.finish(PATIENCE_S)
    return result


def _holder(
    server: servers.Server,
    words: Sequence[str],
    stack: contextlib.ExitStack,
    result: Result,
    changed: threading.Condition,
) -> Holder:
    proxy = None if isinstance(server, servers.Files) else stack.enter_context(Proxy.of(server))
    prefix, *rest = words
    command = [sys.executable, "-m", "integration.pausing.guarded_writer"]
    one = Holder([*command, (proxy or server).url(prefix), *rest], proxy, result, changed)
    stack.callback(one.process.kill)
    return one


def _once(mine: Holder, other: Holder, result: Result, chance: random.Random) -> None:
    """Stop one that holds, until the other has been granted what it held."""
    hold_fault(chance.uniform(0, MOST_BEFORE_S))
    hold_up = mine.proxy is not None and chance.random() < 0.5
    mine.stop(hold_up=hold_up)
    hold_fault(0.05)  # until all that it had said was read
    with mine.changed:
        before = dict(mine.held)

    def taken() -> bool:
        return all(other.held.get(lane, 0) > token for lane, token in before.items())

    over = other.wait(taken, SESSION_S + TAKEN_OVER_S)
    if over:
        hold_fault(chance.uniform(0, MOST_AFTER_S))
    mine.go_on()
    if over:
        result.pauses += len(before)
        result.held_up += len(before) * hold_up
    else:
        result.blocked += 1
    assert mine.wait(lambda: all(mine.held.get(lane) != token for lane, token in before.items())), (
        "it should be told that it lost what it held"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Stop holders, tell, and return 1 if a write landed that should not."""
    parser = program("integration.pausing.guarded", __doc__)
    parser.add_argument("--store", action="append", choices=[*SHORT, *STORES], help="may be repeated; all")
    parser.add_argument("--pauses", type=int, default=1000)
    parser.add_argument("--seed", help="what is drawn from; a new one by default, and printed")
    parser.add_argument("--plain", action="store_true", help="write without the guard: it has to show")
    asked = parser.parse_args(arguments)
    how = "plain" if asked.plain else "guarded"
    seed = asked.seed or secrets.token_hex(4)
    good = True
    for store in asked.store or STORES:
        with STORES[SHORT.get(store, store)]() as server:
            result = paused(server, asked.pauses, seed, how=how)
            good = good and bool(result.wrong) == asked.plain
            print(f"{server.label} ({server.version()}), seed {seed}, {how}: {result}", flush=True)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
