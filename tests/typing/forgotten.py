"""Never run: calls without ``await``, which mypy and pyright find without being asked."""

# What should be an error is marked with type: ignore, and is an error if it is none.
# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

import recipes


async def unused(client: recipes.AsyncClient, grant: recipes.AsyncGrant) -> None:
    lock = client.lock("x")
    lock.try_acquire()  # type: ignore[unused-coroutine]
    lock.holders()  # type: ignore[unused-coroutine]
    grant.release()  # type: ignore[unused-coroutine]
    grant.lost.wait()  # type: ignore[unused-coroutine]
    client.rwlock("x").writer.try_acquire()  # type: ignore[unused-coroutine]
    client.open()  # type: ignore[unused-coroutine]


async def misused(client: recipes.AsyncClient) -> None:
    grant = client.lock("x").acquire()
    grant.check()  # type: ignore[attr-defined]
    with client.lock("x").acquire(timeout=5):  # type: ignore[attr-defined]
        pass
