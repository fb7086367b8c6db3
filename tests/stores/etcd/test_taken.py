"""Other code of the process closes descriptors of a blocking connection, and opens its own in their place."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from integration.servers import eventually
from recipes._contract.wakeups import Disturbed, Gone
from recipes.stores import sockets
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import blocking_loan, blocking_reader
from recipes.stores.etcd.blocking_reader import _Ears
from recipes.stores.sockets import Conn
from tests.stores.etcd import test_lending
from tests.stores.etcd.fakes import Server, trusting
from tests.stores.etcd.test_lending import SOON_S, K, Reading, in_thread, waits
from tests.strangers import Stranger

Take = Callable[[int], Stranger]

reading = test_lending.reading


@pytest.mark.parametrize("what", ["_waking", "_woken"])
def test_ears_that_are_anothers_are_let_be(take: Take, what: str) -> None:
    ears = _Ears()
    assert not ears.taken
    stranger = take(getattr(ears, what).fileno())
    assert ears.taken
    ears.wake()
    if what == "_woken":
        with pytest.raises(OSError, match="closerange"):
            ears.woke()
    ears.close()
    ears.close()
    ears.wake()
    assert not ears.taken
    assert stranger.hurt() == ""


def test_what_arrives_for_a_stranger_is_not_read(take: Take) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    conn = Conn(near)
    take(near.fileno())
    with pytest.raises(OSError, match="closerange"):
        conn.receive(time.monotonic() + 5)
    with pytest.raises(OSError, match="closerange"):
        conn.receive_own()
    conn.close()
    far.close()


def test_what_arrives_for_a_stranger_is_not_read_with_tls_either(take: Take) -> None:
    with Server(lambda peer, number: peer.hang(), tls=True) as server:
        conn = sockets.dial(Endpoint("127.0.0.1", server.port), trusting(), time.monotonic() + 5)
        take(conn.sock.fileno())
        with pytest.raises(OSError, match="closerange"):
            conn.receive(time.monotonic() + 5)
        conn.close()


@pytest.mark.parametrize("error", [OSError("x"), ConnectionResetError("x"), KeyboardInterrupt()])
def test_a_connection_in_the_making_closes_nothing_of_a_strangers(
    take: Take, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def sliced(sock: socket.socket, *_: object) -> None:
        take(sock.fileno())
        raise error

    monkeypatch.setattr(sockets, "_sliced", sliced)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(type(error)):
        sockets.dial(Endpoint(*listener.getsockname()), None, time.monotonic() + 5)


def number_of(reading: Reading, what: str) -> int:
    """Return the number of one of the reader's descriptors."""
    ears, loan = reading.reader._ears, reading.reader._loan
    assert ears is not None
    assert loan is not None
    known = {
        "waking": ears._waking.fileno(),
        "woken": ears._woken.fileno(),
        "selector": ears._number,
        "line": loan.conn.sock.fileno(),
        "ringing": loan._ears[0].fileno(),
        "rung": loan._ears[1].fileno(),
    }
    return known[what]


@pytest.mark.parametrize("what", ["waking", "woken", "selector", "line", "ringing", "rung"])
def test_who_waits_hears_of_it_and_watches_anew(
    reading: Reading,
    take: Take,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    for module in (blocking_loan, blocking_reader):
        monkeypatch.setattr(module, "_LOOKS_UP_S", 0.05)
    box = reading.armed()
    thread, received = in_thread(lambda: box.receive(SOON_S))
    assert eventually(lambda: waits(reading), SOON_S)
    reading.reader._wake()  # for the longer sleep was before
    take(number_of(reading, what))
    thread.join(2 * SOON_S)
    assert received == [Disturbed()]
    again = reading.armed()
    reading.stream.delete(K)
    assert again.receive(SOON_S) == Gone("k")
    reading.connection.close()


def test_the_next_watch_notices_it_for_all(reading: Reading, take: Take) -> None:
    boxes = [reading.armed(), reading.armed(b"l")]
    (conn,) = reading.reader._conns.values()
    take(conn.sock.fileno())
    reading.reader.forget(boxes[1])  # which is said on that connection
    assert boxes[0].receive(SOON_S) == Disturbed()
    again = reading.armed()
    reading.stream.delete(K)
    assert again.receive(SOON_S) == Gone("k")
    reading.connection.close()
