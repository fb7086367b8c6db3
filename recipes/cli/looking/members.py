"""``recipes members``: which processes are in a group, and what they say of themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

import recipes
from recipes.cli import codes
from recipes.cli.looking.asking import can_redraw, console, json_option, looking, table
from recipes.cli.looking.shapes import exact_text_of, text_of
from recipes.cli.options import Name, made, store_option

__all__ = ["members_command"]

Members = tuple[recipes.Member, ...]
EXAMPLES = """
\b
Examples:
  recipes members workers
  recipes members workers --json | jq -r '.[].id'
  recipes members workers --watch

\b
What waits for an id that another member has, and owner, host and process of all,
are shown by recipes who NAME --of group.

Exit codes: 0 the store answered, 122 it did not, 130 interrupted, 2 wrong arguments.
"""


@click.command("members", epilog=EXAMPLES)
@click.argument("name", type=Name(recipe="group"))
@store_option
@json_option
@click.option("--watch", is_flag=True, help="Show every change, until Ctrl-C.")
def members_command(*, name: str, store: str, as_json: bool, watch: bool) -> int:
    """List the members of the group NAME, first come first, with what each says.

    With --watch it is a table that stays, on a terminal; elsewhere a line is printed for each change,
    with --json an array of all members.
    """

    def show(client: recipes.Client) -> int:
        group = made(lambda: client.group(name))
        if watch:
            _follow(name, group.watch(), as_json=as_json)
        elif as_json:
            click.echo(_json(group.members()))
        else:
            console().print(_drawn(name, group.members()))
        return codes.OK

    return looking(store, show)


def _follow(name: str, seen: Iterator[Members], *, as_json: bool) -> None:
    screen = console()
    if can_redraw(screen) and not as_json:
        with Live(console=screen, auto_refresh=False, screen=False) as live:
            for members in seen:
                live.update(_drawn(name, members, max(screen.height - 4, 1)), refresh=True)
    before: Members | None = None
    for members in seen:
        line = _json(members) if as_json else f"{time.strftime('%H:%M:%S')} {_changed(before, members)}"
        click.echo(line)
        before = members


def _json(members: Members) -> str:
    return json.dumps([{"id": one.id, "data": exact_text_of(one.data)} for one in members])


def _drawn(name: str, members: Members, most: int | None = None) -> RenderableType:
    """Return the members as a table; the first ``most`` of them."""
    rows = ((text_of(one.id.encode()), text_of(one.data)) for one in members[:most])
    drawn = table(f"group {name}", [("member", "left"), ("data", "left")], rows)
    left = len(members) - len(members[:most])
    notes = [f"... and {left} more"] if left else []
    return Group(drawn, *map(Text, notes if members else ["nobody is a member"]))


def _changed(before: Members | None, now: Members) -> str:
    """Return in words what has changed."""
    count = f"{len(now)} member{'' if len(now) == 1 else 's'}"
    old, new = ({one.id: one.data for one in members} for members in (before or (), now))
    if before is None:
        return f"{count}: {', '.join(map(_shown, new))}" if new else count
    changes = [f"{_shown(one)} left" for one in old if one not in new]
    for one, data in new.items():
        if one not in old:
            changes.append(f"{_shown(one)} joined")
        elif data != old[one]:
            changes.append(f"{_shown(one)} says {text_of(data)}")
    return "; ".join([*changes, count])


def _shown(member_id: str) -> str:
    return text_of(member_id.encode())
