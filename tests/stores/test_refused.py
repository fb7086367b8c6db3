"""A store that refuses the connection: the error says which, why and what to do, and is short."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import recipes

AT_MOST_LINES = 25
REFUSED = "127.0.0.1:1"
URLS = (f"etcd://{REFUSED}", f"zookeeper://{REFUSED}/app")
Raises = Callable[[str], Any]


def blocking(url: str) -> None:
    client = recipes.connect(url)
    try:
        client.open()
    finally:
        client.close()  # or it would go on connecting beside the tests that come later


def in_asyncio(url: str) -> None:
    asyncio.run(opened(url))


async def opened(url: str) -> None:
    client = recipes.connect_async(url)
    try:
        await client.open()
    finally:
        await client.close()


@pytest.mark.parametrize("opens", [blocking, in_asyncio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("url", URLS)
def test_a_refused_connection_is_said_in_a_few_lines(opens: Raises, url: str) -> None:
    with pytest.raises(recipes.StoreUnavailable) as caught:
        opens(url)
    text = "".join(traceback.format_exception(caught.value))
    own = [line for line in text.splitlines() if "asyncio" not in line]
    assert len(own) <= AT_MOST_LINES, text
    assert "During handling" not in text
    assert "direct cause" not in text
    last = text.splitlines()[-1]
    assert last.endswith(
        f"no answer from {REFUSED}: Connection refused; check that it runs and can be reached"
    )
    assert "recipes/client.py" in text, "which call of the user's it was"


@pytest.mark.parametrize("url", URLS)
def test_a_wait_that_had_no_answer_names_the_reason_once(url: str) -> None:
    client = recipes.connect(url)
    with pytest.raises(recipes.LockTimeout) as caught:
        client.lock("x").acquire(timeout=2.0)
    client.close()
    cause = caught.value.__cause__
    assert isinstance(cause, recipes.StoreUnavailable)
    assert "Connection refused" in str(cause)
    assert len(traceback.format_exception(cause)) == 1, "where it was seen says nothing"
