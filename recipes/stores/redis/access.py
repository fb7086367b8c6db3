"""How connections to Redis log in and encrypt: from options of ours, or as the user's own client does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redis.asyncio import SSLConnection

from recipes.stores.secret import Secret

if TYPE_CHECKING:
    import ssl

    from recipes.stores.credentials import Credentials

__all__ = ["Access"]

_TAKEN = ("username", "password", "credential_provider")


@dataclass(frozen=True, eq=False)
class Access:
    """What each connection is made with, besides the address of its server.

    Attributes:
        db: The number of the database.
        context: Encrypt with this.
        credentials: Log in as this user.
        options: What redis-py takes, of the user's own client.
    """

    db: int = 0
    context: ssl.SSLContext | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def encryption(self) -> ssl.SSLContext | None:
        """What to encrypt with, for all connections; None: nothing."""
        if self.context is not None or not self.options.get("ssl"):
            return self.context
        said = {name: value for name, value in self.options.items() if name.startswith("ssl_")}
        return SSLConnection(**said).ssl_context.get()

    @classmethod
    def of_client(cls, given: Mapping[str, Any], *, encrypted: bool) -> Access:
        """Return what the connections of a client are made with; its timeouts and retries are not taken."""
        found = {
            name: Secret(value) if name == "password" and isinstance(value, str) else value
            for name, value in given.items()
            if value is not None and (name in _TAKEN or (encrypted and name.startswith("ssl_")))
        }
        return cls(int(given.get("db") or 0), options={**found, "ssl": True} if encrypted else found)
