"""A client of several servers of which some are dead: whole clients, on scripted servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recipes._run.runtime import Settings
from recipes.client import AsyncClient, Client
from recipes.errors import StoreUnavailable
from recipes.stores.etcd import EtcdEngine
from recipes.stores.registry import from_url
from tests.stores.etcd.fakes import Peer, Server, closed_port

SETTINGS = Settings(session_timeout_s=15.0, request_timeout_s=2.0)
REPLIES = {
    "/v3/lease/grant": {"ID": "1", "TTL": "15"},
    "/v3/kv/txn": {"header": {"revision": "5"}, "succeeded": True, "responses": [{"response_put": {}}]},
    "/v3/lease/revoke": {},
}


def etcd(peer: Peer, number: int) -> None:
    """Open sessions, and end them."""
    while True:
        path, _, _ = peer.request()
        peer.answer(REPLIES[path])


def opened(engine: EtcdEngine) -> None:
    client = Client(engine, SETTINGS)
    try:
        client.open()
        assert client.session.state == "held"
    finally:
        client.close()


def opened_in_loop(engine: EtcdEngine) -> None:
    async def main() -> None:
        client = AsyncClient(engine, SETTINGS)
        try:
            await client.open()
            assert client.session.state == "held"
        finally:
            await client.close()

    asyncio.run(main())


Opens = Callable[[EtcdEngine], None]


@pytest.fixture(params=[opened, opened_in_loop], ids=["blocking", "asyncio"])
def opens(request: pytest.FixtureRequest) -> Any:
    return request.param


def engine_of(*ports: int) -> EtcdEngine:
    engine = from_url("etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports), {})
    assert isinstance(engine, EtcdEngine)
    return engine


@pytest.mark.parametrize("dead", [1, 2])
def test_the_first_servers_are_dead(opens: Opens, dead: int) -> None:
    with Server(etcd) as server:
        engine = engine_of(*(closed_port() for _ in range(dead)), server.port)
        assert engine.servers == dead + 1
        opens(engine)
        assert server.connections > 0
        assert engine._endpoints.current().port == server.port, "and the next session begins there"


def test_all_servers_are_dead(opens: Opens) -> None:
    with pytest.raises(StoreUnavailable):
        opens(engine_of(closed_port(), closed_port()))


def test_links_of_one_engine_share_what_they_saw_fail() -> None:
    engine = engine_of(1, 2)
    links: list[Any] = [engine.link(print), engine.link(print), engine.async_link(print)]
    assert {id(link._endpoints) for link in links} == {id(engine._endpoints)}
    for link in links[:2]:
        link.close()
