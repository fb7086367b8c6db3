"""Clients are opened however long a busy machine takes to answer: what is tested comes after that."""

from __future__ import annotations

from typing import Any, Protocol

import recipes
from recipes._run.clock import boot_time

__all__ = ["open_patiently", "opened", "opened_in_tasks"]

LONGEST_OPEN_S = 30


class Opens(Protocol):
    """A client, or what stands for one."""

    def open(self) -> Any:
        """Start the session."""


def open_patiently(one: Opens) -> None:
    """Open a client, and again for half a minute if the store gives no answer."""
    until = boot_time() + LONGEST_OPEN_S
    while True:
        try:
            one.open()
        except recipes.StoreUnavailable:
            if boot_time() > until:
                raise
        else:
            return


def opened(url: str, **options: Any) -> recipes.Client:
    """Return a blocking client that is open; a context manager closes it."""
    client = recipes.connect(url, **options)
    try:
        open_patiently(client)
    except BaseException:
        client.close()
        raise
    return client


async def opened_in_tasks(url: str, **options: Any) -> recipes.AsyncClient:
    """Return an asyncio client that is open; a context manager closes it."""
    client = recipes.connect_async(url, **options)
    until = boot_time() + LONGEST_OPEN_S
    try:
        while True:
            try:
                return await client.open()
            except recipes.StoreUnavailable:
                if boot_time() > until:
                    raise
    except BaseException:
        await client.close()
        raise
