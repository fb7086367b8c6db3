"""Which functions can be decorated, and what is said of others."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

from recipes._callback import is_coroutine_function, named

__all__ = ["check_coroutine_function", "check_plain_function"]


def check_plain_function(decorator: object, function: Any) -> None:
    """Check what a decorator of the blocking API is given.

    Raises:
        TypeError: It is no function, or one whose call returns before its body has run.
    """
    _check(decorator, function)
    if is_coroutine_function(function):
        raise TypeError(
            f"{decorator!r} cannot decorate {named(function)}, a coroutine function: it would block the "
            "event loop while it waits; use a client of recipes.connect_async()"
        )


def check_coroutine_function(decorator: object, function: Any) -> None:
    """Check what a decorator of the asyncio API is given.

    Raises:
        TypeError: It is no coroutine function.
    """
    _check(decorator, function)
    if not is_coroutine_function(function):
        raise TypeError(
            f"{decorator!r} cannot decorate {named(function)}, which is no coroutine function; write "
            "'async def', or use a client of recipes.connect()"
        )


def _check(decorator: object, function: Any) -> None:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{decorator!r} decorates a function, not {function!r}")
    what = _runs_later(function)
    if what:
        raise TypeError(
            f"{decorator!r} cannot decorate {named(function)}, {what}: it would be released before the "
            "body runs; acquire it inside, with a with statement"
        )


def _runs_later(function: Any) -> str:
    """Return what a function is whose call returns before its body runs; empty: nothing of that kind."""
    if getattr(function, "__code__", None) in _MANAGERS:
        return "a context manager"
    called = getattr(type(function), "__call__", None)  # noqa: B004 - of an object that is called as a function
    if any(map(_is_generator, (function, called))):
        return "a generator"
    return ""


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _nothing() -> Any:
    """Be made a context manager, by each of the two that make them of generators."""


_MANAGERS = tuple(
    made(_nothing).__code__  # of all that it makes
    for made in (contextlib.contextmanager, contextlib.asynccontextmanager)
)
