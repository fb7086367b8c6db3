"""What the operations of a history are about: a lock, a read-write lock, a register.

Tokens are part of the locks: they grow from grant to grant, for else the resource behind the
lock would refuse somebody who holds it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from tests.histories.linear import Operation

__all__ = ["Lock", "ReadWriteLock", "Register"]


@dataclass(frozen=True, slots=True)
class _Standing:
    """Who holds, and the newest tokens that were granted."""

    writer: int | None = None
    readers: frozenset[int] = frozenset()
    newest: int = -1
    newest_writer: int = -1


class ReadWriteLock:
    """Operations ``write``, ``read``, ``downgrade`` and ``release``, each of a token."""

    start: Hashable = _Standing()

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return who holds afterwards; None if this cannot happen now."""
        assert isinstance(state, _Standing)
        token = operation.value
        assert isinstance(token, int)
        match operation.what:
            case "write" if state.writer is None and not state.readers and token > state.newest:
                return replace(state, writer=token, newest=token, newest_writer=token)
            case "read" if (
                state.writer is None and token > state.newest_writer and token not in state.readers
            ):
                return replace(state, readers=state.readers | {token}, newest=max(token, state.newest))
            case "downgrade" if state.writer == token:
                return replace(state, writer=None, readers=state.readers | {token})
            case "release" if state.writer == token:
                return replace(state, writer=None)
            case "release" if token in state.readers:
                return replace(state, readers=state.readers - {token})
        return None


class Lock(ReadWriteLock):
    """Operations ``acquire`` and ``release``, each of a token."""

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return who holds afterwards; None if this cannot happen now."""
        if operation.what == "acquire":
            return super().step(state, replace(operation, what="write"))
        return super().step(state, operation) if operation.what == "release" else None


class Register:
    """Operations ``read`` of a value, ``write`` of one, and ``update`` of one to another, as a pair.

    Args:
        start: The value at the beginning.
    """

    def __init__(self, start: Hashable = 0) -> None:
        self.start = start

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the value afterwards; None if this cannot happen now."""
        match operation.what, operation.value:
            case "read", value:
                return state if value == state else None
            case "write", value:
                return value
            case "update", (old, new):
                return new if old == state else None
        return None
