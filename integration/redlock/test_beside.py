"""Clients of one Redis alone beside those of Redlock, on one server and with one prefix."""

from __future__ import annotations

import pytest

import recipes
from integration import servers
from integration.redlock.store import url_to

OPTIONS = {"restart_grace": 2, "session_timeout": 2}


@pytest.mark.parametrize("first", ["redis", "redlock"])
def test_each_kind_of_client_agrees_with_its_own_about_the_grace(
    five: list[servers.Redis], prefix: str, first: str
) -> None:
    urls = [five[0].url(prefix), url_to(five, prefix)]
    one, other = urls if first == "redis" else reversed(urls)
    with recipes.connect(one, **OPTIONS) as begins, recipes.connect(other, **OPTIONS) as joins:
        for client in (begins, joins):
            with client.lock("a").acquire(timeout=20):
                assert five[0].ask("EXISTS", f"{prefix}:a")
