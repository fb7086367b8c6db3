"""``recipes demo``: its options, and the demonstration from beginning to end."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

import recipes
from recipes._run.clock import boot_time
from recipes.cli import codes
from recipes.cli.demo.crew import Crew, CrewFailed
from recipes.cli.demo.scenes import SCENES, SIDES, Numbers, State
from recipes.cli.demo.screen import Screen
from recipes.cli.demo.verdict import Side, Verdict
from recipes.cli.options import (
    Count,
    Seconds,
    Store,
    connected,
    given_for_store,
    seconds_option,
    store_options,
    without_secret,
)

__all__ = ["Plan", "demo_command", "show"]

ROUNDS = 100
PAUSE_S, SLOW_S = 0.002, 0.15  # the work of a turn, and if it is to be followed by eye
SLOW_TURNS = 16  # at the beginning of a picture that moves, of all workers together
STEP = 5  # turns are ordered at a time, for both sides to go on side by side
EXAMPLES = """
\b
Examples:
  recipes demo
  recipes demo --processes 8 --seconds 5
  recipes demo --store etcd://127.0.0.1:2379/demo
  recipes demo --json > events.jsonl; recipes timeline events.jsonl -o timeline.html

Exit codes: 0 no update was lost under the locks, 1 it did not come to that, 2 wrong
arguments, 130 interrupted.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command; without rounds and seconds it goes on for `ROUNDS` rounds."""

    store: str | None = None
    processes: int = 5
    rounds: int | None = None
    seconds: float | None = None
    slowly: bool = False
    ttl: float = 10.0
    as_json: bool = False
    plain: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def orders(self, slow: int) -> Iterator[tuple[int, float]]:
        """Yield how many turns to order, and how long each takes; the first ones slowly."""
        left = self.rounds or (sys.maxsize if self.seconds else ROUNDS)
        end = boot_time() + (self.seconds or float("inf"))
        while left > 0 and boot_time() < end:
            turns = min(left, slow or STEP)
            yield turns, SLOW_S if slow or self.slowly else PAUSE_S
            left, slow = left - turns, 0


@click.command("demo", epilog=EXAMPLES)
@click.option("--store", type=Store(), help="The URL of the store.  [default: a file, gone afterwards]")
@store_options
@click.option("--processes", type=Count(), default=5, show_default=True, help="Workers.")
@click.option("--rounds", type=Count(), help=f"Turns of each worker.  [default: {ROUNDS}]")
@click.option("--seconds", type=Seconds(), help="Work under each lock for so long instead.")
@click.option("--slowly", is_flag=True, help="Let each turn take a moment, to be followed by eye.")
@seconds_option("--ttl", "session_timeout", least=2, default=10.0, help="A worker's session.")
@click.option("--json", "as_json", is_flag=True, help="Print every event and the verdict as JSON lines.")
@click.option("--plain", is_flag=True, help="Print no moving picture.")
def demo_command(**options: Any) -> int:
    """Show what locks are for.

    Several processes add to a counter in a shared file under a lock; then they move money between
    accounts in a file, and add it up, under a read-write lock. They do the same without a lock.
    Shows which of them hold and wait, and what was lost on each side.
    """
    for one, other in (("rounds", "seconds"), ("as_json", "plain")):
        if options[one] and options[other]:
            raise click.UsageError(f"--{other} is not allowed with --{one.removeprefix('as_')}")
    if options["store"] is None:
        return show(Plan(**options))
    connected(options["store"], session_timeout=options["ttl"]).close()  # it refuses what does not fit
    return show(Plan(**options, options=given_for_store()))


def show(plan: Plan) -> int:
    """Run the demonstration; returns the exit code of the command."""
    verdict = Verdict()
    try:
        with ExitStack() as stack:
            for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C
                stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recipes-demo-")))
            url = plan.store or f"sqlite://{quote(str(folder / 'store'))}"
            screen = Screen(without_secret(url), plan.processes, plain=plan.plain, quiet=plan.as_json)
            # If it cannot be reached, that is said once, not by every worker.
            options: dict[str, Any] = {**plan.options, "session_timeout": plan.ttl}
            with recipes.connect(url, **options):
                pass
            try:
                crew = Crew(url, folder, plan.processes, plan.ttl, plan.options)
                with crew, screen.live or nullcontext():
                    _play(plan, crew, folder, screen, verdict)
            except CrewFailed as failed:
                verdict.failures.append(str(failed))
            screen.verdict(verdict)
            if plan.as_json:
                _print(event="verdict", **verdict.as_fields())
    except recipes.RecipesError as error:
        print(f"recipes demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nrecipes demo: interrupted; its processes are ended, its files are gone", file=sys.stderr)
        return codes.SIGNALLED + signal.SIGINT
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return codes.OK if verdict.ok else codes.FAILED


def _play(plan: Plan, crew: Crew, folder: Path, screen: Screen, verdict: Verdict) -> None:
    """Have the workers play both scenes, and add to the verdict what became of them."""

    def hear(*sides: Side) -> None:
        for message in crew.messages():
            if message is not None and sides:
                sides[message.get("side") == "unlocked"].take(message)
            if plan.as_json and message is not None:
                _print(**message)
            screen.draw()

    hear()
    for scene in SCENES.values():
        files = [Numbers(folder, scene, side) for side in SIDES]
        for file in files:
            file.write(State(None, 0, list(scene.opening)))
        sides = Side(scene), Side(scene)
        screen.sides = sides
        for turns, pause_s in plan.orders(max(SLOW_TURNS // plan.processes, 1) if screen.live else 0):
            for side in SIDES:
                crew.order(scene.name, side, turns, pause_s)
                hear(*sides)
        for played, file in zip(sides, files, strict=True):
            played.settle(file.read())
        verdict.sides.append(sides)
        screen.end()


def _print(**line: Any) -> None:
    print(json.dumps(line), flush=True)
