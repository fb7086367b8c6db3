"""Which functions can be called back later, and what is said of others."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["check_arguments", "check_callback", "is_coroutine_function", "named"]


def check_callback(what: str, function: Any, *given: str) -> None:
    """Check what is to be called back.

    Args:
        what: What it is, in words.
        function: It.
        given: What it will be given, a word for each argument.

    Raises:
        TypeError: It cannot be called so, or is a coroutine function, which nobody would await.
    """
    if not callable(function):
        raise TypeError(f"{what} is a function, which is called later, not {function!r}")
    if is_coroutine_function(function):
        raise TypeError(
            f"{what} is a plain function, and {named(function)} is a coroutine function, which nobody would "
            "await; have a plain one start a task"
        )
    check_arguments(what, function, *given)


def check_arguments(what: str, function: Any, *given: str) -> None:
    """Check that a function takes what it will be given, as far as it says what it takes.

    Raises:
        TypeError: It does not.
    """
    try:
        takes = inspect.signature(function, follow_wrapped=False)  # what wraps may add arguments
    except Exception:  # some are written in C, and annotations may name what is not imported
        return
    try:
        takes.bind(*given)
    except TypeError as error:
        called = f"{what} is called with {' and '.join(given)}"
        raise TypeError(f"{called}, and {named(function)}{takes} does not take that: {error}") from None


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it makes a coroutine, as far as it can be seen."""
    if isinstance(function, staticmethod):
        function = function.__func__
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called as a function
    try:
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
    except TypeError:  # a double of a function, without its flags
        return False


def named(function: Any) -> str:
    """Return what messages call it."""
    return str(getattr(function, "__qualname__", repr(function)))
