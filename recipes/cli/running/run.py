"""``recipes run`` from beginning to end: wait for the lock, run the command under it, give it back.

``recipes elect`` does the same with an election, and all of it again when that is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

import recipes
from recipes import events
from recipes.cli import codes
from recipes.cli.options import connected, made
from recipes.cli.running.ending import Ending, Outcome
from recipes.cli.running.minder import GuardGone, Minder
from recipes.cli.running.signals import Signals, Struck
from recipes.cli.running.supervise import Supervisor
from recipes.cli.running.terminal import Terminal

__all__ = ["LONGEST_GRACE", "Order", "refuse", "run"]

LONGEST_GRACE = 1 / 3
"""Of the session: with more of it one late renewal would end a command whose lock is safe."""

OPEN_FILES = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and under what.

    Attributes:
        name: The name of the lock, or election.
        store: The store's URL.
        command: What to run.
        shared: Whether others may hold it shared at the same time.
        timeout_s: Seconds to wait for the lock, None for ever, 0 to try once.
        ttl_s: Seconds after which the store frees the lock, if no renewal arrives.
        grace_s: Seconds between SIGTERM and SIGKILL; the latter comes at the deadline.
        stops: Whether a command whose lock is lost is ended.
        log: A file to append the lock's events to, as JSON lines.
        owner: What ``recipes who`` shows of it.
        report: A file to write how it ended to, as JSON.
        quiet: Say nothing if the lock was not acquired in time.
        conflict_code: The exit code then.
        recipe: What it runs under; under an election it runs again after a loss.
        value: What the leader of an election says to others.
    """

    name: str
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
    quiet: bool = False
    conflict_code: int = codes.NOT_ACQUIRED
    recipe: Literal["lock", "election"] = "lock"
    value: str = ""

    @property
    def title(self) -> str:
        """What it runs under, for people."""
        return events.titled(self.recipe, self.name)

    def say(self, line: str) -> None:
        """Print one line to standard error, if there is something to say, and standard error is open."""
        if line and sys.stderr is not None:  # None: it was closed
            with contextlib.suppress(OSError):
                by = "run" if self.recipe == "lock" else "elect"
                print(f"recipes {by}: {line}", file=sys.stderr, flush=True)


def refuse(order: Order) -> None:
    """Refuse what the store, or this platform, cannot have before anything is started.

    Raises:
        click.UsageError: The session is too long for it, or the name; or this is not Linux.
    """
    if sys.platform != "linux" or not Path("/proc/self/stat").exists():
        raise click.UsageError(
            "this command needs Linux and its /proc, which says what processes the command has started: "
            "elsewhere hold the lock in the program itself, by the library"
        )
    client = connected(order.store, session_timeout=order.ttl_s, owner=order.owner)
    with contextlib.closing(client), contextlib.suppress(recipes.TooWeak):  # that is said by `run`
        made(lambda: client.election(order.name) if order.recipe == "election" else _lock(order, client))


def run(order: Order) -> int:
    """Run a command under a lock; returns the exit code, and says on standard error what needs saying."""
    _have_standard_files()
    inherited = _inheritable()
    try:
        with contextlib.ExitStack() as stack:
            signals = stack.enter_context(Signals())
            if order.log is not None:
                stack.enter_context(_logged(order, order.log))
            minder = stack.enter_context(Minder(inherited))
            ending = _held(order, signals, minder, inherited)
    except Struck as struck:
        ending = Ending(Outcome.INTERRUPTED, codes.SIGNALLED + struck.number)
    except OSError as error:  # a log that cannot be opened; the store's errors were handled before
        ending = Ending(Outcome.FAILED, codes.WRONG, reason=str(error))
    except Exception:
        traceback.print_exc()
        ending = Ending(Outcome.FAILED, codes.WRONG, reason="this is a bug in recipes run")
    if not (order.quiet and ending.outcome is Outcome.NOT_ACQUIRED):
        order.say(ending.words(order.title, order.command))
    if order.report is not None:
        ending = _reported(order, ending)
    return ending.code


def _held(order: Order, signals: Signals, minder: Minder, inherited: list[int]) -> Ending:
    """Run the command while the lock is held, or whenever it leads."""
    try:
        with (
            connected(order.store, session_timeout=order.ttl_s, owner=order.owner) as client,
            Terminal() as terminal,
        ):
            ending = _once(order, client, signals, terminal, minder)
            while order.recipe == "election" and ending.outcome is Outcome.LOST and not ending.stuck:
                order.say(f"{ending.words(order.title, order.command)}; campaigning again")
                minder.end()
                try:
                    signals.let_end()
                except Struck as struck:  # it was passed on, and the command has ended
                    return replace(ending, outcome=Outcome.INTERRUPTED, code=codes.SIGNALLED + struck.number)
                with Minder(inherited) as another:
                    ending = _once(order, client, signals, terminal, another)
            return ending
    except recipes.StoreTimeout as silent:
        return Ending(Outcome.UNREACHABLE, codes.UNREACHABLE, reason=str(silent))
    except recipes.LockTimeout as late:
        return Ending(Outcome.NOT_ACQUIRED, order.conflict_code, reason=str(late))
    except GuardGone:
        return Ending(Outcome.FAILED, codes.WRONG, reason="its guard could not be started")
    except recipes.RecipesError as error:
        return Ending(Outcome.UNREACHABLE, codes.UNREACHABLE, reason=str(error))


def _once(
    order: Order, client: recipes.Client, signals: Signals, terminal: Terminal, minder: Minder
) -> Ending:
    """Wait, and run the command once."""
    try:
        minder.await_ready()
        grant = _acquired(order, client)
    except BaseException:
        signals.spare()
        raise
    if grant is None:
        signals.spare()
        return Ending(Outcome.NOT_ACQUIRED, order.conflict_code, reason="another client holds it, or waits")
    signals.collect()
    supervisor = Supervisor(grant, minder, signals, terminal, order.say, title=order.title, stops=order.stops)
    granted_s = client.session.timeout or order.ttl_s
    grace_s = min(order.grace_s, granted_s * LONGEST_GRACE)  # the store may grant less than was asked
    ending = supervisor.run(order.command, _environment(order, grant), grace_s)
    kept = grant.release() and not grant.lost_reason
    return ending if kept or not order.stops else ending.but_lost(grant.lost_reason)


def _lock(order: Order, client: recipes.Client) -> recipes.Lock | recipes.ReadLock:
    return client.rwlock(order.name).reader if order.shared else client.lock(order.name)


def _acquired(order: Order, client: recipes.Client) -> recipes.Grant | None:
    if order.recipe == "election":
        with _waits_aloud(order):
            leadership = client.election(order.name).campaign(order.value, timeout=order.timeout_s)
        order.say(f"leads {order.title} under token {leadership.token}")
        return leadership
    lock = _lock(order, client)
    if order.timeout_s == 0:
        return lock.try_acquire()
    with _waits_aloud(order):
        return lock.acquire(timeout=order.timeout_s)


@contextlib.contextmanager
def _waits_aloud(order: Order) -> Generator[None]:
    """Say at a terminal that there are others ahead, for nothing else would show."""

    def hook(transition: events.Transition) -> None:
        if transition.what == "queued":
            order.say(f"waiting for {order.title}, {transition.position} ahead")
        elif transition.what == "requeued":
            order.say(f"waiting for {order.title} anew, at the end of the queue: {transition.reason}")

    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    unsubscribe = events.subscribe(hook) if is_terminal else _nothing
    try:
        yield
    finally:
        unsubscribe()


def _nothing() -> None:
    pass


def _environment(order: Order, grant: recipes.Grant) -> dict[str, str]:
    """Return the environment of the command; the deadline moves on with every renewal of the session."""
    of_it = (
        {"RECIPES_LOCK": order.name, "RECIPES_MODE": grant.mode}
        if order.recipe == "lock"
        else {"RECIPES_ELECTION": order.name, "RECIPES_VALUE": order.value}
    )
    return {
        **of_it,
        "RECIPES_TOKEN": str(grant.token),
        "RECIPES_STORE": order.store,
        "RECIPES_REMAINING": f"{grant.remaining:.3f}",
        "RECIPES_DEADLINE": f"{Supervisor.deadline_of(grant):.3f}",
    }


@contextlib.contextmanager
def _logged(order: Order, path: Path) -> Generator[None]:
    """Append every event to a file."""
    log = path.open("a", encoding="utf-8")
    unsubscribe = events.log_json(log)
    try:
        yield
    finally:
        unsubscribe()
        try:
            log.close()
        except OSError as error:
            order.say(f"not all events could be written: {error}")


def _reported(order: Order, ending: Ending) -> Ending:
    """Write how it ended for programs."""
    assert order.report is not None, "it was asked for"
    try:
        order.report.write_text(json.dumps({order.recipe: order.name, **ending.as_fields()}) + "\n")
    except OSError as error:
        order.say(f"the report could not be written: {error}")
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
