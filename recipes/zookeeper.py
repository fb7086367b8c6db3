"""What is special to ZooKeeper: having it refuse a write of a holder that is none any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recipes._programs.hold import HeldState
from recipes.stores.zookeeper import ZooKeeperBackend

if TYPE_CHECKING:
    from recipes.grant import AsyncGrant, Grant

__all__ = ["guard"]

AS_GRANTED = 0
ANY_VERSION = -1
NEVER = 2**31 - 1
"""A version that no node comes to have: each write makes it larger by one."""


def guard(grant: Grant | AsyncGrant, transaction: Any) -> None:
    """Add the check "only if I still hold it" to a transaction of yours.

    It needs no clock: ZooKeeper itself checks, in the transaction, that the grant's node
    stands, with its data as it was granted. No I/O. A writer's guard fails after a downgrade;
    one made after it says "only if I still hold it, shared".

    Args:
        grant: A grant of a lock on ZooKeeper.
        transaction: Of kazoo (``KazooClient.transaction()``), on the same ensemble, by a
            client without a chroot. Its ``commit`` *returns* exceptions in its list: look.

    Raises:
        TypeError: The grant is of another store, or of a multi-lock (a guard is of one of its parts), or of
            a lock with ``layout="name"``.
    """
    hold: HeldState = grant._hold  # noqa: SLF001 - the two are one package
    if hold not in hold.parts:
        raise TypeError("a multi-lock's grant is of several contenders: make a guard of each grant[lock]")
    if not isinstance(grant._runtime.backend, ZooKeeperBackend):  # noqa: SLF001
        raise TypeError(f"this grant is of {hold.labels['store']}; a guard for ZooKeeper takes one of it")
    if grant._runtime.backend.one_name:  # noqa: SLF001
        raise TypeError(
            'with layout="name" the node of every holder has the same path and version, so ZooKeeper cannot '
            "tell them apart; have what is written compare the token, or use the layout of this package"
        )
    stands = ANY_VERSION if hold.rewritten else AS_GRANTED
    transaction.check(hold.entry.ref, stands if hold.guard() else NEVER)
