"""What the subcommands share: the store, durations, and how arguments are refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import recipes
from recipes._api.options import AcquireOptions

__all__ = [
    "STORE_VARIABLE",
    "Count",
    "Name",
    "Seconds",
    "Store",
    "Token",
    "connected",
    "given_for_store",
    "made",
    "seconds_option",
    "store_option",
    "store_options",
    "without_secret",
]

STORE_VARIABLE = "RECIPES_STORE"
OPTIONS_VARIABLE = "RECIPES_STORE_OPTIONS"
GIVEN = "recipes.store options"
NUMBERS = {"replicas", "restart_grace", "session_timeout", "request_timeout"}
SWITCHES = {"create_tables"}
"""Options of `connect` that are no text."""
COMPLETE_WITHIN_S = 0.5
COMPLETE_FROM = 200
TYPED = re.compile(r"(?!-)[\w./:@%+,=-]+")
"""What no shell takes for more than it is, where it is typed."""
if TYPE_CHECKING:  # generic since click 8.4
    _Kind = click.ParamType[Any]
else:
    _Kind = click.ParamType
Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")


def without_secret(url: str) -> str:
    """Return a store's URL without user and password, to be shown."""
    return re.sub(r"(?<=://)[^/?#]*@", "", url)  # up to the last: a password may have one


def given_for_store() -> dict[str, Any]:
    """Return the options that the command line gives for the store."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(GIVEN, {})


def connected(store: str, **options: Any) -> recipes.Client:
    """Return a client of a store, made with the options that the command line gives for it.

    Args:
        store: Its URL.
        options: Further ones, which win.

    Raises:
        click.UsageError: They do not fit the store, or each other; or what the store needs is not installed.
    """
    try:
        return recipes.connect(store, **{**given_for_store(), **options})
    except (ImportError, TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def made(make: Callable[[], T]) -> T:
    """Return what a client makes of a name.

    Raises:
        click.UsageError: Its store has no room for the name.
        TooWeak: Its store cannot give what that needs.
    """
    try:
        return make()
    except recipes.TooWeak:  # a ValueError, too
        raise
    except ValueError as refused:
        raise click.UsageError(str(refused)) from None


def seconds_option(
    flag: str,
    name: str,
    *,
    least: float,
    default: float,
    help: str,  # noqa: A002 - as click calls it
) -> Callable[[Function], Function]:
    """Return an option of seconds that, left out, is what ``--store-option`` gives by this name."""

    def chosen(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        given = ctx.meta.get(GIVEN, {})
        is_default = ctx.get_parameter_source(param.name or "") is ParameterSource.DEFAULT
        return param.type.convert(given[name], param, ctx) if is_default and name in given else value

    kind = Seconds(least=least)
    return click.option(flag, type=kind, default=default, show_default=True, callback=chosen, help=help)


def _noted(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep the options of the store for `connected`."""
    found: dict[str, Any] = {}
    for one in given:
        name, is_given, value = one.partition("=")
        if not (name and is_given):
            raise click.BadParameter(f"it is written NAME=VALUE, not {one!r}", ctx, param)
        switch = {"true": True, "false": False}.get(value.lower())
        if name in SWITCHES and switch is None:
            raise click.BadParameter(f"{name} is true or false, not {value!r}", ctx, param)
        found[name] = switch if name in SWITCHES else _number(value) if name in NUMBERS else value
    ctx.meta[GIVEN] = found


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Store(_Kind):
    """The URL of a store that several processes can share."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a URL that cannot work before anything is started."""
        try:
            connected(value, require="many_processes").close()
        except click.UsageError as error:
            self.fail(error.message, param, ctx)
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
        """Return the locks that are held or awaited, or were, if the store is known and answers at once.

        Stores list no names of other recipes. A shell may take what it is given for what was typed, and names
        are others' choice: those that would say something to it are left out.
        """
        url = ctx.params.get("store") or os.environ.get(STORE_VARIABLE)
        if not url or (self._recipe or ctx.params.get("recipe") or "lock") != "lock":
            return []
        try:
            with connected(url, session_timeout=2, request_timeout=COMPLETE_WITHIN_S) as client:
                names = client.locks(limit=COMPLETE_FROM, contenders=0)
        except (recipes.RecipesError, click.UsageError):
            return []
        fit = (name for name in sorted(names) if name.startswith(incomplete) and TYPED.fullmatch(name))
        return [CompletionItem(name) for name in fit]


class Token(_Kind):
    """The token of a contender; that of another program's lock on Redis is negative."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse what is no number, and 0."""
        try:
            number = int(value)
        except ValueError:
            number = 0
        if not number:
            self.fail(f"a token is a whole number, as recipes who shows it, not {value!r}", param, ctx)
        return number


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
            AcquireOptions(timeout=number)  # it refuses what is no duration
        except ValueError:
            number = -1.0
        if number < self._least or not (number or self._zero):
            bound = f"of at least {self._least:g}" if self._least or self._zero else "above 0"
            self.fail(f"a number of seconds {bound} and at most a century, not {value!r}", param, ctx)
        return number


def store_option(function: Function) -> Function:
    """Add ``--store``, and what `store_options` adds."""
    option = click.option(
        "--store",
        type=Store(),
        envvar=STORE_VARIABLE,
        required=True,
        show_envvar=True,
        help="The store: sqlite:///path, etcd://host:port/prefix, zookeeper://host:port/root"
        " or redis://host:port/db/prefix.",
    )
    return option(store_options(function))


def store_options(function: Function) -> Function:
    """Add ``--store-option``; `connected` has them."""
    option = click.option(
        "--store-option",
        metavar="NAME=VALUE",
        multiple=True,
        envvar=OPTIONS_VARIABLE,
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=_noted,
        help="An option of connect(), such as replicas=2 or tls_ca=/etc/ca.pem; more than once for several.",
    )
    return option(function)
