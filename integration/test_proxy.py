"""The proxy: each fault does to bytes what its name says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Literal

import pytest

from integration import servers
from integration.proxy import Proxy

SOON_S = 30
BRIEFLY_S = 0.2  # long enough that a reply on loopback would have come


@pytest.fixture
def echo() -> Iterator[Proxy]:
    """A proxy before a server that sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    with Proxy("127.0.0.1", listener.getsockname()[1]) as proxy:
        yield proxy
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    acceptor.join(SOON_S)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), SOON_S)


def call(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(65536)


def silent(connection: socket.socket) -> bool:
    connection.settimeout(BRIEFLY_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(SOON_S)
    return False


def test_bytes_pass_and_are_counted(echo: Proxy) -> None:
    with connect(echo) as one, echo.counting() as counts:
        assert call(one, b"hello") == b"hello"
        assert echo.connections == 1
    assert (counts.bytes_up, counts.bytes_down, counts.requests) == (5, 5, {"bytes": 1})


def test_cut_resets_and_refuses_until_healed(echo: Proxy) -> None:
    with connect(echo) as one:
        assert call(one, b"a") == b"a"
        echo.cut()
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            connect(echo)
    echo.heal()
    with connect(echo) as one:
        assert call(one, b"b") == b"b"
        echo.reset()
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    with connect(echo) as one:
        assert call(one, b"c") == b"c"


@pytest.mark.parametrize("direction", ["both", "up", "down"])
def test_blackhole_is_silent_and_late(echo: Proxy, direction: Literal["both", "up", "down"]) -> None:
    with connect(echo) as one:
        assert call(one, b"a") == b"a"
        echo.blackhole(direction)
        one.sendall(b"b")
        assert silent(one)
        with connect(echo) as two:
            two.sendall(b"c")
            assert silent(two)
            echo.heal()
            assert (one.recv(9), two.recv(9)) == (b"b", b"c")


def test_what_a_client_sent_before_it_left_arrives_late(echo: Proxy) -> None:
    with connect(echo) as one:
        assert call(one, b"a") == b"a"
        echo.blackhole("up")
        one.sendall(b"late")
    with echo.counting() as counts:
        echo.heal()
        assert servers.eventually(lambda: echo.connections == 0, SOON_S)
    assert counts.bytes_down == 4, "the server got it, and answered"


def test_delay_keeps_order(echo: Proxy) -> None:
    echo.delay(0.05, jitter=0.05)
    with connect(echo) as one:
        whole = b"".join(b"%04d" % number for number in range(200))
        for at in range(0, len(whole), 40):
            one.sendall(whole[at : at + 40])
        got = b""
        while len(got) < len(whole):
            got += one.recv(65536)
        assert got == whole
        assert silent(one)


def test_half_close_passes(echo: Proxy) -> None:
    with connect(echo) as one:
        one.sendall(b"x")
        one.shutdown(socket.SHUT_WR)
        assert one.recv(9) == b"x"
        assert one.recv(9) == b""


def test_the_second_reply_is_lost_in_silence(echo: Proxy) -> None:
    trap = echo.drop_reply(2, silent=True)
    with connect(echo) as one:
        assert call(one, b"a") == b"a"
        assert not trap.matched.is_set()
        one.sendall(b"b")
        assert echo.dropped.wait(SOON_S)
        assert silent(one)


def test_a_toll_is_taken_of_every_so_manieth_until_it_is_lifted(echo: Proxy) -> None:
    lost, cut = echo.drop_replies(3), echo.cut_requests(5)
    heard = []
    for number in range(15):
        with connect(echo) as connection:
            try:
                heard.append(bool(call(connection, b"%d" % number)))
            except ConnectionError:
                heard.append(False)
    assert [number for number, one in enumerate(heard, 1) if not one] == [3, 5, 6, 9, 10, 12, 15]
    assert (lost.taken, cut.taken) == (5, 3)
    echo.lift(lost)
    echo.lift(cut)
    with connect(echo) as connection:
        assert all(call(connection, b"x") == b"x" for _ in range(20))
