"""The command ``recipes``: its subcommands, and what becomes of wrong arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
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
    "run": ("running.command:run_command", "Run a command while holding a lock."),
    "elect": ("running.command:elect_command", "Run a command while leading."),
    "ls": ("looking.command:ls_command", "List locks, who holds them, and how many wait."),
    "who": ("looking.command:who_command", "Show who holds a lock and who waits."),
    "watch": ("looking.command:watch_command", "Show it live."),
    "members": ("looking.members:members_command", "List the members of a group."),
    "break": ("looking.command:break_command", "Remove a holder or a waiter."),
    "get": ("values:get_command", "Print a value."),
    "set": ("values:set_command", "Write a value, once."),
    "watch-value": ("values:watch_value_command", "Print every change of a value."),
    "count": ("values:count_command", "Print a counter, or add to it."),
    "ping": ("ping:ping_command", "Ask whether the store is there, and how fast."),
    "store": ("schema:store_command", "Prepare a store."),
    "timeline": ("history.command:timeline_command", "Draw who waited and who held."),
    "stats": ("history.command:stats_command", "Count waits, holds, hand-overs and losses."),
    "demo": ("demo.command:demo_command", "Show what locks are for."),
}
"""Where each subcommand is, ``"module:function"`` below `recipes.cli`, to be loaded when used; its help."""


class _Root(click.Group):
    """A group that loads a subcommand when it is asked for: each needs other libraries, and they are slow."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            where, short = _COMMANDS[cmd_name]
            module, _, function = where.partition(":")
            command: click.Command = getattr(import_module(f"recipes.cli.{module}"), function)
            command.short_help = short
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands, and load none of them."""
        short = {name: short for name, (_, short) in _COMMANDS.items()}
        short |= {name: command.get_short_help_str() for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(short.items()))


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


def _drop_output() -> None:
    """Have nothing left to be written where that is not possible, as Python tries again when it ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    except recipes.RecipesError:  # one of them is an OSError
        raise
    except OSError as failed:  # as a disk that is full
        click.echo(f"recipes: {failed}", err=True)
        _drop_output()
        return codes.WRONG if words[:1] in (["run"], ["elect"]) else codes.FAILED
    return int(code or 0)
