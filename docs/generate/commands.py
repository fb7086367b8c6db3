"""The command line: every command as click knows it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generate.tables import code, table
from recipes.cli.command import root

__all__ = ["commands"]


COMMON = {"--store", "--store-option", "--help"}
"""Options that nearly all have, which the page says once, as it does exit codes; ``--help`` has examples."""


IN_FULL = "recipes run"
"""The command whose options are explained; of the others the table has the names, and ``--help`` the rest."""


def commands() -> str:
    """Return the table of commands, and that of the options of the one in full."""
    found = list(_commands(root, click.Context(root, info_name="recipes", **root.context_settings)))
    rows = [
        (_usage(context), _said(context), code(max(one.opts, key=len) for one in _own(context)))
        for context in found
    ]
    (full,) = (context for context in found if context.command_path == IN_FULL)
    return "\n\n".join(
        (
            table(("command", "what it does", "options"), rows),
            f"The options of `{IN_FULL}`:",
            table(("option", "meaning"), [_row(option) for option in _own(full)]),
        )
    )


def _commands(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command, those of groups too."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "what is listed is there"
        below = click.Context(command, context, info_name=name)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
        else:
            yield below


def _usage(context: click.Context) -> str:
    pieces = context.command.collect_usage_pieces(context)[1:]
    return f"`{' '.join([context.command_path, *pieces]).replace('|', '/')}`"


def _said(context: click.Context) -> str:
    """Return the first sentence of its help."""
    first = inspect.cleandoc(context.command.help or "").partition("\n\n")[0]
    return " ".join(first.split()).replace("<", "&lt;")


def _own(context: click.Context) -> list[click.Option]:
    options = [param for param in context.command.get_params(context) if isinstance(param, click.Option)]
    return [option for option in options if not option.hidden and not COMMON & set(option.opts)]


def _row(option: click.Option) -> tuple[str, str]:
    takes = "" if option.is_flag or option.count else f" {option.metavar or option.type.name.upper()}"
    if isinstance(option.type, click.Choice):
        takes = f" {'/'.join(map(str, option.type.choices))}"
    names = ", ".join(f"`{name}{takes}`" for name in (*option.opts, *option.secondary_opts))
    meaning = option.help or ""
    if option.show_default and option.default not in (None, False):
        meaning += f" [default: {option.default}]"
    return names, meaning
