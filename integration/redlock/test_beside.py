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


def test_servers_that_evict_prove_nothing(five: list[servers.Redis], prefix: str) -> None:
    for one in five[:3]:
        one.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    try:
        with recipes.connect(url_to(five, prefix), restart_grace=0) as client:
            assert not client.guarantees.proven
        needs = recipes.connect(url_to(five, prefix), restart_grace=0, require={"proven"})
        with pytest.raises(recipes.TooWeak, match="proven"):
            needs.open()
        needs.close()
    finally:
        for one in five[:3]:
            one.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    with recipes.connect(url_to(five, prefix), restart_grace=0, require={"proven"}) as client:
        assert client.guarantees.proven
