"""What the subcommands share: the store, durations, and how arguments are refused."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

import recipes

__all__ = ["STORE_VARIABLE", "Count", "Name", "Seconds", "Store", "store_option", "without_secret"]

STORE_VARIABLE = "RECIPES_STORE"
COMPLETE_WITHIN_S = 0.5
COMPLETE_FROM = 200
if TYPE_CHECKING:  # generic since click 8.4
    _Kind = click.ParamType[Any]
else:
    _Kind = click.ParamType
Function = TypeVar("Function", bound=Callable[..., Any])


def without_secret(url: str) -> str:
    """Return a store's URL without user and password, to be shown."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


class Store(_Kind):
    """The URL of a store that several processes can share."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a URL that cannot work before anything is started."""
        try:
            recipes.connect(value, require="many_processes").close()
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Name(_Kind):
    """The name of a lock, or whatever else a recipe is made with.

    Args:
        recipe: What it is the name of; None: what ``--of`` says.
    """

    name = "NAME"

    def __init__(self, recipe: str | None = None) -> None:
        self._recipe = recipe

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what no store could take."""
        try:
            recipes.connect("memory://").lock(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the locks that are held or awaited, if the store is known and answers at once.

        Stores list no names of other recipes.
        """
        url = ctx.params.get("store") or os.environ.get(STORE_VARIABLE)
        if not url or (self._recipe or ctx.params.get("recipe") or "lock") != "lock":
            return []
        try:
            with recipes.connect(url, session_timeout=2, request_timeout=COMPLETE_WITHIN_S) as client:
                names = client.locks(limit=COMPLETE_FROM)
        except (recipes.RecipesError, ValueError):
            return []
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


class Count(_Kind):
    """How many.

    Args:
        most: The largest number, None for any.
    """

    name = "N"

    def __init__(self, *, most: int | None = None) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is no number, and less than 1."""
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            self.fail(f"a whole number of at least 1, not {value!r}", param, ctx)
        if self._most is not None and number > self._most:
            self.fail(f"at most {self._most}, not {value!r}", param, ctx)
        return number


class Seconds(_Kind):
    """A duration.

    Args:
        least: The shortest.
        zero: Whether 0 may be given.
    """

    name = "S"

    def __init__(self, *, least: float = 0.0, zero: bool = False) -> None:
        self._least = least
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuse what is no number of seconds, and out of bounds."""
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if number == 0 and self._zero:
            return 0.0
        if not (0 < number < math.inf and number >= self._least):
            bound = f"of at least {self._least:g}" if self._least else "above 0"
            also = " (or 0)" if self._zero else ""
            self.fail(f"a number of seconds {bound}{also}, not {value!r}", param, ctx)
        return number


def store_option(function: Function) -> Function:
    """Add ``--store``."""
    option = click.option(
        "--store",
        type=Store(),
        envvar=STORE_VARIABLE,
        required=True,
        show_envvar=True,
        help="The store: sqlite:///path, etcd://host:port/prefix or zookeeper://host:port/root.",
    )
    return option(function)
