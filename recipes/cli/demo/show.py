"""The demonstration from beginning to end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import recipes
from recipes.cli.demo.crew import Crew, CrewFailed
from recipes.cli.demo.orders import SESSION_S, Order, SceneName
from recipes.cli.demo.play import play
from recipes.cli.demo.scene import BankScene, CounterScene
from recipes.cli.demo.screen import Screen
from recipes.cli.demo.screens import screen_for
from recipes.cli.demo.verdict import Verdict
from recipes.cli.throwaway import ServerUnavailable, throwaway_etcd

__all__ = ["ETCD", "Plan", "show"]

INTERRUPTED = 130
ENDLESS = 1_000_000
ETCD = "etcd"
"""Instead of a URL: an etcd that is started for this run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to show.

    Attributes:
        store: The store's URL, None for a file that is gone afterwards, "etcd" for a throw-away etcd.
        processes: How many workers.
        rounds: How many turns each takes in each scene, None for as many as fit.
        seconds: For how long they work under each lock, None for as long as it takes.
        session_s: The length of a worker's session, in seconds.
        slowly: Whether all turns are to be followed by eye.
        json: Whether to print for programs.
        plain: Whether to print lines where a view could be drawn.
    """

    store: str | None
    processes: int
    rounds: int | None
    seconds: float | None = None
    session_s: float = SESSION_S
    slowly: bool = False
    json: bool = False
    plain: bool = False


def show(plan: Plan) -> int:
    """Run the demonstration; returns the exit code of the command."""
    screen = screen_for(sys.stdout, sys.stderr, plan.processes, json=plan.json, plain=plan.plain)
    try:
        with _ends_on(signal.SIGTERM, signal.SIGHUP), contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recipes-demo-")))
            url = _store(plan, folder, screen, stack)
            verdict = _run(plan, url, folder, screen)
            screen.verdict(verdict)
            return 0 if verdict.ok else 1
    except (recipes.RecipesError, ServerUnavailable) as error:
        print(f"recipes demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nrecipes demo: interrupted; its processes are ended, its files are gone", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _store(plan: Plan, folder: Path, screen: Screen, stack: contextlib.ExitStack) -> str:
    if plan.store is None:
        return f"sqlite://{quote(str(folder / 'store'))}"
    if plan.store == ETCD:
        return stack.enter_context(throwaway_etcd(screen.say, prefix="demo"))
    return plan.store


def _run(plan: Plan, url: str, folder: Path, screen: Screen) -> Verdict:
    """Start the workers, and have them play both scenes with the lock, and their twins without it."""
    with recipes.connect(url):  # a store that cannot be reached is told once, and not by every worker
        pass
    verdict = Verdict()
    try:
        with Crew(url, folder, plan.processes, plan.session_s) as crew, screen:
            screen.open(url, crew.pids)
            screen.watch(crew.messages())
            counter = CounterScene(plan.processes, _order(plan, screen, "counter"))
            turns, twins = play(counter, crew, folder, screen)
            verdict = replace(
                verdict, locked=counter.locked(folder, turns), unlocked=counter.unlocked(folder, twins)
            )
            bank = BankScene(plan.processes, _order(plan, screen, "bank"))
            turns, twins = play(bank, crew, folder, screen)
            verdict = replace(
                verdict, sums=bank.locked(folder, turns), unlocked_sums=bank.unlocked(folder, twins)
            )
            crew.dismiss()
            screen.watch(crew.messages())
            return verdict
    except CrewFailed as failed:
        return replace(verdict, failures=[str(failed)])


def _order(plan: Plan, screen: Screen, scene: SceneName) -> Order:
    slow = plan.rounds or ENDLESS if plan.slowly else min(screen.slow, plan.rounds or screen.slow)
    return Order(scene, plan.rounds, plan.seconds, slow=slow)


@contextlib.contextmanager
def _ends_on(*numbers: signal.Signals) -> Generator[None]:
    """Take these signals for Ctrl-C: workers and server are stopped before the command ends."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
