"""A backend: a kind of store at a place. Knows how to make connections; does no I/O itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes._contract.protocol import StoreProtocol
    from recipes.guarantees import Guarantees


__all__ = ["Backend"]


class Backend(ABC):
    """What ``connect`` makes of a URL.

    Attributes:
        label: Where the store is, for events and errors; never a secret.
        guarantees: What the store promises.
        servers: How many servers a connection tries one after the other, a failed session each: so
            many failures say that the store cannot be reached.
        blocking_driver: Makes what a client's calls run on; None: the driver on the machine's
            clock. Only a test kit, which moves time itself, brings its own.
        asyncio_driver: The same for asyncio.
    """

    label: str
    guarantees: Guarantees
    servers: int = 1
    blocking_driver: Callable[[Backend, Any], Any] | None = None
    asyncio_driver: Callable[[Backend, Any], Any] | None = None

    def check_session(self, session_timeout_s: float) -> None:  # noqa: B027 - most stores take any
        """Refuse a session timeout that does not fit the options.

        Raises:
            ValueError: It does not.
        """

    def check_api(self, *, asynchronous: bool) -> None:  # noqa: B027 - most stores have both
        """Refuse a driver that is for the other API, or is not installed.

        Raises:
            ValueError: It is for the other one.
            ImportError: It is not installed.
        """

    def check_name(self, queue: str) -> None:  # noqa: B027 - most stores take any
        """Refuse a name for which there is no room; ``queue`` is what it becomes, as `queue_of` has it.

        Raises:
            ValueError: It is too long.
        """

    @abstractmethod
    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection, not connected yet."""

    @abstractmethod
    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection, not connected yet."""

    @abstractmethod
    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session."""
