"""The command line: every command as click knows it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generate.tables import table
from recipes.cli.command import root

__all__ = ["commands"]


COMMON = {"--store", "--store-option", "--help"}
"""Options that nearly all have, which the page says once, as it does exit codes; ``--help`` has examples."""


def commands() -> str:
    """Return a paragraph and a table for each command."""
    context = click.Context(root, info_name="recipes", **root.context_settings)
    return "\n\n".join(_sections(root, context))


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "what is listed is there"
        if isinstance(command, click.Group):
            yield from _sections(command, click.Context(command, context, info_name=name))
        else:
            yield "\n\n".join(_section(command, context))


def _section(command: click.Command, above: click.Context) -> Iterator[str]:
    """Return its usage, its first sentence, and its options."""
    context = click.Context(command, above, info_name=command.name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)[1:]])
    first = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    yield f"**`{usage}`**: {first.replace('<', '&lt;')}"
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    own = [option for option in options if not option.hidden and not COMMON & set(option.opts)]
    if own:
        yield table(("option", "meaning"), [_row(option) for option in own])


def _row(option: click.Option) -> tuple[str, str]:
    takes = "" if option.is_flag or option.count else f" {option.metavar or option.type.name.upper()}"
    if isinstance(option.type, click.Choice):
        takes = f" {'/'.join(map(str, option.type.choices))}"
    names = ", ".join(f"`{name}{takes}`" for name in (*option.opts, *option.secondary_opts))
    meaning = option.help or ""
    if option.show_default and option.default not in (None, False):
        meaning += f" [default: {option.default}]"
    return names, meaning
