"""Other code of the process closes descriptors of a connection, and opens its own in their place."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.handler_sockets import Waker
from recipes.stores.zookeeper.requests import Exists
from tests.stores.zookeeper.conftest import Connections, answered
from tests.stores.zookeeper.fake_server import FakeZooKeeper
from tests.stores.zookeeper.test_handler import CERTIFICATE, server_context
from tests.strangers import Stranger

Take = Callable[[int], Stranger]


def test_a_bell_that_was_taken_is_neither_rung_nor_heard(take: Take) -> None:
    waker = Waker()
    for number in (waker._read.fileno(), waker._write.fileno()):
        take(number)
    assert waker.taken
    waker.send(b"\0")
    waker.send(b"\0")
    waker.recv(1)
    with pytest.raises(OSError, match="closerange"):
        waker.recv(1)
    waker.send(b"\0")
    waker.mend()
    assert not waker.taken
    assert waker._read.recv(10) == b"\0"  # as it stood
    waker.mend()
    waker.close()


def test_a_bell_that_could_not_be_made_anew_is_made_the_next_time(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> Any:
        raise OSError(errno.EMFILE, "none left")

    waker = Waker()
    take(waker._read.fileno())
    with monkeypatch.context() as patch:
        patch.setattr("socket.socketpair", none_left)
        with pytest.raises(OSError, match="none left"):
            waker.mend()
    waker.mend()
    assert not waker.taken
    waker.send(b"\0")
    assert waker._read.recv(10) == b"\0"
    waker.close()


def test_what_arrives_for_a_stranger_is_not_read(take: Take) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near: Any = LeanHandler().create_connection(listener.getsockname())
        take(near.fileno())
        with pytest.raises(OSError, match="closerange"):
            near.fill()
        near.close()


@pytest.mark.parametrize("tls", [False, True])
def test_the_connection_is_made_anew(connections: Connections, take: Take, tls: bool) -> None:
    options: dict[str, Any] = {"use_ssl": True, "ca": CERTIFICATE, "check_hostname": True} if tls else {}
    with FakeZooKeeper(tls=server_context() if tls else None) as server:
        connection = connections.connected(f"localhost:{server.port}", **options)
        handler = connection.session._handler
        (waker,) = handler._wakers
        for number in (handler._socket.fileno(), waker._read.fileno(), waker._write.fileno()):
            take(number)  # by the last one kazoo's thread notices
        assert answered(connection, Exists("/")) is not None
        assert server.accepted == 2
        assert len(server.sessions) == 1
        take(handler._socket.fileno())
        connection.close()
