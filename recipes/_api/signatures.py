"""One signature and one docstring for the blocking and the asyncio form of a thing.

They are what `inspect` and the reference show, and, since parameters and docstring pass through a
``ParamSpec``, what type checkers check and editors show.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

__all__ = ["Recipe", "documented_as", "like", "like_function"]

P = ParamSpec("P")
Noun = TypeVar("Noun")
Owner = TypeVar("Owner")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., object])


class Recipe(Generic[P, Noun]):
    """A recipe of a client: ``lock = Recipe(Lock)`` is the method that makes a `Lock`.

    It takes what the class takes, without the runtime, and is documented as the class is.
    """

    def __init__(self, noun: Callable[Concatenate[Any, P], Noun]) -> None:
        self._noun = noun

    if TYPE_CHECKING:

        def __get__(self, client: object, kind: type | None = None) -> Callable[P, Noun]: ...

    def __set_name__(self, client: type, name: str) -> None:
        """Put a method in its own entry."""
        noun: Any = self._noun
        itself, _, *parameters = inspect.signature(noun.__init__).parameters.values()
        taken = inspect.Signature(parameters)

        def make(self: Any, *args: Any, **options: Any) -> Any:
            try:
                return noun(self._runtime, *args, **options)
            except TypeError:
                _check(taken, name, *args, **options)
                raise

        make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [itself, *parameters], return_annotation=noun
        )
        make.__annotations__ = {"return": noun}
        make.__doc__ = noun.__doc__
        make.__name__, make.__qualname__ = name, f"{client.__qualname__}.{name}"
        make.__module__ = client.__module__
        setattr(client, name, make)


def _check(taken: inspect.Signature, name: str, /, *args: Any, **options: Any) -> None:
    """Raise if the arguments are not those that a recipe takes, in words of the caller's call."""
    try:
        taken.bind(*args, **options)
    except TypeError as error:
        raise TypeError(f"client.{name}(): {error}; it takes {taken}") from None


def like(
    one: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[Concatenate[Owner, P], Result]], Callable[Concatenate[Owner, P], Result]]:
    """Document a method as that of another class, which takes the same; what it returns is its own."""
    return lambda other: _documented(one, other)


def documented_as(one: Callable[..., object]) -> Callable[[Method], Method]:
    """Document a method as that of another class, though it takes something else."""
    return lambda other: _documented(one, other)


def like_function(one: Callable[P, object]) -> Callable[[Callable[..., Result]], Callable[P, Result]]:
    """Give a function the parameters and the docstring of another; what it returns is its own."""

    def alike(other: Any) -> Any:
        returned = inspect.signature(other).return_annotation
        other.__signature__ = inspect.signature(one).replace(return_annotation=returned)
        return _documented(one, other)

    return alike


def _documented(one: Any, other: Any) -> Any:
    other.__doc__ = one.__doc__
    return other
