"""A process whose acquires and releases are interrupted by real SIGINTs at random moments.

Run as ``python -m integration.faults.shot FACE URL SESSION_S WHAT COUNT SEED``. Another thread shoots at
the main thread; each shot lands as a KeyboardInterrupt somewhere in ``acquire`` or ``release``, or in the
few lines around them. With WHAT "calls" one client is shot at all the time, with "starts" a new client
each time, while its session starts. What was found is printed as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

import recipes
from integration import servers
from integration.faults.storm import STEADY, Tally, Weather
from integration.opening import opened
from recipes._run.clock import boot_time
from tests.pace import Pace

SWALLOWED_S = 2.0


class Shooter:
    """Sends one SIGINT to the main thread, some time after it was asked to."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._asked = threading.Semaphore(0)
        self.at = 0.0
        threading.Thread(target=self._shoot, daemon=True).start()

    def ask(self) -> None:
        """Shoot once, soon."""
        self.at = 0.0
        self._asked.release()

    def _shoot(self) -> None:
        never = threading.Event()
        while True:
            self._asked.acquire()
            never.wait(self._weather.moment_s())
            self.at = boot_time()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def missed(self) -> bool:
        """Whether the shot was swallowed: its exception never came."""
        return bool(self.at) and boot_time() - self.at > SWALLOWED_S


def inside(trace: TracebackType | None) -> bool:
    """Whether the exception came out of the package, and not as a call of it was about to begin."""
    within = [
        (frame, line) for frame, line in traceback.walk_tb(trace) if "/recipes/" in frame.f_code.co_filename
    ]
    began = len(within) > 1 or any(line != frame.f_code.co_firstlineno for frame, line in within)
    return bool(within) and began


def fire(client: Any, lock: Any, shooter: Shooter, tally: Tally) -> tuple[int, int]:
    """Acquire and release until a shot lands; returns whether it left a grant, and whether it was lost."""
    try:
        shooter.ask()
        while not shooter.missed():
            lock.acquire(timeout=20).release()
            tally.note_granted()
        tally.note_interrupted(boot_time())
        return 0, 1
    except KeyboardInterrupt as interrupt:
        tally.note_interrupted(shooter.at)
        left = client.grants
        for grant in left:  # rightly left only if the shot landed between the lines of this program
            grant.release()
        stray = bool(left) and inside(interrupt.__traceback__)
        if stray:
            traceback.print_exception(interrupt)  # to the log of whoever started this
        return int(stray), 0


def calls(url: str, session_s: float, count: int, seed: str) -> None:
    """Shoot at one client."""
    strays, swallowed = 0, 0
    shooter, weather = Shooter(Weather((seed, "shots"))), Weather((seed, "names"))
    with Pace() as pace, opened(url, session_timeout=session_s) as client:
        tally = Tally(count, pace)
        print("ready", flush=True)
        while tally.more():
            client.lock(STEADY).acquire(timeout=20).release()  # connected: what follows is sent
            stray, missed = fire(client, weather.lock(client), shooter, tally)
            strays, swallowed = strays + stray, swallowed + missed
        settled = servers.eventually(lambda: client.pending_cleanups == 0, 20)
        tell(tally, strays=strays, swallowed=swallowed, settled=settled)
        sys.stdin.readline()  # the contenders are looked for while the session lives
        print(json.dumps(client.lock("busy").acquire(timeout=20).release()), flush=True)


def starts(url: str, session_s: float, count: int, seed: str) -> None:
    """Shoot at one client after another.

    Each goes on to work, with one keepalive loop, and ends without a trace.
    """
    strays, doubled, left = 0, 0, 0
    shooter = Shooter(Weather((seed, "shots")))
    with Pace() as pace:
        tally = Tally(count, pace)
        print("ready", flush=True)
        while tally.more():
            client = recipes.connect(url, session_timeout=session_s)
            strays += fire(client, client.lock("own"), shooter, tally)[0]
            client.lock("own").acquire(timeout=20).release()
            # A thread that was started twice, since an interrupt hid the first, ends at once.
            doubled += not servers.eventually(lambda: threads_named("recipes-keepalive") == 1, 5)
            client.close()
            left += not servers.eventually(lambda: not threads_named("recipes-"), 10)
    tell(tally, strays=strays, doubled=doubled, left=left)
    sys.stdin.readline()


def threads_named(beginning: str) -> int:
    """Count this process's threads by name."""
    return sum(thread.name.startswith(beginning) for thread in threading.enumerate())


def tell(tally: Tally, **found: Any) -> None:
    """Print what was found."""
    counts = {"interrupted": tally.interrupted, "granted": tally.granted, **tally.lateness}
    print(json.dumps({**counts, **found}), flush=True)


if __name__ == "__main__":
    _, _, address, length, what, how_many, chosen = sys.argv
    {"calls": calls, "starts": starts}[what](address, float(length), int(how_many), chosen)
