"""Asking etcd as a known user: when it does not know the token any more, log in and ask again.

A request that is refused for its token was not carried out, so it can be sent again. Each is
sent again once at most: what is refused right after a login is refused for good.
"""

from __future__ import annotations

from typing import Any

from recipes._contract.connection import Batch, Request
from recipes._contract.protocol import Steps
from recipes.errors import StoreDenied
from recipes.stores.etcd.requests import EtcdError, LogIn, Watch

__all__ = ["DENIED", "UNKNOWN", "Asking"]

INVALID, DENIED, NOT_ENABLED, UNKNOWN = 3, 7, 9, 16


class Asking:
    """The requests of one session, under one name if it has one.

    Args:
        label: Where the store is, for errors.
        named: Whether there is a user to log in as.
    """

    def __init__(self, label: str, *, named: bool) -> None:
        self._label = label
        self.named = named
        self._login = 0  # the number of the last login that this session knows of

    def log_in(self) -> Steps[None]:
        """Log in, unless that is not needed; where the store has no users, go on without."""
        if not self.named:
            return
        try:
            self._login = yield from LogIn(self._login)
        except EtcdError as error:
            if error.code == NOT_ENABLED:  # as etcd's own client does: users may be introduced later
                return
            said = "the user or the password is wrong" if error.code == INVALID else error.message
            raise StoreDenied(self._label, f"login failed: {said}") from None

    def ask(self, request: Request[Any]) -> Steps[Any]:
        """Ask, and once again if only the token was refused."""
        before = self._login
        try:
            reply = yield from request
        except EtcdError as error:
            if not self._outdated(request, error):
                raise
        else:
            if not isinstance(request, Batch) or not self._any_outdated(request, reply):
                return reply
        if self._login == before:  # else another call of this session has done so meanwhile
            yield from self.log_in()
        return (yield from request)

    def _any_outdated(self, batch: Batch, replies: tuple[Any, ...]) -> bool:
        pairs = zip(batch.parts, replies, strict=True)
        return any(isinstance(reply, EtcdError) and self._outdated(part, reply) for part, reply in pairs)

    def _outdated(self, request: Request[Any], error: EtcdError) -> bool:
        """Whether another token may help; up to 3.5 a watch with an old one is "permission denied"."""
        return self.named and (error.code == UNKNOWN or (error.code == DENIED and isinstance(request, Watch)))
