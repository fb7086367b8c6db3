"""Certificates for servers and clients on loopback, made anew for each run."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

__all__ = ["HOSTS", "Authority"]

HOSTS = ("127.0.0.1", "localhost")


class Authority:
    """A certificate authority, and the PEM files of whom it vouches for.

    Attributes:
        ca: The path of its own certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *hosts: str, expired: bool = False, common_name: str | None = None) -> str:
        """Return the path of a certificate with its key, for servers and clients alike."""
        now = dt.datetime.now(dt.UTC)
        leaf = self._ca.issue_cert(
            *(hosts or HOSTS),
            common_name=common_name,
            not_before=now - dt.timedelta(days=2),
            not_after=now - dt.timedelta(days=1) if expired else now + dt.timedelta(days=1),
        )
        path = self._folder / f"{name}.pem"
        chain = b"".join(one.bytes() for one in leaf.cert_chain_pems)
        path.write_bytes(_pkcs8(leaf.private_key_pem.bytes()) + chain)
        return str(path)


def _pkcs8(key: bytes) -> bytes:
    """Return a key as Java wants it."""
    form = serialization.PrivateFormat.PKCS8
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    )
