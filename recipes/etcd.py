"""What is special to etcd: having etcd itself refuse a write of a holder that is none any more."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from recipes._programs.hold import HeldState
from recipes.stores.etcd import EtcdBackend

if TYPE_CHECKING:
    from recipes.grant import AsyncGrant, Grant

__all__ = ["guard"]

NEVER = "-1"
"""A revision that no key was created at."""


def guard(grant: Grant | AsyncGrant) -> dict[str, Any]:
    """Return the comparison "only if I still hold it", for a transaction of yours.

    It goes into the ``compare`` list of ``Etcd3Client.transaction`` (etcd3gw), or of any
    other client of the JSON gateway, on the same etcd. It needs no clock: etcd itself
    compares, in the transaction, whether the grant's key stands as it was granted. No
    I/O; valid for as long as the grant is, and false for ever after. A writer's guard is
    false after a downgrade; one made after it says "only if I still hold it, shared".

    Args:
        grant: A grant of a lock on etcd.

    Raises:
        TypeError: The grant is of another store, or of a multi-lock: a guard is of one of its parts.
    """
    hold: HeldState = grant._hold  # noqa: SLF001 - the two are one package
    if hold not in hold.parts:
        raise TypeError("a multi-lock's grant is of several contenders: make a guard of each grant[lock]")
    if not isinstance(grant._runtime.backend, EtcdBackend):  # noqa: SLF001
        raise TypeError(f"this grant is of {hold.labels['store']}; a guard for etcd takes one of etcd")
    token = str(hold.entry.token)
    if not hold.guard():
        standing = {"target": "CREATE", "create_revision": NEVER}
    elif hold.rewritten:
        standing = {"target": "CREATE", "create_revision": token}
    else:  # as it was created, and not rewritten since
        standing = {"target": "MOD", "mod_revision": token}
    key = hold.entry.ref.encode("utf-8", "surrogateescape")
    return {
        "key": b64encode(key).decode("ascii"),
        "result": "EQUAL",
        **standing,
    }
