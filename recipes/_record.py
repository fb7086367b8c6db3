"""Values that nobody changes: frozen to the type checker, quick to make, and quick to import."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["record"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a dataclass with slots, equality and a hash of its fields.

    That a field is not assigned to is left to the type checker: the guard of a frozen dataclass
    triples what it takes to make one, and an acquire makes twenty. `dataclasses` compiles a text
    for each method of each class, a quarter of what it took to import this package: here, for
    ``__init__`` alone.
    """
    made = dataclass(slots=True, repr=False, eq=False)(cls)
    shown = tuple(one.name for one in fields(made) if one.repr)  # type: ignore[arg-type]
    compared = [one.name for one in fields(made) if one.compare]  # type: ignore[arg-type]
    key: Any = attrgetter(*compared) if compared else _nothing

    def shown_as(self: T) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({said})"

    def equals(self: T, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: T) -> int:
        return hash(key(self))

    for name, method in (("__repr__", shown_as), ("__eq__", equals), ("__hash__", hashed)):
        setattr(made, name, method)
    return made


def _nothing(_of: object) -> tuple[()]:
    return ()
