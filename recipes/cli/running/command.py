"""The arguments of ``recipes run`` and ``recipes elect``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from recipes._api.clients import LONGEST_OWNER
from recipes.cli import codes
from recipes.cli.options import Name, Seconds, given_for_store, seconds_option, store_option
from recipes.cli.running.run import LONGEST_GRACE, Order, refuse, run

__all__ = ["elect_command", "run_command"]

Function = TypeVar("Function", bound=Callable[..., Any])
EXAMPLES = f"""
\b
Examples:
  recipes run reports/nightly --store sqlite:///var/lib/app/locks.db -- ./report.sh
  export RECIPES_STORE=etcd://10.0.0.1:2379/app
  recipes run deploy --timeout 60 -- ansible-playbook site.yml
  recipes run backup --try -- sh -c 'backup --fence "$RECIPES_TOKEN"'
  recipes run catalog --shared -- ./read-catalog
  recipes run nightly --try --quiet --conflict-exit-code 0 -- ./nightly.sh

\b
Exit codes: the command's own, 128 + n if signal n ended it; or
{chr(10).join(f"  {code}  {meaning}" for code, meaning in codes.MEANINGS.items())}
A command that itself ends with one of these is named on standard error, and in
--report.

\b
The command's environment has RECIPES_LOCK, RECIPES_TOKEN (the fencing token: hand
it to what the lock protects), RECIPES_MODE, RECIPES_STORE, RECIPES_REMAINING
(seconds proven when it was started) and RECIPES_DEADLINE (the same on the boot
clock; every renewal moves it on).
"""
ELECT_EXAMPLES = f"""
\b
Examples:
  recipes elect scheduler --store etcd://10.0.0.1:2379/app -- ./scheduler
  recipes elect primary --value "$(hostname):8000" -- ./serve --port 8000
  recipes elect cleaner -- sh -c 'clean --fence "$RECIPES_TOKEN"'
  recipes who primary --of election

\b
Exit codes: the command's own, 128 + n if signal n ended it; or
{chr(10).join(f"  {code}  {meaning}" for code, meaning in codes.MEANINGS_OF_ELECT.items())}
A command that itself ends with one of these is named on standard error, and in
--report.

\b
The command's environment has RECIPES_ELECTION, RECIPES_VALUE, RECIPES_TOKEN (the
fencing token: hand it to what only the leader may change), RECIPES_STORE,
RECIPES_REMAINING and RECIPES_DEADLINE, as with recipes run.
"""


class _Running(click.Command):
    """A command that runs another: what is of that one must not be taken for its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a line without a NAME before ``--``, or whose command would lose options, or its ``--``."""
        if not ctx.resilient_parsing:
            at = args.index("--") if "--" in args else len(args)
            before = args[:at]
            begins = next((n for n in range(1, at) if self._given(ctx, before[: n + 1], "command")), at)
            own, others = before[:begins], before[begins + 1 :]
            if at < len(args) and not {"-h", "--help"} & {*own} and not self._given(ctx, own, "name"):
                raise click.UsageError("NAME is missing: it comes before --, and the command behind", ctx)
            if begins < at and (at < len(args) or any(word[:1] == "-" != word for word in others)):
                raise click.UsageError(
                    f"put -- before the command: ... -- {' '.join(before[begins:])} ...", ctx
                )
        return super().parse_args(ctx, args)

    def _given(self, ctx: click.Context, words: list[str], argument: str) -> bool:
        """Return whether these words have this argument in them."""
        try:
            given, *_ = self.make_parser(ctx).parse_args([*words])
        except click.UsageError:  # it is said of the whole line, or -- is what an option is given
            return argument == "name"
        found = given.get(argument)
        return isinstance(found, str | tuple | list) and bool(found)


command_argument = click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD..."
)
keeping_options = (
    seconds_option(
        "--ttl",
        "session_timeout",
        least=2,
        default=15.0,
        help="The session: if this process dies, the store gives its place away after so long.",
    ),
    click.option(
        "--grace",
        type=Seconds(zero=True),
        help="From SIGTERM to SIGKILL, when the session is not renewed.  [default: a fifth of --ttl]",
    ),
)
telling_options = (
    click.option(
        "--events",
        "log",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Append the events to this file, for recipes timeline and recipes stats.",
    ),
    click.option(
        "--report",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write how it ended to this file, as JSON.",
    ),
)


def _with(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return what adds options in this order."""

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@click.command("run", cls=_Running, epilog=EXAMPLES)
@click.argument("name", type=Name())
@command_argument
@store_option
@click.option("--shared", is_flag=True, help="Hold it beside others that hold it shared.")
@click.option("--try", "tries", is_flag=True, help="Do not wait: give up at once if it is not free.")
@click.option("--timeout", type=Seconds(zero=True), help="Wait at most so long.  [default: for ever]")
@click.option(
    "-E",
    "--conflict-exit-code",
    "conflict_code",
    type=click.IntRange(0, 255),
    metavar="N",
    default=codes.NOT_ACQUIRED,
    show_default=True,
    help="The exit code if the lock is not acquired in time, as of flock.",
)
@click.option("--quiet", is_flag=True, help="Say nothing if the lock is not acquired in time.")
@_with(*keeping_options)
@click.option(
    "--on-lost",
    type=click.Choice(["stop", "ignore"]),
    default="stop",
    show_default=True,
    help="End the command before the store may give the lock away; or warn, and let it run.",
)
@click.option("--owner", help="What recipes who shows, with host and process.  [default: the program's name]")
@_with(*telling_options)
def run_command(
    *,
    name: str,
    command: tuple[str, ...],
    store: str,
    shared: bool,
    tries: bool,
    timeout: float | None,
    conflict_code: int,
    quiet: bool,
    ttl: float,
    grace: float | None,
    on_lost: str,
    owner: str | None,
    log: Path | None,
    report: Path | None,
) -> int:
    """Run CMD while holding the lock NAME, and not a moment longer.

    Waits for its turn, starts CMD, gives the lock back when CMD and all it started have ended. If
    the session with the store cannot be renewed, CMD gets SIGTERM, and SIGKILL before the store may
    give the lock to somebody else; also if this process is stopped, or killed.
    """
    if tries and timeout is not None:
        raise click.UsageError("--try does not wait, so it is not allowed with --timeout")
    order = Order(
        name=name,
        store=store,
        command=command,
        shared=shared,
        timeout_s=0.0 if tries else timeout,
        conflict_code=conflict_code,
        quiet=quiet,
        ttl_s=ttl,
        grace_s=_grace(grace, ttl),
        stops=on_lost == "stop",
        log=log,
        owner=_owner(owner, command),
        report=report,
    )
    refuse(order)
    return run(order)


@click.command("elect", cls=_Running, epilog=ELECT_EXAMPLES)
@click.argument("name", type=Name("election"))
@command_argument
@store_option
@click.option(
    "--value",
    help="What the leader says to others, such as its address.  [default: host and process]",
)
@click.option(
    "--timeout",
    type=Seconds(zero=True),
    help="Wait at most so long to be elected, each time.  [default: for ever]",
)
@_with(*keeping_options, *telling_options)
def elect_command(
    *,
    name: str,
    command: tuple[str, ...],
    store: str,
    value: str | None,
    timeout: float | None,
    ttl: float,
    grace: float | None,
    log: Path | None,
    report: Path | None,
) -> int:
    """Run CMD while leading the election NAME, whenever that is.

    Campaigns, starts CMD when elected, resigns when CMD and all it started have ended, and ends with
    its code. If the leadership is lost, CMD is ended as with recipes run, before the store may let
    another candidate lead; then it campaigns again, at the end of the queue.
    """
    order = Order(
        name=name,
        store=store,
        command=command,
        timeout_s=timeout,
        ttl_s=ttl,
        grace_s=_grace(grace, ttl),
        log=log,
        owner=_owner(None, command),
        report=report,
        recipe="election",
        value=f"{socket.gethostname()}:{os.getpid()}" if value is None else value,
    )
    refuse(order)
    return run(order)


def _grace(grace: float | None, ttl: float) -> float:
    if grace is None:
        return ttl / 5
    if grace > ttl * LONGEST_GRACE:
        raise click.UsageError(
            f"--grace {grace:g} is more than a third of --ttl {ttl:g}: one late renewal would end the "
            "command; allow a longer --ttl"
        )
    return grace


def _owner(owner: str | None, command: tuple[str, ...]) -> str:
    """Return what was given, or the program's name: its arguments may be secret."""
    if owner is None:
        owner = given_for_store().get("owner")
    if owner is None:
        name = Path(command[0]).name
        return name[:LONGEST_OWNER] if name.isprintable() and name else "recipes run"
    if not (owner.isprintable() and 1 <= len(owner) <= LONGEST_OWNER):
        raise click.UsageError(f"--owner is 1 to {LONGEST_OWNER} printable characters")
    return owner
