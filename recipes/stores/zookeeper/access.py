"""How a client enters ZooKeeper: TLS, who it is, and the ACL of all that it makes."""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL

from recipes.stores import tls
from recipes.stores.credentials import Credentials
from recipes.stores.secret import Sealed, Secret

__all__ = ["OPEN", "Access"]

MECHANISM = "DIGEST-MD5"


@dataclass(frozen=True, slots=True)
class Access:
    """What options say of it.

    Attributes:
        context: Speak TLS with it.
        who: User and password; by the scheme ``digest``, or by SASL.
        sasl: Whether by SASL.
        acl: For every node, contenders and parents; None for ZooKeeper's default, which is open.
    """

    context: ssl.SSLContext | None = None
    who: Credentials | None = field(default=None, repr=False)
    sasl: bool = False
    acl: tuple[Any, ...] | None = None

    @classmethod
    def given(cls, scheme: str, options: Mapping[str, Any]) -> Access:
        """Return what options say.

        Raises:
            ValueError: They do not fit each other, the scheme, or what is installed.
            TypeError: A value of the wrong type.
        """
        context = tls.context_for(scheme, options)
        who = Credentials.given(scheme, options)
        if who is not None and ":" in who.username:
            raise ValueError("username= holds no colon on ZooKeeper")
        sasl, acl = options.get("sasl"), options.get("acl")
        if sasl is not None:
            _check_sasl(sasl, who)
        if acl is None and who is not None:
            acl = CREATOR_ALL_ACL
        return cls(context, who, sasl is not None, None if acl is None else _checked_acl(acl))

    def kazoo_options(self) -> dict[str, Any]:
        """Return the part that kazoo is given when the client is made."""
        told: dict[str, Any] = {} if self.acl is None else {"default_acl": self.acl}
        return told if self.context is None else {**told, "use_ssl": True}

    def introduce(self, client: Any, ask: Callable[[], Secret]) -> None:
        """Tell kazoo who the client is, before it connects; may ask for the password.

        By ``digest`` the password is a part of who that is, and stays the same for a session. By SASL
        it is asked for at each connection.
        """
        if self.who is None or client.auth_data:
            return
        name, password = self.who.username, ask()
        if self.sasl:
            options = {"mechanism": MECHANISM, "username": _as_hashed(name), "password": _as_hashed(password)}
            client._connection.sasl_options = options  # noqa: SLF001 - kazoo asks for it too early
        else:
            client.auth_data = {("digest", Secret(f"{name}:{password}"))}


OPEN = Access()
"""Without TLS and credentials."""


def _as_hashed(text: str) -> Sealed:
    """Return text as DIGEST-MD5 hashes it: in ISO 8859-1 where that can be (RFC 2831); pure-sasl does not."""
    try:
        return Sealed(text.encode("latin-1"))
    except UnicodeEncodeError:
        return Sealed(text.encode())


def _check_sasl(sasl: Any, who: Credentials | None) -> None:
    if sasl != MECHANISM:
        raise ValueError(f"sasl={sasl!r}: use {MECHANISM!r}")
    if who is None:
        raise ValueError("sasl= needs username= and password=")
    if importlib.util.find_spec("puresasl") is None:
        raise ValueError("sasl= needs the package pure-sasl: pip install 'coordination-recipes[sasl]'")


def _checked_acl(acl: Any) -> tuple[Any, ...]:
    if isinstance(acl, ACL) or not isinstance(acl, list | tuple):
        raise TypeError(f"acl= is a list of kazoo.security.ACL, not {type(acl).__name__}")
    for one in acl:
        if not isinstance(one, ACL):
            raise TypeError(f"acl= is a list of kazoo.security.ACL, and has a {type(one).__name__} in it")
    if not acl:
        raise ValueError("acl= is empty: nobody could do anything with what is made")
    return tuple(acl)
