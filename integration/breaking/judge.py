"""Has one system call after the other broken, and says what is wrong with what came of it."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import recipes
from integration.breaking.breaker import FAULTS, certificates_read_once
from integration.breaking.life import AGAIN
from integration.servers import eventually
from recipes._run.blocking import CLOSE_WITHIN_S
from recipes._run.clock import boot_time
from tests.pace import Pace

__all__ = ["LEFT_S", "Breaking", "Place", "laid_out"]

LATE_S = 0.25
BEFORE_NEXT_S = 20.0
ENDS_S = 5.0
SHORT_S, LONG_S = 2.0, 6.0
PATIENCE_S = 90.0
LEFT_S = LONG_S + 5.0
"""How long what is left behind may be there: until the session's end."""
AT_ONCE = 6
WHOLE_EVERY = 10
"""Of how many processes one frees all that it has as it ends, which is a third of its CPU time."""
REHEARSALS = 3
RIVAL_S = 20.0
"""The session and each request of the other client: no place is to blame for a machine that stands still."""
UNANSWERED = ("StoreUnavailable: ", "StoreTimeout: ")
"""How errors begin that a machine that stands still brings about, without a fault."""


@dataclass
class Place:
    """One call to be broken, and what became of the process."""

    name: str
    fault: str
    nth: int
    session_s: float
    ends_whole: bool = False
    let_go_at: float = 0.0
    next_held: tuple[float, float] = (0.0, 0.0)
    lived_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    added: int = 0
    events: dict[str, threading.Event] = field(
        default_factory=lambda: {name: threading.Event() for name in ("waiting", "ended")}
    )
    report: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def slept_through_its_end(self) -> bool:
        """Whether it was stopped as it closed its client, and had no time left to end the session."""
        if self.fault != "stop" or not self.report:
            return False
        stopped_at, _ = self.report["stopped"]
        return any(
            step["began"] <= stopped_at <= step["ended"]
            for step in self.report["steps"]
            if step["name"] == "close"
        )

    @property
    def had_no_time_to_end(self) -> bool:
        """Whether it may have left a session: it was stopped, or its close took all its time."""
        closes = [step for step in self.report.get("steps", ()) if step["name"] == "close"]
        return self.fault == "stop" or any(step["ended"] - step["began"] >= CLOSE_WITHIN_S for step in closes)

    @property
    def end_was_struck(self) -> bool:
        """Whether the end of its session met the fault: SQLite may take what it could not read for damage.

        The store refuses then, once and for all, and the session stays until the next client begins.
        """
        return self.fault == "disk" and " in _end\n" in str(self.report.get("where", ""))

    @property
    def account(self) -> str:
        """What broke, where, and how each of its calls ended."""
        steps = [
            f"  {one['name']}: {one['ended'] - one['began']:.2f} s, {one['error'] or one['result']}"
            for one in self.report.get("steps", ())
        ]
        return "\n".join([f"{self.name}: {self.wrong}", str(self.report.get("where", "")), *steps])


def laid_out(
    counted: Mapping[str, int], stride: int, faults: Sequence[str] = FAULTS[1:]
) -> Iterator[tuple[str, int]]:
    """Yield every so many places, of all faults laid end to end."""
    places = ((fault, nth) for fault in faults for nth in range(1, counted[fault] + 1))
    return itertools.islice(places, stride // 2, None, stride)


class Breaking:
    """A worker whose children have a call broken, and another client beside each; a context manager.

    Args:
        library: What breaks system calls.
        url: Returns the store's URL by the name of a place.
        api: ``blocking`` or ``asyncio``.
        options: What clients have to be told besides.
    """

    def __init__(
        self, library: Path, url: Callable[[str], str], api: str, options: Mapping[str, Any]
    ) -> None:
        self._library = library
        self._url, self._api, self._options = url, api, dict(options)
        self._open = ExitStack()
        self._running: dict[str, Place] = {}
        self._done: queue.Queue[Place] = queue.Queue()
        self._slots = threading.Semaphore(AT_ONCE)
        self.counted: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="recipes-breaking-")))
        self._folder = folder
        self._pool = self._open.enter_context(ThreadPoolExecutor(2 * AT_ONCE))
        self._open.enter_context(certificates_read_once())
        self._pace = self._open.enter_context(Pace())
        command = [sys.executable, "-m", "integration.breaking.worker", self._api, str(folder)]
        self._log = folder / "log"
        self._worker = subprocess.Popen(
            [*command, json.dumps(self._options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._open.enter_context(self._log.open("w")),
            text=True,
            env={**os.environ, "LD_PRELOAD": str(self._library)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._open.callback(self._end)
        self._rehearse()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    def _end(self) -> None:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.close()
        try:
            self._worker.wait(10)
        finally:
            self._worker.kill()
            self._reader.join()
            self._worker.stdout.close()

    def _rehearse(self) -> None:
        """Live without a fault: once in the worker itself, once to count, or until nothing was late."""
        (first,) = self.run([("none", 0)], here=True)
        assert not first.wrong, first.wrong
        for left in reversed(range(REHEARSALS)):
            (second,) = self.run([("none", 0)])
            assert not second.wrong, second.wrong
            self.counted = second.report["counted"]
            failed = [step["error"] for step in second.report["steps"] if step["error"]]
            if not failed:
                return
            assert left and all(error.startswith(UNANSWERED) for error in failed), second.report["steps"]  # noqa: PT018

    def run(self, places: Sequence[tuple[str, int]], **more: Any) -> list[Place]:
        """Break these calls, some at a time, and judge each."""
        found = []
        for fault, nth in places:
            self._slots.acquire()
            session_s = SHORT_S if fault == "stop" else LONG_S
            number = next(self._numbers)
            place = Place(f"{number}-{fault}-{nth}", fault, nth, session_s, not number % WHOLE_EVERY)
            found.append(place)
            self._running[place.name] = place
            self._pool.submit(self._live, place, more).add_done_callback(lambda _: self._slots.release())
        for _ in range(AT_ONCE):
            self._slots.acquire()
        self._slots.release(AT_ONCE)
        for place in found:
            judge(place, self._pace)
        return found

    def _live(self, place: Place, more: Mapping[str, Any]) -> None:
        try:
            patience = {"session_timeout": RIVAL_S, "request_timeout": RIVAL_S}
            with recipes.connect(self._url(place.name), **patience, **self._options) as rival:
                self._live_beside(rival, place, more)
        except Exception as error:
            place.wrong.append(f"beside it: {error!r}; {self._log.read_text()}")

    def _live_beside(self, rival: recipes.Client, place: Place, more: Mapping[str, Any]) -> None:
        busy = rival.lock("busy")
        grant = busy.acquire(timeout=BEFORE_NEXT_S)
        facts = {name: getattr(place, name) for name in ("name", "fault", "nth", "session_s", "ends_whole")}
        order = {**facts, "url": self._url(place.name), **more}
        assert self._worker.stdin is not None
        self._worker.stdin.write(json.dumps(order) + "\n")
        self._worker.stdin.flush()
        if not place.events["waiting"].wait(PATIENCE_S):
            place.wrong.append("it hangs")
        if rival.guarantees.order == "arrival":
            eventually(lambda: len(busy.contenders()) > 1, 1, every_s=0.05)
        place.let_go_at = boot_time()
        grant.release()
        with busy.acquire(timeout=BEFORE_NEXT_S):
            began = boot_time()
            eventually(lambda: False, 0.05)
            place.next_held = began, boot_time()
        if not place.events["ended"].wait(PATIENCE_S):
            place.wrong.append("its process hangs")
        if rival.guarantees.values:
            place.added = rival.counter("counter").get()
        place.report = json.loads((self._folder / place.name).read_text())
        for path in self._folder.glob(f"{place.name}*"):
            path.unlink()

    def _read(self) -> None:
        assert self._worker.stdout is not None
        for line in self._worker.stdout:
            what, name, *facts = json.loads(line)
            place = self._running[name]
            if what == "lived":
                (place.lived_at,) = facts
                continue
            if what == "ended":
                place.ended_at, place.status = facts
                place.events["waiting"].set()
            place.events[what].set()


def judge(place: Place, pace: Pace) -> None:
    """Add what is wrong."""
    if not place.report:
        place.wrong.append("it wrote no report")
        return
    place.wrong += [*_calls(place, pace), *_holders(place), *_what_was_done(place)]
    for what in ("strays", "threads", "descriptors"):
        if place.report[what]:
            place.wrong.append(f"{what}: {place.report[what]}")
    if place.status or not place.lived_at:
        place.wrong.append(f"it ended with {place.status}")
    ends_s = place.ended_at - place.lived_at
    if ends_s - pace.late_s(place.lived_at, place.ended_at) > ENDS_S:
        place.wrong.append(f"it took {ends_s:.2f} s to end")


def _calls(place: Place, pace: Pace) -> Iterator[str]:
    """Each call ends in time, and with success or an error of the package."""
    stopped_at, went_on_at = place.report["stopped"]
    for step in place.report["steps"]:
        began, ended = step["began"], step["ended"]
        stopped_s = max(0.0, min(ended, went_on_at) - max(began, stopped_at))
        took_s = ended - began - stopped_s - pace.late_s(began, ended) - step["late_s"]
        if took_s > step["limit_s"] + LATE_S:
            yield f"{step['name']} took {took_s:.2f} s"
        if not step["clear"]:
            yield f"{step['name']}: {step['error']}"


def _holders(place: Place) -> Iterator[str]:
    """What was awaited is held neither before it was let go of, nor while the next holds it."""
    began, ended = place.next_held
    for name, at in place.report["held"]:
        if name == "busy" and (at < place.let_go_at or began <= at <= ended):
            yield f"{name} had two holders at {at}: {place.let_go_at}, {place.next_held}"


def _what_was_done(place: Place) -> Iterator[str]:
    """An addition counts once; and what failed once works again."""
    steps = {step["name"]: step["error"] for step in place.report["steps"]}
    if place.fault != "stop" and all(steps[name] for name in AGAIN):
        yield f"it does not work again: {steps[AGAIN[0]]}"
    if "add" in steps:
        error = steps["add"]
        if place.added not in ((1,) if not error else (0, 1) if error.startswith("OutcomeUnknown") else (0,)):
            yield f"{place.added} was added: {error or 'it succeeded'}"
