"""The command ``recipes``: its subcommands, and what becomes of wrong arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

import recipes
from recipes.cli import codes

__all__ = ["commands", "root", "run"]

EXAMPLES = """
\b
Examples:
  recipes demo
  recipes run reports/nightly --store sqlite:///tmp/app.db -- ./report.sh
  recipes run --help
  eval "$(recipes completion bash)"

\b
The store is --store URL, or the environment's RECIPES_STORE. Exit codes: 0 it did
what it says, 1 it did not, 2 wrong arguments, 122 the store gave no answer, 130
interrupted; recipes run and recipes elect have their own, see recipes run --help.
"""


_COMMANDS = {
    "run": "running.command:run_command",
    "elect": "running.command:elect_command",
    "ls": "looking.command:ls_command",
    "who": "looking.command:who_command",
    "watch": "looking.command:watch_command",
    "members": "looking.members:members_command",
    "break": "looking.command:break_command",
    "get": "values:get_command",
    "set": "values:set_command",
    "watch-value": "values:watch_value_command",
    "count": "values:count_command",
    "ping": "ping:ping_command",
    "store": "schema:store_command",
    "timeline": "history.command:timeline_command",
    "stats": "history.command:stats_command",
    "demo": "demo.command:demo_command",
}
"""Where each subcommand is, ``"module:function"`` below `recipes.cli`; loaded when it is used."""


class _Root(click.Group):
    """A group that loads a subcommand when it is asked for: each needs other libraries, and they are slow."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module, _, function = _COMMANDS[cmd_name].partition(":")
            self.add_command(getattr(import_module(f"recipes.cli.{module}"), function))
        return super().get_command(ctx, cmd_name)


@click.group(
    "recipes",
    cls=_Root,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(recipes.__version__, message="recipes %(version)s")
@click.pass_context
def root(context: click.Context) -> int:
    """Locks, values and other recipes: run commands under a lock, see who holds it, share values."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return codes.USAGE
    return codes.OK


@root.command("completion", short_help="Print the shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(*, shell: str) -> int:
    """Print what makes the shell complete commands, options and the names of locks.

    \b
    bash: eval "$(recipes completion bash)"     in ~/.bashrc
    zsh:  eval "$(recipes completion zsh)"      in ~/.zshrc
    fish: recipes completion fish | source      in ~/.config/fish/config.fish
    """  # noqa: D301 - click's mark for a paragraph that keeps its lines
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - for this alone

    kind = get_completion_class(shell)
    assert kind is not None, "the choice is of those that there are"
    click.echo(kind(root, {}, "recipes", "_RECIPES_COMPLETE").source())
    return codes.OK


def commands() -> dict[str, click.Command]:
    """Return all subcommands, by name."""
    context = click.Context(root)
    found = {name: root.get_command(context, name) for name in (*_COMMANDS, *root.list_commands(context))}
    return {name: command for name, command in found.items() if command is not None}


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = root.main(words, prog_name="recipes", standalone_mode=False)
    except click.exceptions.Exit as over:
        return over.exit_code
    except click.ClickException as wrong:
        wrong.show()
        context = getattr(wrong, "ctx", None)
        of_run = context is not None and context.info_name in ("run", "elect")
        if of_run and isinstance(wrong, click.NoSuchOption):
            click.echo("Options of the command itself: put -- before the command.", err=True)
        return codes.WRONG if of_run else codes.USAGE
    except click.Abort:
        return codes.SIGNALLED + 2
    return int(code or 0)
