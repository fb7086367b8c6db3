"""A backend: a kind of store at a place. Knows how to make connections; does no I/O itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recipes._contract.connection import AsyncLink, Link, OnEnd
    from recipes._contract.protocol import StoreProtocol
    from recipes.guarantees import Guarantees


__all__ = ["Engine"]


class Engine(ABC):
    """What ``connect`` makes of a URL.

    Attributes:
        label: Where the store is, for events and errors; never a secret.
        guarantees: What the store promises.
        servers: How many servers a link tries one after the other, a failed session each: so
            many failures say that the store cannot be reached.
        blocking_driver: Makes what a client's calls run on; None: the driver on the machine's
            clock. Only a test kit, which moves time itself, brings its own.
        asyncio_driver: The same for asyncio.
    """

    label: str
    guarantees: Guarantees
    servers: int = 1
    blocking_driver: Callable[[Engine, Any], Any] | None = None
    asyncio_driver: Callable[[Engine, Any], Any] | None = None

    @abstractmethod
    def link(self, on_end: OnEnd) -> Link:
        """Return a new blocking link, not connected yet."""

    @abstractmethod
    def async_link(self, on_end: OnEnd) -> AsyncLink:
        """Return a new asyncio link, not connected yet."""

    @abstractmethod
    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session."""
