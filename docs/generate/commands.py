"""The command line: every command as click knows it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from docs.generate.tables import table
from recipes.cli.command import root

__all__ = ["commands"]


def commands() -> str:
    """Return a section for each command."""
    context = click.Context(root, info_name="recipes", **root.context_settings)
    return "\n\n".join(_sections(root, context))


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.commands[name]
        if isinstance(command, click.Group):
            yield from _sections(command, click.Context(command, context, info_name=name))
        else:
            yield "\n\n".join(_section(command, context))


def _section(command: click.Command, above: click.Context) -> Iterator[str]:
    context = click.Context(command, above, info_name=command.name)
    yield f"## {context.command_path}"
    yield f"```\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield from _prose(command.help or "")
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    yield table(("option", "meaning"), [_row(option) for option in options if not option.hidden])
    yield from _prose(command.epilog or "")


def _prose(text: str) -> Iterator[str]:
    """Return its paragraphs; those that keep their lines, which click marks, as code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b\n"):
            yield f"```\n{paragraph[2:]}\n```"
        elif paragraph:
            yield " ".join(paragraph.split()).replace("<", "&lt;")


def _row(option: click.Option) -> tuple[str, str]:
    takes = "" if option.is_flag or option.count else f" {option.metavar or option.type.name.upper()}"
    if isinstance(option.type, click.Choice):
        takes = f" {'/'.join(map(str, option.type.choices))}"
    names = ", ".join(f"`{name}{takes}`" for name in (*option.opts, *option.secondary_opts))
    meaning = option.help or ""
    if option.show_default and option.default not in (None, False):
        meaning += f" [default: {option.default}]"
    return names, meaning
