"""What the operations of a history are about: a lock, a read-write lock, a register, a value, a counter.

Tokens are part of the locks: they grow from grant to grant, for else the resource behind the
lock would refuse somebody who holds it. So are versions of values: the store gives them, they rise, and a
write does not say which it gave.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from tests.histories.linear import Operation

__all__ = ["Counter", "Guarded", "Lock", "ReadWriteLock", "Register", "Value"]


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value as it is.

    Attributes:
        data: What; None: there is none.
        version: Its version; 0: there is none; None: no operation has said it since it was written.
        newest: It is larger than this, if it is not known.
        refused: And none of these, if it is not known.
        token: The newest grant under which the value may be written.
    """

    data: Hashable = None
    version: int | None = 0
    newest: int = 0
    refused: frozenset[int] = frozenset()
    token: int = -1

    def has(self, version: int) -> bool:
        """Whether its version may be this one."""
        if self.version is None:
            return version > self.newest and version not in self.refused
        return self.version == version

    def lacks(self, version: int) -> _Stored | None:
        """Return it, with a version that is another; None if it is this one."""
        if self.version is None and version > self.newest:
            return replace(self, refused=self.refused | {version})
        return None if self.version == version else self

    def becomes(self, data: Hashable, least: int = 0) -> _Stored:
        """Return it written, or deleted (None), over a version that is at least this one."""
        newest = max(self.newest, self.version or 0, least)
        return _Stored(data, 0 if data is None else None, newest, token=self.token)


class Value:
    """Operations of a value.

    ``get`` of data and version as a pair, or of None; ``set`` of data; ``set_if`` of data, the version
    that was asked for, and whether it was done; ``delete`` of the version (None: any), and whether it was
    done. What may have been done, or not, says that it was: it may still never happen.
    """

    start: Hashable = _Stored()

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the value afterwards; None if this cannot happen now."""
        assert isinstance(state, _Stored)
        after: _Stored | None
        match operation.what, operation.value:
            case "get", None:
                after = state if state.data is None else None
            case "get", (data, int(version)) if state.data is not None and state.data == data:
                seen = _Stored(data, version, version, token=state.token)
                after = seen if state.has(version) else None
            case "set", data:
                after = state.becomes(data)
            case "set_if", (data, int(version), True) if state.has(version):
                after = state.becomes(data, version)
            case "set_if", (_, int(version), False):
                after = state.lacks(version)
            case "delete", (asked, done):
                after = self._delete(state, asked, done=done)
            case _:
                after = None
        return after

    @staticmethod
    def _delete(state: _Stored, version: int | None, *, done: bool) -> _Stored | None:
        if state.data is None:
            return None if done else state
        if version is None:
            return state.becomes(None) if done else None
        if done:
            return state.becomes(None, version) if state.has(version) else None
        return state.lacks(version)


class Guarded(Value):
    """The same of a value that is written under grants only, and ``grant`` of a token.

    ``set`` is of data and the token of the grant under which it is done.
    """

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the value afterwards; None if this cannot happen now."""
        assert isinstance(state, _Stored)
        match operation.what, operation.value:
            case "grant", int(token):
                return replace(state, token=token) if token > state.token else None
            case "set", (data, int(token)):
                return state.becomes(data) if token == state.token else None
        return super().step(state, operation) if operation.what == "get" else None


class Counter:
    """Operations of a counter.

    ``add`` of how many, and what that came to; ``get`` of a number; ``set_if`` of the new number, the one
    that was expected, and whether it was done. An add that may have been done, or not, came to None.

    Args:
        start: The number at the beginning.
    """

    def __init__(self, start: int = 0) -> None:
        self.start: Hashable = start

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the number afterwards; None if this cannot happen now."""
        assert isinstance(state, int)
        match operation.what, operation.value:
            case "add", (int(count), result):
                return state + count if result in (None, state + count) else None
            case "get", number:
                return state if number == state else None
            case "set_if", (int(new), expected, bool(done)):
                if done != (state == expected):
                    return None
                return new if done else state
        return None
