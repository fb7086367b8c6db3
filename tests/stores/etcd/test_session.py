from __future__ import annotations

import threading
import time
from typing import Any

import etcd3gw
import pytest
import requests.exceptions

from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import session as session_module
from recipes.stores.etcd.session import LeanSession, Pipeline
from recipes.stores.sockets import Conn
from tests.pace import taking
from tests.stores.etcd.fakes import Peer, Server


def made(server: Server, **options: Any) -> tuple[LeanSession, str]:
    return LeanSession(Endpoint("127.0.0.1", server.port), **options), f"http://127.0.0.1:{server.port}/v3/x"


def echo(peer: Peer, number: int) -> None:
    while True:
        path, headers, body = peer.request()
        peer.answer({"path": path, "body": body, "on": number, "token": headers.get("authorization")})


def test_it_serves_etcd3gw() -> None:
    with Server(echo) as server:
        session, _ = made(server)
        client = etcd3gw.Etcd3Client("127.0.0.1", server.port, api_path="/v3/", session=session)  # type: ignore[arg-type]
        assert client.post(client.get_url("/kv/put"), json={"a": 1}) == {
            "path": "/v3/kv/put",
            "body": {"a": 1},
            "on": 0,
            "token": None,
        }
        session.close()


def test_connections_are_kept_and_the_last_used_is_used_next() -> None:
    with Server(echo) as server:
        session, url = made(server, authorization=lambda: "t")
        first = Pipeline(session, [(url, {})], time.monotonic() + 5)
        second = Pipeline(session, [(url, {})], time.monotonic() + 5)
        assert second.next(time.monotonic() + 5).json()["on"] == 1
        assert first.next(time.monotonic() + 5).json()["on"] == 0
        response = session.post(url, json={})
        assert (response.status_code, response.reason, response.json()["on"]) == (200, "OK", 0)
        assert '"token": "t"' in response.text
        session.close()


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_IDLE_KEPT", 1)
    with Server(echo) as server:
        session, url = made(server)
        calls = [Pipeline(session, [(url, {})], time.monotonic() + 5) for _ in range(2)]
        for call in calls:
            call.next(time.monotonic() + 5)
        assert len(session._idle) == 1
        session.close()
        assert len(session._idle) == 0


def test_a_connection_the_server_closed_meanwhile_is_not_used() -> None:
    closed = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({"on": number})
        if number == 0:
            peer.sock.close()
            closed.set()
        else:
            peer.hang()

    with Server(script) as server:
        session, url = made(server)
        assert session.post(url, json={}, timeout=5).json() == {"on": 0}
        assert closed.wait(5)
        assert session.post(url, json={}, timeout=5).json() == {"on": 1}
        session.close()


def test_a_black_hole_is_left_in_time_and_its_connection_with_the_idle_ones_is_closed() -> None:
    ended = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        if number == 1:
            peer.answer({})
        if peer.ended() and number == 1:
            ended.set()

    with Server(script) as server:
        session, url = made(server)
        stuck = Pipeline(session, [(url, {})], time.monotonic() + 5)
        session.post(url, json={}, timeout=5)
        late = pytest.raises(requests.exceptions.ConnectionError, match="no answer in time")
        with taking(1, at_least_s=0.05), late:
            stuck.next(time.monotonic() + 0.05)
        assert ended.wait(5)
        assert not session._idle


def test_a_reply_in_drops_does_not_stretch_the_time() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            peer.sock.sendall(bytes([byte]))
            if peer.stop.wait(0.01):
                return

    with Server(script) as server:
        session, url = made(server)
        with taking(1), pytest.raises(requests.exceptions.ConnectionError, match="no answer in time"):
            session.post(url, json={}, deadline=time.monotonic() + 0.1, timeout=60)
        session.close()


def test_a_request_nobody_reads_does_not_stretch_the_time() -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        session, url = made(server)
        with taking(5), pytest.raises(requests.exceptions.ConnectionError, match="in time"):
            session.post(url, json={"x": "x" * 16_000_000}, timeout=0.5)
        session.close()


def test_a_long_request_is_sent_whole() -> None:
    with Server(echo) as server:
        session, url = made(server)
        body = {"x": "x" * 8_000_000}
        assert session.post(url, json=body, timeout=20).json()["body"] == body
        session.close()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "Connection reset by peer|ended inside the body"),
        (b"\x15\x03\x01\x00\x02\x02", "not HTTP|Connection reset"),
        (b"", "Connection reset by peer|closed before"),
    ],
)
def test_half_a_reply_is_none(data: bytes, words: str) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(data)
        peer.reset()

    with Server(script) as server:
        session, url = made(server)
        with pytest.raises(requests.exceptions.ConnectionError, match=words):
            session.post(url, json={}, timeout=5)


def test_an_interrupted_call_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def script(peer: Peer, number: int) -> None:
        if peer.ended():
            ended.set()

    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    with Server(script) as server:
        session, url = made(server)
        with monkeypatch.context() as patch:
            patch.setattr(Conn, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.post(url, json={}, timeout=5)
        assert ended.wait(5)
        ended.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send", interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.post(url, json={}, timeout=5)
        session.close()
        assert ended.wait(5)
        assert not session._idle


def test_a_pipeline_is_one_connection_and_its_replies_come_in_order() -> None:
    def script(peer: Peer, number: int) -> None:
        bodies = [peer.request()[2] for _ in range(3)]  # all are there before the first is answered
        data = b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % body for body in bodies)
        peer.sock.sendall(data[:50])
        peer.sock.sendall(data[50:])
        peer.hang()

    with Server(script) as server:
        session, url = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(session, [(url, n) for n in range(3)], deadline)
        assert [session.post(url, deadline=deadline, pipeline=pipeline).json() for _ in range(3)] == [0, 1, 2]
        assert len(session._idle) == 1
        with pytest.raises(requests.exceptions.ConnectionError, match="all replies were taken"):
            pipeline.next(deadline)
        pipeline.close()
        session.close()


def test_a_pipeline_that_the_server_closes_fails_for_the_rest() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({}, headers="Connection: close\r\n")

    with Server(script) as server:
        session, url = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(session, [(url, {}), (url, {})], deadline)
        assert pipeline.next(deadline).json() == {}
        with pytest.raises(requests.exceptions.ConnectionError, match="the server closed the connection"):
            pipeline.next(deadline)


def test_bytes_nobody_asked_for_end_the_connection() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1")
        peer.hang()

    with Server(script) as server:
        session, url = made(server)
        assert session.post(url, json={}, timeout=5).json() == {}
        assert not session._idle


def test_a_body_that_is_no_document_says_so() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer(b"nonsense")

    with Server(script) as server:
        session, url = made(server)
        response = session.post(url, json={}, timeout=5)
        with pytest.raises(requests.exceptions.InvalidJSONError, match="nonsense"):
            response.json()
        session.close()


def test_another_servers_url_is_refused() -> None:
    session = LeanSession(Endpoint("h", 1))
    with pytest.raises(ValueError, match="posts to http://h:1 only"):
        session.post("http://h:11/v3", json={})


def test_a_closed_session_posts_no_more_and_keeps_nothing() -> None:
    with Server(echo) as server:
        session, url = made(server)
        late = Pipeline(session, [(url, {})], time.monotonic() + 5)
        session.close()
        with pytest.raises(requests.exceptions.ConnectionError, match="closed"):
            session.post(url, json={}, timeout=5)
        late.next(time.monotonic() + 5)
        assert not session._idle
