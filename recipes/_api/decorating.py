"""Which functions are taken: to be decorated, or to be called back; and what is said of others."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["check_callback", "check_coroutine_function", "check_plain_function"]


def check_callback(what: str, function: Any) -> None:
    """Check what is to be called back.

    Raises:
        TypeError: It cannot be called, or is a coroutine function, which nobody would await.
    """
    if not callable(function):
        raise TypeError(f"{what} is a function, which is called later, not {function!r}")
    if _is_coroutine_function(function):
        raise TypeError(
            f"{what} is a plain function, and {_named(function)} is a coroutine function, which nobody would "
            "await; have a plain one start a task"
        )


def check_plain_function(decorator: object, function: Any) -> None:
    """Check what a decorator of the blocking API is given.

    Raises:
        TypeError: It is no function, or one whose call returns before its body has run.
    """
    _check(decorator, function)
    if _is_coroutine_function(function):
        raise TypeError(
            f"{decorator!r} cannot decorate {_named(function)}, a coroutine function: it would block the "
            "event loop while it waits; use a client of recipes.connect_async()"
        )


def check_coroutine_function(decorator: object, function: Any) -> None:
    """Check what a decorator of the asyncio API is given.

    Raises:
        TypeError: It is no coroutine function.
    """
    _check(decorator, function)
    if not _is_coroutine_function(function):
        raise TypeError(
            f"{decorator!r} cannot decorate {_named(function)}, which is no coroutine function; write "
            "'async def', or use a client of recipes.connect()"
        )


def _check(decorator: object, function: Any) -> None:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{decorator!r} decorates a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{decorator!r} cannot decorate {_named(function)}, a generator: it would be released before the "
            "body runs; acquire it inside, with a with statement"
        )


def _is_coroutine_function(function: Any) -> bool:
    if isinstance(function, staticmethod):
        function = function.__func__
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called as a function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", repr(function)))
