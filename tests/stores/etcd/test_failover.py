"""A client of several servers of which some are dead: whole clients, on scripted servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from recipes._run.runtime import Settings
from recipes.client import AsyncClient, Client
from recipes.errors import StoreUnavailable
from recipes.stores.etcd import EtcdBackend
from recipes.stores.registry import from_url
from tests.stores.etcd.fakes import Peer, Server

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


def opened(backend: EtcdBackend) -> None:
    client = Client(backend, SETTINGS)
    try:
        client.open()
        assert client.session.state == "held"
    finally:
        client.close()


def opened_in_loop(backend: EtcdBackend) -> None:
    async def main() -> None:
        client = AsyncClient(backend, SETTINGS)
        try:
            await client.open()
            assert client.session.state == "held"
        finally:
            await client.close()

    asyncio.run(main())


Opens = Callable[[EtcdBackend], None]


@pytest.fixture(params=[opened, opened_in_loop], ids=["blocking", "asyncio"])
def opens(request: pytest.FixtureRequest) -> Any:
    return request.param


def backend_of(*ports: int) -> EtcdBackend:
    backend = from_url("etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports), {})
    assert isinstance(backend, EtcdBackend)
    return backend


@pytest.mark.parametrize("dead", [1, 2])
def test_the_first_servers_are_dead(opens: Opens, dead: int, closed_port: Callable[[], int]) -> None:
    with Server(etcd) as server:
        backend = backend_of(*(closed_port() for _ in range(dead)), server.port)
        assert backend.servers == dead + 1
        opens(backend)
        assert server.connections > 0
        assert backend._endpoints.current().port == server.port, "and the next session begins there"


@pytest.mark.parametrize("code", [9, 14], ids=["3.6", "before"])
def test_the_first_server_is_no_voter_yet(opens: Opens, code: int) -> None:
    def learner(peer: Peer, _: int) -> None:
        while True:
            peer.request()
            said = json.dumps({"code": code, "message": "etcdserver: rpc not supported for learner"})
            peer.answer(said.encode(), "400 Bad Request" if code == 9 else "503 Service Unavailable")

    with Server(learner) as first, Server(etcd) as second:
        backend = backend_of(first.port, second.port)
        opens(backend)
        assert first.connections > 0
        assert backend._endpoints.current().port == second.port


def test_all_servers_are_dead(opens: Opens, closed_port: Callable[[], int]) -> None:
    with pytest.raises(StoreUnavailable):
        opens(backend_of(closed_port(), closed_port()))


def test_connections_of_one_backend_share_what_they_saw_fail() -> None:
    backend = backend_of(1, 2)
    connections: list[Any] = [
        backend.connection(print),
        backend.connection(print),
        backend.async_connection(print),
    ]
    assert {id(connection._endpoints) for connection in connections} == {id(backend._endpoints)}
    for connection in connections[:2]:
        connection.close()
