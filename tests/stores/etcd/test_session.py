"""What etcd3gw gets for a session; the connections are those of ``test_pool``."""

from __future__ import annotations

import time
from typing import Any

import etcd3gw
import pytest

from recipes.errors import StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd.gateway import GatewaySpeaker
from recipes.stores.etcd.pool import Pipeline, Pool
from recipes.stores.etcd.session import LeanSession
from tests.pace import taking
from tests.stores.etcd.fakes import Peer, Server


def made(server: Server, **options: Any) -> tuple[LeanSession, Pool, str]:
    endpoint = Endpoint("127.0.0.1", server.port)
    pool = Pool(endpoint, GatewaySpeaker(endpoint), **options)
    return LeanSession(pool, secure=False), pool, f"http://127.0.0.1:{server.port}/v3/x"


def echo(peer: Peer, number: int) -> None:
    while True:
        path, headers, body = peer.request()
        peer.answer({"path": path, "body": body, "on": number, "token": headers.get("authorization")})


def test_it_serves_etcd3gw() -> None:
    with Server(echo) as server:
        session, pool, _ = made(server)
        client = etcd3gw.Etcd3Client("127.0.0.1", server.port, api_path="/v3/", session=session)  # type: ignore[arg-type]
        assert client.post(client.get_url("/kv/put"), json={"a": 1}) == {
            "path": "/v3/kv/put",
            "body": {"a": 1},
            "on": 0,
            "token": None,
        }
        pool.close()


def test_a_response_has_what_etcd3gw_reads_of_one() -> None:
    with Server(echo) as server:
        session, pool, url = made(server, authorization=lambda: "t")
        response = session.post(url, json={})
        assert (response.status_code, response.reason, response.json()["on"]) == (200, "200 OK", 0)
        assert '"token": "t"' in response.text
        pool.close()


def test_a_reply_in_drops_does_not_stretch_the_time() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            peer.sock.sendall(bytes([byte]))
            if peer.stop.wait(0.01):
                return

    with Server(script) as server:
        session, pool, url = made(server)
        with taking(1), pytest.raises(StoreUnavailable, match="no answer in time"):
            session.post(url, json={}, deadline=time.monotonic() + 0.1, timeout=60)
        pool.close()


def test_a_request_nobody_reads_does_not_stretch_the_time() -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        session, pool, url = made(server)
        with taking(5), pytest.raises(StoreUnavailable, match="in time"):
            session.post(url, json={"x": "x" * 16_000_000}, timeout=0.5)
        pool.close()


def test_what_was_sent_in_a_pipeline_is_taken_from_it() -> None:
    with Server(echo) as server:
        session, pool, url = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(pool, [("/x", n) for n in range(3)]).send(deadline)
        posted = [session.post(url, json=7, deadline=deadline, pipeline=pipeline) for _ in range(3)]
        assert [response.json()["body"] for response in posted] == [0, 1, 2]
        pool.close()


def test_a_body_that_is_no_document_says_so() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer(b"nonsense")

    with Server(script) as server:
        session, pool, url = made(server)
        response = session.post(url, json={}, timeout=5)
        with pytest.raises(StoreUnavailable, match="nonsense"):
            response.json()
        pool.close()


def test_another_servers_url_is_refused() -> None:
    endpoint = Endpoint("h", 1)
    session = LeanSession(Pool(endpoint, GatewaySpeaker(endpoint)), secure=False)
    with pytest.raises(ValueError, match="posts to http://h:1/v3/ only"):
        session.post("http://h:11/v3/x", json={})
