"""The demonstration from beginning to end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, fields
from pathlib import Path

import recipes
from recipes._run.clock import boot_time
from recipes.cli.demo.crew import Crew, CrewFailed, Message
from recipes.cli.demo.screen import JsonScreen, Screen
from recipes.cli.demo.verdict import Locked, Turn, Unlocked, Verdict
from recipes.cli.demo.work import PAUSE_S, Work
from recipes.cli.demo.worker import LOCK, Order
from recipes.cli.throwaway import ServerUnavailable, throwaway_etcd

__all__ = ["Plan", "show"]

INTERRUPTED = 130
TURN = tuple(field.name for field in fields(Turn))


@dataclass(frozen=True, slots=True)
class Plan:
    """What to show.

    Attributes:
        store: The store's URL, None for a throw-away one.
        processes: How many workers.
        rounds: How many updates each makes, None for as many as fit.
        seconds: For how long they work under the lock, None for as long as it takes.
        json: Whether to print for programs.
    """

    store: str | None
    processes: int
    rounds: int | None
    seconds: float | None = None
    json: bool = False


def show(plan: Plan) -> int:
    """Run the demonstration; returns the exit code of the command."""
    screen = _screen(plan)
    try:
        with _ends_on_sigterm(), contextlib.ExitStack() as stack:
            url = plan.store or stack.enter_context(throwaway_etcd(screen.say, prefix="demo"))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recipes-demo-")))
            verdict = _run(plan, url, folder, screen)
            screen.verdict(verdict)
            return 0 if verdict.ok else 1
    except (recipes.RecipesError, ServerUnavailable) as error:
        print(f"recipes demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nrecipes demo: interrupted; workers and server are stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _screen(plan: Plan) -> Screen:
    if plan.json:
        return JsonScreen(sys.stdout, sys.stderr, plan.processes)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return Screen(sys.stdout, plan.processes, colour=colour)


def _run(plan: Plan, url: str, folder: Path, screen: Screen) -> Verdict:
    """Start the workers, have them work with the lock and then without it."""
    with recipes.connect(url):  # a store that cannot be reached is told once, and not by every worker
        pass
    first: Locked | None = None
    try:
        with Crew(url, folder, plan.processes) as crew:
            for message in crew.messages("ready"):
                _pass_on(screen, message)
            screen.say(f"{plan.processes} processes: {' '.join(map(str, crew.pids))}")
            screen.say(f"each of their updates reads a file, waits {PAUSE_S * 1000:g} ms, and writes it")
            first = _with_lock(plan, crew, Work(folder, "locked"), screen)
            second = _without_lock(first, crew, Work(folder, "unlocked"), screen)
            crew.dismiss()
            for message in crew.messages("ended"):
                _pass_on(screen, message)
            return Verdict(first, second)
    except CrewFailed as failed:
        return Verdict(first, failures=[str(failed)])
    finally:
        screen.end()


def _with_lock(plan: Plan, crew: Crew, work: Work, screen: Screen) -> Locked:
    size = f"{plan.rounds} updates each" if plan.rounds else f"{plan.seconds:g} s"
    screen.say(f"\nwith the lock {LOCK!r}, {size} (H holds it, w waits)\n")
    turns: list[Turn] = []
    work.prepare()
    screen.begin(boot_time())
    crew.order(Order(lock=True, rounds=plan.rounds, seconds=plan.seconds))
    for message in crew.messages("done"):
        _pass_on(screen, message)
        if message is not None and message["kind"] == "turn":
            turns.append(Turn(**{name: message[name] for name in TURN}))
    screen.end()
    return Locked(len(turns), work.counter(), work.ledger(), turns)


def _without_lock(first: Locked, crew: Crew, work: Work, screen: Screen) -> Unlocked:
    rounds = max(first.updates // len(crew.pids), 1)
    screen.say(f"\nwithout the lock, {rounds} updates each")
    updates = 0
    work.prepare()
    crew.order(Order(lock=False, rounds=rounds))
    for message in crew.messages("done"):
        _pass_on(screen, message)
        if message is not None and message["kind"] == "done":
            updates += message["updates"]
    return Unlocked(updates, work.counter(), work.ledger())


def _pass_on(screen: Screen, message: Message | None) -> None:
    if message is None:
        screen.tick(boot_time())
    else:
        screen.show(message, boot_time())


@contextlib.contextmanager
def _ends_on_sigterm() -> Generator[None, None, None]:
    """Take SIGTERM for Ctrl-C: workers and server are stopped before the command ends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
