"""``recipes get``, ``set``, ``watch-value`` and ``count``: values and counters, for people and scripts."""

from __future__ import annotations

import json
import os
import sys
import time

import click

import recipes
from recipes._api.shared import MOST_BYTES, checked
from recipes.cli import codes
from recipes.cli.looking.asking import json_option, looking
from recipes.cli.looking.shapes import exact_text_of, text_of
from recipes.cli.options import Name, store_option
from recipes.events import titled

__all__ = ["count_command", "get_command", "set_command", "watch_value_command"]

STDIN = "-"
GET_EXAMPLES = """
\b
Examples:
  recipes get config
  recipes get config > config.yaml
  recipes get config --json | jq .version

Exit codes: 0 it was printed, 1 there is no such value, 122 the store did not answer,
2 wrong arguments.
"""
SET_EXAMPLES = """
\b
Examples:
  recipes set maintenance on
  recipes set config - < config.yaml
  recipes set leader-hint 10.0.0.3 --if-version 0
  recipes set offset --if-version 42 -- -1

\b
Exit codes: 0 it was written, 1 it has another version (with --if-version), 122 the
store did not answer, 2 wrong arguments. With 122 nothing was written, unless the
message says that it is not known: then read the value before you write it again.
"""
WATCH_EXAMPLES = """
\b
Examples:
  recipes watch-value config
  recipes watch-value config --json | while read -r change; do reload; done

Exit codes: 130 it was interrupted (Ctrl-C), 122 the store did not answer, 2 wrong
arguments.
"""
COUNT_EXAMPLES = """
\b
Examples:
  recipes count orders
  recipes count orders --add 1
  number=$(recipes count invoices --start 1000 --add 1)

\b
Exit codes: 0 the number was printed, 122 the store did not answer, or what is there
is no number, 2 wrong arguments. With 122 nothing was added, unless the message says
that it is not known: then read the counter before you add again.
"""


@click.command("get", epilog=GET_EXAMPLES)
@click.argument("name", type=Name("value"))
@store_option
@json_option
def get_command(*, name: str, store: str, as_json: bool) -> int:
    """Print the value NAME.

    In a pipe or a file it is exactly the bytes that were written. On a terminal what is no printable text
    is escaped. With --json it is an object with name, data and version; null if there is no value.
    """

    def show(client: recipes.Client) -> int:
        found = client.value(name).get()
        if as_json:
            click.echo(_json(name, found))
        if found is None:
            click.echo(f"recipes get: there is no {titled('value', name)}", err=True)
            return codes.FAILED
        if not as_json:
            _print(found.data)
        return codes.OK

    return looking(store, show)


@click.command("set", epilog=SET_EXAMPLES)
@click.argument("name", type=Name("value"))
@click.argument("value")
@store_option
@click.option(
    "--if-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Write only if the value has this version; 0: only if there is none.",
)
def set_command(*, name: str, value: str, store: str, if_version: int | None) -> int:
    """Write VALUE as the value NAME; with - it is read from standard input, byte by byte as it is.

    A value has 1 000 000 bytes at most. It is written once, even if the answer of the store is lost and
    it has to be asked again.
    """
    try:
        data = checked(sys.stdin.buffer.read(MOST_BYTES + 1) if value == STDIN else os.fsencode(value))
    except ValueError as refused:
        raise click.UsageError(str(refused)) from None

    def write(client: recipes.Client) -> int:
        there = client.value(name)
        if if_version is None:
            there.set(data)
            return codes.OK
        if there.set_if(data, if_version):
            return codes.OK
        why = "exists" if if_version == 0 else f"does not have version {if_version}"
        click.echo(f"recipes set: {titled('value', name)} {why}; nothing was written", err=True)
        return codes.FAILED

    return looking(store, write)


@click.command("watch-value", epilog=WATCH_EXAMPLES)
@click.argument("name", type=Name("value"))
@store_option
@json_option
def watch_value_command(*, name: str, store: str, as_json: bool) -> int:
    """Print the value NAME now, and after every change, until Ctrl-C.

    A change is one line: time, version and data, with what is not printable escaped; with --json an object
    as of recipes get, or null. Of changes that follow each other fast some are left out, never the last.
    """

    def show(client: recipes.Client) -> int:
        for found in client.value(name).changes():
            click.echo(_json(name, found) if as_json else f"{time.strftime('%H:%M:%S')} {_line(found)}")
        return codes.OK

    return looking(store, show)


@click.command("count", epilog=COUNT_EXAMPLES)
@click.argument("name", type=Name("counter"))
@store_option
@click.option("--add", "added", type=click.INT, metavar="N", help="Add N, which may be negative, once.")
@click.option(
    "--start",
    type=click.INT,
    metavar="N",
    default=0,
    show_default=True,
    help="What the counter is before anything was added.",
)
def count_command(*, name: str, store: str, added: int | None, start: int) -> int:
    """Print the number that the counter NAME has; with --add, the new one.

    It is added once, even if the answer of the store is lost and it has to be asked again.
    """

    def show(client: recipes.Client) -> int:
        counter = client.counter(name, start)
        try:
            click.echo(counter.get() if added is None else counter.add(added))
        except ValueError as refused:
            raise click.UsageError(str(refused)) from None
        return codes.OK

    return looking(store, show)


def _print(data: bytes) -> None:
    """Write a value to standard output: as it is, or what a terminal can show of each line."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    for line in data.splitlines() or [b""]:
        click.echo(text_of(line))


def _json(name: str, found: recipes.Versioned | None) -> str:
    if found is None:
        return "null"
    return json.dumps({"name": name, "data": exact_text_of(found.data), "version": found.version})


def _line(found: recipes.Versioned | None) -> str:
    return "no value" if found is None else f"version {found.version}: {text_of(found.data)}"
