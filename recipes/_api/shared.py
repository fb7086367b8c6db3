"""Shared things: what values, counters and latches share in both runtimes."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from recipes._contract.names import queue_of
from recipes._programs.observing import Observed
from recipes._programs.values import Writing
from recipes.guarantees import require

if TYPE_CHECKING:
    from recipes._contract.operations import Program, Stored
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime

__all__ = [
    "MOST_BYTES",
    "AsyncShared",
    "BlockingShared",
    "Shared",
    "Versioned",
    "checked",
    "checked_version",
    "versioned",
    "whole",
]

T = TypeVar("T")
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value as it was read.

    Attributes:
        data: What was written last.
        version: Of that write: it rises with each, also when the value is deleted and written again. How
            far it rises says nothing.
    """

    data: bytes
    version: int


def versioned(stored: Stored) -> Versioned | None:
    """Return what users see of a value; None: there is none."""
    return None if stored.data is None else Versioned(stored.data, stored.version)


def checked(data: bytes) -> bytes:
    """Return the data of a value, if it fits.

    Raises:
        TypeError: It is no ``bytes``.
        ValueError: It is too long.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"a value is bytes, not {type(data).__name__}: encode text, as by .encode()")
    if len(data) > MOST_BYTES:
        raise ValueError(f"the value has {len(data)} bytes, and {MOST_BYTES} at most are allowed")
    return data


def whole(what: str, number: int) -> int:
    """Return a number that a user gave, if it is a whole one.

    Raises:
        TypeError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{what} is a whole number, not {type(number).__name__}")
    return number


def checked_version(version: int) -> int:
    """Return a version, if it can be one.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is negative.
    """
    if whole("a version", version) < 0:
        raise ValueError(f"version={version}: 0 stands for no value, and each that there is has a larger one")
    return version


class Shared(ABC):
    """What all clients share under one name, in both runtimes: everything that waits for nothing."""

    _recipe: ClassVar[str]
    _runtime: Any
    _grants: tuple[Any, ...] = ()
    _guards: tuple[Any, ...] = ()

    def __init__(self, runtime: Any, name: str) -> None:
        require("values", runtime.backend.guarantees, runtime.backend.label)
        self._runtime = runtime
        self._name = name
        self._key = queue_of(self._recipe, name)

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self._name

    def _guarded_by(self, grant: Any) -> Self:
        """Return this, with writes that are done only if the grant stands; see `Grant.guarding`."""
        if grant._runtime is not self._runtime:  # noqa: SLF001 - one package
            raise ValueError("a grant guards what its own client writes: make both with the same client")
        guarded = copy.copy(self)
        for part in grant._hold.parts:  # noqa: SLF001 - one package
            part.guard()  # whether it is held is asked before each write
        parts = tuple((part, part.mode) for part in grant._hold.parts)  # noqa: SLF001 - one package
        guarded._grants = (*self._grants, grant)  # noqa: SLF001 - one of its own
        guarded._guards = (*self._guards, *parts)  # noqa: SLF001 - as above
        return guarded

    def _writing(self, what: str) -> Writing:
        labels = {"name": self._name, "recipe": self._recipe, "store": self._runtime.backend.label}
        return Writing(self._key, next(self._runtime.numbers), what, labels, self._guards, self._lost_error)

    def _lost_error(self) -> Exception:
        """Return what is raised if not all that guards this is held any more."""
        lost = (grant for grant in self._grants if not grant.held)
        error: Exception = next(lost, self._grants[-1])._lost_error()  # noqa: SLF001 - one package
        return error

    @property
    def _observed(self) -> Observed:
        return Observed(self._key, 1, reads=True)

    def _asking(self) -> Call:
        """Return a call that asks for as long as a request may take, on the session of what guards it."""
        call: Call = self._runtime.call(None, self._runtime.settings.request_timeout_s)
        if self._guards:
            call.session = self._guards[0][0].session
        return call

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} on {self._runtime.backend.label}>"


class BlockingShared(Shared):
    """What all clients share, in the blocking API."""

    _runtime: BlockingRuntime

    def _run(self, program: Program[T]) -> T:
        return self._runtime.run(program, self._asking())

    def _observe(self, timeout_s: float | None, program: Callable[[Any], Program[T]]) -> T:
        """Run what an observer of this takes part in."""
        call = self._runtime.call(None, timeout_s)
        observer = self._runtime.hub.join(self._observed, call.mailbox)
        try:
            return self._runtime.run(program(observer), call)
        finally:
            self._runtime.hub.leave(self._observed, observer)


class AsyncShared(Shared):
    """What all clients share, in the asyncio API."""

    _runtime: AsyncRuntime

    async def _run(self, program: Program[T]) -> T:
        return await self._runtime.run(program, self._asking())

    async def _observe(self, timeout_s: float | None, program: Callable[[Any], Program[T]]) -> T:
        """As there."""
        call = self._runtime.call(None, timeout_s)
        observer = self._runtime.hub.join(self._observed, call.mailbox)
        try:
            return await self._runtime.run(program(observer), call)
        finally:
            self._runtime.hub.leave(self._observed, observer)
