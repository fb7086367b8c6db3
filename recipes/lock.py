"""The exclusive lock."""

from __future__ import annotations

from recipes._api.acquiring import Acquiring
from recipes._api.held_tasks import AsyncHeld
from recipes._api.held_threads import BlockingHeld
from recipes.grant import AsyncGrant, Grant

__all__ = ["Acquiring", "AsyncLock", "Lock"]


class Lock(BlockingHeld[Grant]):
    """An exclusive lock: one grant at a time, in order of arrival.

    Cheap to make, which does no I/O, and safe to share between threads; every acquire is a
    contender of its own. As a context manager it acquires, waiting for ever, and releases; it
    may be entered by many threads at once, and each leaves its own grant.

    It protects nothing by itself from a holder that stopped and went on too late: hand
    ``grant.token`` to the resource (see the guarantees page of the documentation).

    Args:
        name: The lock's name.
        max_hold: Seconds after which a holder that has neither released it nor called
            `Grant.progress` gives it up, though its session lives: the grant is lost, and the
            next in line gets it. At least 0.1; None: never.

    Raises:
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short.
        TypeError: The name is no text, or ``max_hold`` no number.
    """

    _grant = Grant


class AsyncLock(AsyncHeld[AsyncGrant]):
    """An exclusive lock for asyncio: one grant at a time, in order of arrival; owners are tasks.

    Cheap to make, which does no I/O, and safe to share between the tasks of one loop; every acquire
    is a contender of its own. As a context manager it acquires, waiting for ever, and releases; it
    may be entered by many tasks at once, and each leaves its own grant.

    It protects nothing by itself from a holder that stopped and went on too late: hand
    ``grant.token`` to the resource (see the guarantees page of the documentation).

    Args:
        name: The lock's name.
        max_hold: Seconds after which a holder that has neither released it nor called
            `AsyncGrant.progress` gives it up, though its session lives: the grant is lost, and the
            next in line gets it. At least 0.1; None: never.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.

    Raises:
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short; ``on_lost`` is neither.
        TypeError: The name is no text, or ``max_hold`` no number.
    """

    _grant = AsyncGrant
