"""The token that one connection's requests carry, and how to get the next one; itself it sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recipes.errors import StoreRefused
from recipes.stores.credentials import Credentials
from recipes.stores.etcd.requests import Post
from recipes.stores.etcd.wires import LOGIN
from recipes.stores.secret import Secret

__all__ = ["Login"]


class Login:
    """What a connection knows of who it is to etcd; shows neither the password nor the token.

    A token is valid on every member, but each forgets it by a clock of its own, and all do at a
    restart or when the password changes; so it is renewed when a member does not know it, and not
    before.

    Attributes:
        number: How many logins were answered.
    """

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._asker = None if credentials is None else credentials.asker
        self._token: Secret | None = None
        self.number = 0

    def token(self) -> str | None:
        """Return the token for the next request, None if there is none."""
        return self._token

    def request(self, store: str, within_s: float) -> Post:
        """Return the request that logs in; asks for the password, for so long at most.

        Raises:
            StoreDenied: There is no password to be had.
            StoreUnavailable: None was given in time.
        """
        assert self._asker is not None, "a login needs a user name"
        return self._post(self._asker.within(store, within_s))

    def ask(self, store: str, done: Callable[[Post | Exception], None]) -> Callable[[], None]:
        """Tell ``done`` the request, from a daemon thread if the password has to be asked for.

        Returns:
            What to call when nobody waits for that any more.
        """
        assert self._asker is not None, "a login needs a user name"
        return self._asker.ask(
            store, lambda found: done(found if isinstance(found, Exception) else self._post(found))
        )

    def _post(self, password: Secret) -> Post:
        assert self._credentials is not None, "a login needs a user name"
        # Its shape is as of any other call, and what it holds does not show.
        return Post(LOGIN, {"name": Secret(self._credentials.username), "password": password}, urgent=True)

    def took(self, reply: Mapping[str, Any], store: str) -> int:
        """Take the token out of a reply; returns the number of this login."""
        token = reply.get("token")
        if not isinstance(token, str) or not token:
            raise StoreRefused(store, "the answer to the login has no token; is this an etcd?")
        self._token = Secret(token)
        self.number += 1
        return self.number
