"""Never run: an ``acquire`` that is only called is found where unused awaitables or results are reported.

By default both type checkers look for ``Coroutine`` itself, and for no subclass: ``async with`` needs one.
"""

# What should be an error is marked with type: ignore, and is an error if it is none.
# pyright: reportUnnecessaryTypeIgnoreComment=true, reportUnusedCallResult=true
from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import recipes


async def forgotten(client: recipes.AsyncClient) -> None:
    client.lock("x").acquire()  # type: ignore[unused-awaitable]
    client.rlock("x").acquire(timeout=5)  # type: ignore[unused-awaitable]


async def remembered(client: recipes.AsyncClient) -> None:
    work: Coroutine[Any, Any, recipes.AsyncGrant] = client.lock("x").acquire()
    _ = await work
    async with client.lock("x").acquire(timeout=5), client.rwlock("x").reader.acquire():
        pass
