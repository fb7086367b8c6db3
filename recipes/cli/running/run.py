"""``recipes run`` from beginning to end: wait for the lock, run the command under it, give it back."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import recipes
from recipes import events
from recipes.cli import codes
from recipes.cli.running.ending import Ending, Outcome
from recipes.cli.running.minder import GuardGone, Minder
from recipes.cli.running.signals import Signals, Struck
from recipes.cli.running.supervise import Supervisor
from recipes.cli.running.terminal import Terminal

__all__ = ["LONGEST_GRACE", "Order", "run"]

LONGEST_GRACE = 1 / 3
"""Of the session: with more of it one late renewal would end a command whose lock is safe."""

OPEN_FILES = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and under what.

    Attributes:
        lock: The name of the lock.
        store: The store's URL.
        command: What to run.
        shared: Whether others may hold it shared at the same time.
        timeout_s: Seconds to wait for the lock, None for ever, 0 to try once.
        ttl_s: Seconds after which the store frees the lock, if it hears nothing.
        grace_s: Seconds between SIGTERM and SIGKILL; the latter comes at the deadline.
        stops: Whether a command whose lock is lost is ended.
        log: A file to append the lock's events to, as JSON lines.
        owner: What ``recipes who`` shows of it.
        report: A file to write how it ended to, as JSON.
    """

    lock: str
    store: str
    command: tuple[str, ...]
    shared: bool = False
    timeout_s: float | None = None
    ttl_s: float = 15.0
    grace_s: float = 3.0
    stops: bool = True
    log: Path | None = None
    owner: str = "recipes run"
    report: Path | None = None


def run(order: Order) -> int:
    """Run a command under a lock; returns the exit code, and says on standard error what needs saying."""
    _have_standard_files()
    inherited = _inheritable()
    try:
        with contextlib.ExitStack() as stack:
            signals = stack.enter_context(Signals())
            if order.log is not None:
                stack.enter_context(_logged(order.log))
            minder = stack.enter_context(Minder(inherited))
            ending = _held(order, signals, minder)
    except Struck as struck:
        ending = Ending(Outcome.INTERRUPTED, codes.SIGNALLED + struck.number)
    except OSError as error:  # a log that cannot be opened; the store's errors were told apart before
        ending = Ending(Outcome.FAILED, codes.WRONG, reason=str(error))
    except Exception:
        traceback.print_exc()
        ending = Ending(Outcome.FAILED, codes.WRONG, reason="this is a bug in recipes run")
    say(ending.words(order.lock, order.command))
    if order.report is not None:
        ending = _reported(order, ending)
    return ending.code


def say(line: str) -> None:
    """Print one line to standard error, if there is something to say, and somebody to read it."""
    if line and sys.stderr is not None:  # None: it was closed
        with contextlib.suppress(OSError):
            print(f"recipes run: {line}", file=sys.stderr, flush=True)


def _held(order: Order, signals: Signals, minder: Minder) -> Ending:
    """Run the command while the lock is held."""
    try:
        with (
            recipes.connect(order.store, session_timeout=order.ttl_s, owner=order.owner) as client,
            Terminal() as terminal,
        ):
            try:
                minder.await_ready()
                grant = _acquired(order, client)
            except BaseException:
                signals.spare()
                raise
            if grant is None:
                signals.spare()
                return Ending(Outcome.NOT_ACQUIRED, codes.NOT_ACQUIRED, reason="somebody holds it, or waits")
            signals.collect()
            supervisor = Supervisor(grant, minder, signals, terminal, say, stops=order.stops)
            granted_s = client.session.timeout or order.ttl_s
            grace_s = min(order.grace_s, granted_s * LONGEST_GRACE)  # the store may grant less than was asked
            ending = supervisor.run(order.command, _environment(order, grant), grace_s)
            kept = grant.release() and not grant.lost_reason
            return ending if kept or not order.stops else ending.but_lost(grant.lost_reason)
    except recipes.LockTimeout as late:
        return Ending(Outcome.NOT_ACQUIRED, codes.NOT_ACQUIRED, reason=str(late))
    except GuardGone:
        return Ending(Outcome.FAILED, codes.WRONG, reason="its guard could not be started")
    except recipes.RecipesError as error:
        return Ending(Outcome.UNREACHABLE, codes.UNREACHABLE, reason=str(error))


def _acquired(order: Order, client: recipes.Client) -> recipes.Grant | None:
    lock = client.rwlock(order.lock).reader if order.shared else client.lock(order.lock)
    if order.timeout_s == 0:
        return lock.try_acquire()
    with _waits_aloud(order.lock):
        return lock.acquire(timeout=order.timeout_s)


@contextlib.contextmanager
def _waits_aloud(lock: str) -> Generator[None]:
    """Say at a terminal that somebody else holds the lock, for nothing else would show."""

    def hook(transition: events.Transition) -> None:
        if transition.event == "lock.queued":
            say(f"waiting for lock {lock!r}, {transition.position} ahead")
        elif transition.event == "lock.requeued":
            say(f"waiting for lock {lock!r} anew, at the end of the queue: {transition.reason}")

    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    unsubscribe = events.subscribe(hook) if is_terminal else _nothing
    try:
        yield
    finally:
        unsubscribe()


def _nothing() -> None:
    pass


def _environment(order: Order, grant: recipes.Grant) -> dict[str, str]:
    """Return what the command is told; the deadline moves on with every renewal of the session."""
    return {
        "RECIPES_LOCK": order.lock,
        "RECIPES_TOKEN": str(grant.token),
        "RECIPES_MODE": grant.mode,
        "RECIPES_STORE": order.store,
        "RECIPES_REMAINING": f"{grant.remaining:.3f}",
        "RECIPES_DEADLINE": f"{Supervisor.deadline_of(grant):.3f}",
    }


@contextlib.contextmanager
def _logged(path: Path) -> Generator[None]:
    """Append every event to a file."""
    with path.open("a", encoding="utf-8") as log:
        unsubscribe = events.log_json(log)
        try:
            yield
        finally:
            unsubscribe()


def _reported(order: Order, ending: Ending) -> Ending:
    """Write how it ended for programs."""
    assert order.report is not None, "it was asked for"
    try:
        order.report.write_text(json.dumps({"lock": order.lock, **ending.as_fields()}) + "\n")
    except OSError as error:
        say(f"the report could not be written: {error}")
    return ending


def _have_standard_files() -> None:
    """Open what of 0, 1 and 2 is closed: else a socket of ours would be what the command takes for it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number


def _inheritable() -> list[int]:
    """Return the files above 2 that the parent process opened for its children."""
    found = []
    for entry in OPEN_FILES.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # that of this listing
            if int(entry.name) > 2 and os.get_inheritable(int(entry.name)):
                found.append(int(entry.name))
    return found
