"""The arguments of ``recipes timeline`` and ``recipes stats``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from recipes._printable import printable
from recipes.cli import codes
from recipes.cli.history.counting import Quantiles, Summary, summary
from recipes.cli.history.drawing import drawing
from recipes.cli.history.page import page
from recipes.cli.history.reading import NoEvents, read
from recipes.cli.history.spans import NAMELESS, LockHistory, called, histories

__all__ = ["stats_command", "timeline_command"]

LOGS = """
\b
A log has an event on each line, as JSON, and comes from
  recipes run NAME --events events.jsonl -- CMD, or recipes elect
  recipes demo --json > events.jsonl
  recipes.events.log_json(file), or a structlog of yours that renders JSON
"""

TIMELINE_EXAMPLES = f"""
\b
Examples:
  recipes timeline events.jsonl -o timeline.html
  recipes timeline host-1.jsonl host-2.jsonl -o timeline.svg
  recipes timeline events.jsonl --lock reports/nightly --lane service -o nightly.svg
{LOGS}
"""

STATS_EXAMPLES = f"""
\b
Examples:
  recipes stats events.jsonl
  recipes stats --json events.jsonl | jq '.[].hand_over.p99_s'
{LOGS}
"""

files_argument = click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="EVENTS.jsonl...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
lane_option = click.option(
    "--lane",
    metavar="FIELD",
    help="The field that says who it was.  [default: worker, or host, pid and thread]",
)
lock_option = click.option(
    "--lock", "locks", multiple=True, metavar="NAME", help="What has this name only; may be repeated."
)


@click.command("timeline", epilog=TIMELINE_EXAMPLES)
@files_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="What to write: .svg, or .html, a page that needs nothing else.",
)
@lane_option
@lock_option
def timeline_command(
    *, files: tuple[str, ...], output: Path, lane: str | None, locks: tuple[str, ...]
) -> int:
    """Draw from logs who waited for each lock and who held it, who led, and who was a member.

    A lane for each contender; losses and doubts are marked, grants have their tokens, and the longest
    hand-overs and waits are listed.
    """
    kind = output.suffix.lower()
    if kind not in (".svg", ".html"):
        raise click.UsageError(f"-o is a file that ends with .svg or .html, not {output.name!r}")
    found = _histories(files, lane, locks)
    title = "Timeline of " + ", ".join(history.title for history in found)
    output.write_text(drawing(found) if kind == ".svg" else page(found, title), encoding="utf-8")
    return codes.OK


@click.command("stats", epilog=STATS_EXAMPLES)
@files_argument
@lane_option
@lock_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON array, an object a lock; times in seconds."
)
def stats_command(*, files: tuple[str, ...], lane: str | None, locks: tuple[str, ...], as_json: bool) -> int:
    """Say for each lock how long contenders waited and held, and how often it was lost.

    The same for each election, group, and whatever else is held. Those of one name on different
    stores are counted apart.
    """
    found = [(history.title, summary(history)) for history in _histories(files, lane, locks)]
    if as_json:
        click.echo(json.dumps([one.as_fields() for _, one in found], indent=2))
    else:
        _print(found)
    return codes.OK


def _histories(files: Sequence[str], lane: str | None, locks: Sequence[str]) -> list[LockHistory]:
    try:
        with contextlib.ExitStack() as stack:
            log = read(
                [(name, stack.enter_context(click.open_file(name, errors="replace"))) for name in files], lane
            )
    except NoEvents as nothing:
        raise click.ClickException(str(nothing)) from None
    everything = histories(log.happenings, locks)
    found = [history for history in everything if not locks or history.lock in locks]
    if not found:
        seen = ", ".join(sorted({history.lock for history in everything}))
        raise click.ClickException(f"nothing of these names is in the log; there are {seen}")
    return found


def _print(found: Sequence[tuple[str, Summary]]) -> None:
    width = None if sys.stdout.isatty() else 100
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    stores = list(dict.fromkeys(one.store for _, one in found))
    for store in stores:
        if len(stores) > 1:
            console.print(printable(store or NAMELESS), soft_wrap=True)
        console.print(_table([one for _, one in found if one.store == store]))
    for title, one in found:
        console.print(printable(_in_words(title, one)), soft_wrap=True)


def _table(found: Sequence[Summary]) -> Table:
    table = Table(title="milliseconds", title_justify="right", title_style="dim")
    table.add_column("lock")
    for name in ("", "count", "p50", "p90", "p99", "longest"):
        table.add_column(name, justify="right" if name else "left")
    for one in found:
        rows = [("wait", one.wait), ("hold", one.hold), ("hand-over", one.hand_over)]
        for index, (kind, times) in enumerate(rows):
            title = "" if index else printable(called(one.recipe, one.lock))
            table.add_row(title, kind, *_figures(times), end_section=index == len(rows) - 1)
    return table


def _in_words(title: str, one: Summary) -> str:
    share = f"{one.contended:.0%} had to queue, at most {one.longest_queue} at once"
    return (
        f"{title}: {one.grants} grants to {one.contenders} in {one.seconds:.2f} s, {share}; held "
        f"{one.busy:.0%} of the time; {one.lost} lost, {one.suspect} suspect, {one.requeued} requeued, "
        f"{one.timeouts} timed out, {one.cancelled} cancelled"
    )


def _figures(times: Quantiles | None) -> tuple[str, ...]:
    return ("0", "", "", "", "") if times is None else times.in_milliseconds()
