"""How connections to Redis log in and encrypt: from options of ours, or as the user's own client does."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redis.asyncio import SSLConnection
from redis.credentials import CredentialProvider

from recipes.errors import StoreDenied
from recipes.stores.credentials import Asker
from recipes.stores.secret import Secret

if TYPE_CHECKING:
    import ssl

    from recipes.stores.credentials import Credentials

__all__ = ["Access", "Answer"]

_TAKEN = ("username", "password", "credential_provider")
_OF_TLS = inspect.signature(SSLConnection).parameters
"""Which options there are for TLS: OCSP, which clients for threads have too, is not among them."""


class Answer(CredentialProvider):
    """What the provider of a user's own client has answered, for one connection."""

    def __init__(self, said: tuple[Any, ...]) -> None:
        self._said = said

    def get_credentials(self) -> Any:
        """Return it."""
        return self._said

    async def get_credentials_async(self) -> Any:
        """Return it."""
        return self._said


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

    @cached_property
    def asker(self) -> Asker[Answer] | None:
        """Asks the provider of the user's own client, which may block; None: there is none."""
        provider = self.options.get("credential_provider")
        if provider is None:
            return None

        def find(store: str) -> Answer:
            try:
                given = provider.get_credentials()
                return Answer(tuple(Secret(one) if isinstance(one, str) else one for one in given))
            except BaseException as error:  # as where a password is asked for
                what = (
                    f"credential_provider raised {type(error).__name__}, so nothing is there to log in with"
                )
                raise StoreDenied(store, what) from error

        return Asker(find, what="credential_provider")

    @property
    def awaits(self) -> bool:
        """Whether that provider is to be awaited, by asyncio: it does so in a way of its own."""
        own, plain = type(self.options.get("credential_provider")), CredentialProvider
        method = "get_credentials_async"  # redis-py 5.0 has none
        return getattr(own, method, None) is not getattr(plain, method, None)

    @classmethod
    def of_client(cls, given: Mapping[str, Any], *, encrypted: bool) -> Access:
        """Return what the connections of a client are made with; its timeouts and retries are not taken.

        Raises:
            ValueError: It has TLS do what these connections do not.
        """
        found = {
            name: Secret(value) if name == "password" and isinstance(value, str) else value
            for name, value in given.items()
            if (value is not None or name == "ssl_cert_reqs")  # of which None is as good as "none"
            and (name in _TAKEN or (encrypted and name in _OF_TLS))
        }
        asked = [name for name, value in given.items() if value and name.startswith("ssl_")]
        unknown = [name for name in asked if encrypted and name not in _OF_TLS]
        if unknown:
            raise ValueError(
                f"this client has {' and '.join(unknown)}, which the connections of a lock do not do; give a"
                " client without, or connect by a URL with tls_ca="
            )
        return cls(int(given.get("db") or 0), options={**found, "ssl": True} if encrypted else found)
