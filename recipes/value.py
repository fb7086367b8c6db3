"""The value: some bytes that all clients share, each write of which is done once."""

from __future__ import annotations

from typing import ClassVar

from recipes._api.observing import AsyncObserving, Observing
from recipes._api.shared import (
    AsyncShared,
    BlockingShared,
    Shared,
    Versioned,
    checked,
    checked_version,
    versioned,
)
from recipes._api.signatures import like
from recipes._contract.operations import Program, Stored
from recipes._programs.values import Change, read, update, write

__all__ = ["AsyncValue", "Value", "Versioned"]


class _BaseValue(Shared):
    """What a value is in both runtimes."""

    _recipe: ClassVar[str] = "value"

    def _get(self) -> Program[Versioned | None]:
        return versioned((yield from read(self._key)))

    def _set(self, data: bytes) -> Program[None]:
        yield from write(self._writing("written"), checked(data))

    def _set_if(self, data: bytes, version: int) -> Program[bool]:
        return (yield from write(self._writing("written"), checked(data), checked_version(version))).done

    def _delete(self, version: int | None) -> Program[bool]:
        wanted = None if version is None else checked_version(version)

        def step(stored: Stored) -> Change | None:
            unwanted = stored.data is not None and wanted in (None, stored.version)
            return Change(None) if unwanted else None

        return (yield from update(self._writing("deleted"), step)) is not None


class Value(_BaseValue, BlockingShared):
    """Some bytes that all clients share; every write is done once, whatever is lost on the way.

    It stays when its clients have gone. Cheap to make, which does no I/O, and safe to share. Each call waits
    at most the request timeout. A lock of its name is another thing.

    Args:
        name: The value's name.

    Raises:
        ValueError: The name does not fit.
        TooWeak: The store keeps no values.
    """

    def get(self) -> Versioned | None:
        """Return what was written last, and its version; None if there is none.

        It is read linearizably, if the store is.

        Raises:
            StoreUnavailable: The store gave no answer.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
        """
        return self._run(self._get())

    def set(self, data: bytes) -> None:
        """Write this, whatever is there.

        Args:
            data: At most 1 000 000 bytes.

        Raises:
            OutcomeUnknown: It cannot be known whether it was written; it is not written twice.
            StoreUnavailable: The store could not be asked; nothing was written, nor will be.
            StoreRefused: The store said no.
            StoreFull: It has no room.
            LockLost: What guards it (`Grant.guarding`) is not held any more; nothing was written.
            ClientClosed: The client was closed.
            ValueError: It is too long; nothing was sent.
        """
        self._run(self._set(data))

    def set_if(self, data: bytes, version: int) -> bool:
        """Write this if the value still has a version; return whether it was written.

        Args:
            data: At most 1 000 000 bytes.
            version: As `get` returned it; 0: if there is none.

        Raises:
            RecipesError: As for `set`.
        """
        return self._run(self._set_if(data, version))

    def delete(self, version: int | None = None) -> bool:
        """Delete it; return whether it was there. Versions go on rising when it is written again.

        Args:
            version: Only if it still has this version; None: whatever it has.

        Raises:
            RecipesError: As for `set`.
        """
        return self._run(self._delete(version))

    def changes(self) -> Observing[Versioned | None]:
        """Return what yields the value now (None: there is none), and then after every change.

        It skips what came and went while nobody asked, never misses the last, and outlasts outages and
        lost sessions. However many watch a value by one client, that is one watch on the store: one that
        begins later shows first what that has seen last, which may be a moment old.
        """
        return Observing(self._runtime, self._observed, versioned)


class AsyncValue(_BaseValue, AsyncShared):
    """Some bytes that all clients share, for asyncio, as `Value` is for threads.

    Args:
        name: The value's name.

    Raises:
        ValueError: The name does not fit.
        TooWeak: The store keeps no values.
    """

    @like(Value.get)
    async def get(self) -> Versioned | None:
        return await self._run(self._get())

    @like(Value.set)
    async def set(self, data: bytes) -> None:
        await self._run(self._set(data))

    @like(Value.set_if)
    async def set_if(self, data: bytes, version: int) -> bool:
        return await self._run(self._set_if(data, version))

    @like(Value.delete)
    async def delete(self, version: int | None = None) -> bool:
        return await self._run(self._delete(version))

    @like(Value.changes)
    def changes(self) -> AsyncObserving[Versioned | None]:
        return AsyncObserving(self._runtime, self._observed, versioned)
