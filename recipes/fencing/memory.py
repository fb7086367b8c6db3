"""A gate for what the threads of one process share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from recipes._forks import free, make_anew
from recipes._mutex import new_rlock
from recipes._rules.fence import Proof, Seen, ask

__all__ = ["MemoryGate"]


class _Entrance:
    """One resource: what was seen, and which grants are inside."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.lock = new_rlock()  # it knows whose it is: a signal handler may ask in the middle
        make_anew(self)

    def after_fork(self) -> None:
        """In a forked child: no other thread is inside."""
        self.lock = free(self.lock)


class MemoryGate:
    """A gate for objects in this process, each under a name; one gate serves many."""

    def __init__(self) -> None:
        self._entrances: dict[str, _Entrance] = {}

    @contextmanager
    def admit(self, resource: str, grant: Proof, *, shared: bool = False) -> Generator[None, None, None]:
        """Let a ``with`` block write: nobody else is inside meanwhile, readers neither.

        Keep the block short, and do not await in it.

        Args:
            resource: The name of what is written or read.
            grant: A grant, or a token.
            shared: As a reader, which writes nothing.

        Raises:
            StaleToken: A later holder was there before.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad name or token.
            RuntimeError: This thread is inside already, it or another task of it.
        """
        asking = ask(resource, grant, shared=shared)
        entrance = self._entrances.get(resource) or self._entrances.setdefault(resource, _Entrance())
        if entrance.lock._is_owned():  # noqa: SLF001 - nobody else knows
            raise RuntimeError(f"this thread is inside the gate of {resource!r} already: leave it first")
        with entrance.lock:
            entrance.seen = entrance.seen.after(asking)
            yield
