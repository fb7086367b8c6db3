"""The arguments of ``recipes ls``, ``who``, ``watch`` and ``break``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

import recipes
from recipes.cli import codes
from recipes.cli.looking.asking import can_redraw, columns, console, json_option, looking
from recipes.cli.looking.queue import READ_AT_ONCE, Queue, follow, looked_at, more_of, one_more, read
from recipes.cli.looking.shapes import SHAPES
from recipes.cli.options import Count, Name, Seconds, Token, store_option, without_secret
from recipes.events import titled

__all__ = ["break_command", "ls_command", "watch_command", "who_command"]

LS_EXAMPLES = """
\b
Examples:
  recipes ls
  recipes ls --json | jq -r '.[] | select(.waiters > 10) | .lock'

Exit codes: 0 the store answered, 122 it did not, 2 wrong arguments.
"""
WHO_EXAMPLES = """
\b
Examples:
  recipes who reports/nightly
  recipes who reports/nightly --json | jq '.holders[].token'
  recipes who scheduler --of election

\b
Owner, host, pid and time are shown of those who gave them: recipes run does, and
recipes.connect(url, owner="...").

Exit codes: 0 the store answered, 122 it did not, 2 wrong arguments.
"""
WATCH_EXAMPLES = """
\b
Examples:
  recipes watch reports/nightly
  recipes watch reports/nightly --interval 5 > changes.txt

Exit codes: 130 it was interrupted (Ctrl-C), 122 the store did not answer, 2 wrong
arguments.
"""
BREAK_EXAMPLES = """
\b
Examples:
  recipes who reports/nightly
  recipes break reports/nightly --token 1099511627777
  recipes break reports/nightly --token 1099511627777 --yes
  recipes break gpu --of semaphore --id 5f0c61a2b0f14dc4a7f0a4a5c1a2c6d0

Exit codes: 0 it was removed, 1 there is no such contender, or you said no, 122 the
store did not answer, 2 wrong arguments.
"""

of_option = click.option(
    "--of",
    "recipe",
    type=click.Choice(list(SHAPES)),
    default="lock",
    show_default=True,
    help="What NAME is the name of.",
)
limit_option = click.option(
    "--limit",
    type=Count(most=READ_AT_ONCE),
    default=READ_AT_ONCE,
    show_default=True,
    help="Contenders to read.",
)


@click.command("ls", epilog=LS_EXAMPLES)
@store_option
@json_option
@click.option(
    "--limit", type=Count(most=READ_AT_ONCE), default=1000, show_default=True, help="Locks to list."
)
def ls_command(*, store: str, as_json: bool, limit: int) -> int:
    """List the locks that are held or awaited."""

    def show(client: recipes.Client) -> int:
        locks = client.locks(limit=one_more(limit), contenders=READ_AT_ONCE)
        found = [
            Queue(name, tuple(queue), more=more_of(queue, READ_AT_ONCE))
            for name, queue in sorted(locks.items())[:limit]
        ]
        if as_json:
            click.echo(json.dumps([_counted(queue) for queue in found]))
        else:
            rows = [("lock", "held", "token", "owner", "waiting"), *(_listed(queue) for queue in found)]
            click.echo(columns(rows) if found else "nobody holds a lock here, and nobody waits")
        if more_of(locks, limit):
            click.echo("there are more locks: see --limit", err=True)
        return codes.OK

    return looking(store, show)


@click.command("who", epilog=WHO_EXAMPLES)
@click.argument("name", type=Name())
@store_option
@json_option
@limit_option
@of_option
def who_command(*, name: str, store: str, as_json: bool, limit: int, recipe: str) -> int:
    """Show who holds the lock NAME, and who waits for it, in order.

    Clients of other kinds that share the lock are shown as such, and what is no contender at all.
    With --of it is another recipe's: of a semaphore it shows how many permits each takes, of an
    election the values.
    """

    def show(client: recipes.Client) -> int:
        queue = read(client, name, limit, recipe)
        if as_json:
            click.echo(json.dumps({"store": without_secret(store), **queue.as_fields()}))
        else:
            console().print(queue.drawn())
        return codes.OK

    return looking(store, show)


@click.command("watch", epilog=WATCH_EXAMPLES)
@click.argument("name", type=Name())
@store_option
@click.option(
    "--interval",
    type=Seconds(least=0.1),
    default=10.0,
    show_default=True,
    help="The longest pause between two looks; a change is shown at once.",
)
@of_option
def watch_command(*, name: str, store: str, interval: float, recipe: str) -> int:
    """Show who holds the lock NAME and who waits, until Ctrl-C.

    On a terminal it is a table that stays; elsewhere a line is printed whenever a holder changes.
    """

    def show(client: recipes.Client) -> int:
        screen = console()
        if can_redraw(screen):
            from rich.live import Live  # noqa: PLC0415 - slow to import, and JSON needs none of it

            with Live(console=screen, auto_refresh=False, screen=False) as live:
                for queue in follow(client, name, READ_AT_ONCE, interval, recipe=recipe, redrawn=True):
                    live.update(queue.drawn(max(screen.height - 6, 1)), refresh=True)
        seen: list[str] | None = None
        for queue in follow(client, name, READ_AT_ONCE, interval, recipe=recipe, redrawn=False):
            if (now := [f"{one.key} {one.data!r}" for one in queue.holders]) != seen:
                seen = now
                click.echo(_changed(queue))
                sys.stdout.flush()
        return codes.OK

    return looking(store, show)


@click.command("break", epilog=BREAK_EXAMPLES)
@click.argument("name", type=Name())
@click.option("--token", type=Token(), help="Which contender: as recipes who shows it.")
@click.option("--id", "contender_id", help="Which contender, where it has no token, as in a semaphore.")
@of_option
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def break_command(
    *, name: str, token: int | None, contender_id: str | None, recipe: str, store: str, yes: bool
) -> int:
    """Remove the contender with this token, or id, from the queue of the lock NAME, and no other.

    Its process goes on until it finds out, by its next renewal: what the lock protects has to
    refuse the old token by then. Better end the process, if it can be reached.
    """
    named = contender_id if token is None else token
    if named is None or (token is not None and contender_id is not None):
        raise click.UsageError("say --token, or --id")
    if contender_id is not None and recipe != "semaphore":
        raise click.UsageError("--id names a contender of a semaphore: say --of semaphore")

    def remove(client: recipes.Client) -> int:
        queue = read(client, name, READ_AT_ONCE, recipe)
        there = next((one for one in queue.contenders if named in (one.token, one.id)), None)
        if there is None:
            what = f"{titled(recipe, name)} has {'id' if token is None else 'token'}"
            click.echo(f"recipes break: nobody at {what} {named}; see recipes who", err=True)
            return codes.FAILED
        click.echo(queue.described(there), err=True)
        if not yes and not _confirmed():
            return codes.FAILED
        if looked_at(client, recipe, name).evict(named):
            click.echo("removed", err=True)
            return codes.OK
        click.echo("recipes break: it has left by itself meanwhile; nothing was removed", err=True)
        return codes.FAILED

    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask at: say --yes")
    return looking(store, remove)


def _confirmed() -> bool:
    return click.confirm("Remove it? Its process may not know for a while", err=True)


def _counted(queue: Queue) -> dict[str, Any]:
    tokens = [one.token for one in queue.holders]
    count = {"holders": len(tokens), "waiters": len(queue.waiters)}
    return {"lock": queue.lock, **count, "tokens": tokens, "more": queue.more}


def _listed(queue: Queue) -> tuple[str, ...]:
    holders = queue.holders
    waiting = f"{len(queue.waiters)}{'+' if queue.more else ''}"
    if not holders:
        return queue.lock, "", "", "", waiting
    first = holders[0]
    more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    owner = f"{first.owner or ''}{more}"
    return queue.lock, first.mode, str(first.token), owner.strip(), waiting


def _changed(queue: Queue) -> str:
    clock = time.strftime("%H:%M:%S")
    holders = "; ".join(map(queue.described, queue.holders)) or queue.shape.nobody.partition(",")[0]
    return f"{clock} {holders}; {len(queue.waiters)} wait"
