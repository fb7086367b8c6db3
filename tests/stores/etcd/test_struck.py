"""An interrupt at each point of the blocking watching: what comes after works, and nobody is forgotten.

As ``tests/run/test_struck.py`` does, but in threading and in h11 as well: calls to the connection go through
both.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import pytest

import recipes
from integration.servers import eventually
from recipes._contract.wakeups import Disturbed, Event, Gone
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.requests import Watch
from tests.heap import INTERRUPTED
from tests.stores.etcd.fakes import Box, Peer, Server

WITHIN = (str(Path(recipes.__file__).parent), threading.__file__, str(Path(h11.__file__).parent))
SOON_S = 5
ENTERS_BY_CALL = sys.version_info >= (3, 14)
"""Whether a ``with`` statement calls ``__enter__`` as one calls others (``recipes/_mutex.py``)."""

pytestmark = [
    *INTERRUPTED,
    pytest.mark.usefixtures("nothing_in_limbo"),
]


def struck(call: Callable[[], object], at: int) -> str:
    """Return where ``call`` was interrupted, the n-th time that Python would hear of a signal; "" if not."""
    left, where = at, ""

    def hear(frame: FrameType, event: str, what: Any) -> None:
        nonlocal left, where
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(WITHIN):
            return
        if ENTERS_BY_CALL and event == "c_return" and what.__name__ == "__enter__":
            return  # a gap of Python's own, in threading: the lock would stay locked
        left -= 1
        if not left:
            sys.setprofile(None)
            where = f"{event} in {frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt

    try:
        sys.setprofile(hear)
        call()
    except KeyboardInterrupt:
        return where
    except RuntimeError as error:
        if "release unlocked lock" not in str(error):
            raise
        return where  # a gap of threading's own: it leaves a condition that is not locked yet
    finally:
        sys.setprofile(None)
    return ""


def serving(peer: Peer, number: int) -> None:
    """Confirm every watch of a stream; once "fall" is watched, all that is watched is gone."""
    peer.request()
    standing: list[int] = []
    while True:
        message = peer.chunk()
        if "create_request" in message:
            if not standing:
                peer.begin()
            standing.append(peer.created(message))
            if message["create_request"]["key"] == "ZmFsbA==":
                for number_of in standing:
                    peer.gone(number_of)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(serving) as one:
        yield one


def readers() -> int:
    return sum(thread.name == "recipes-etcd" and thread.is_alive() for thread in threading.enumerate())


def wakes(box: Box) -> Event:
    return box.events.get(timeout=SOON_S)


def test_the_first_watch_interrupted_anywhere_leaves_one_reader_or_none(server: Server) -> None:
    for at in itertools.count(1):
        connection: Any = EtcdConnection([("127.0.0.1", server.port)])
        box = Box()
        where = struck(lambda connection=connection, box=box: connection.ask(Watch(b"k", box), SOON_S), at)
        connection.forget(box)
        assert connection.ask(Watch(b"l", box), SOON_S) == 7, where
        assert eventually(lambda: readers() == 1, SOON_S), where
        connection.close()
        assert eventually(lambda: readers() == 0, SOON_S), where
        if not where:
            break
    assert at > 200


@pytest.mark.parametrize("what", ["ask", "forget", "follow"])
def test_what_is_interrupted_anywhere_fails_nothing_that_comes_after(server: Server, what: str) -> None:
    """Nor does it keep from another what that one waits for: it is woken, if for nothing."""
    connection: Any = EtcdConnection([("127.0.0.1", server.port)])
    mine = Box()

    def call() -> None:
        if what == "ask":
            connection.ask(Watch(b"k", mine), SOON_S)
        elif what == "forget":
            connection.forget(mine)
        else:
            connection._reader.follow()

    try:
        for at in itertools.count(1):
            other = Box()
            assert connection.ask(Watch(b"other", other), SOON_S) == 7
            if what == "forget":
                assert connection.ask(Watch(b"k", mine), SOON_S) == 7
            where = struck(call, at)
            connection.forget(mine)
            last = Box()
            assert connection.ask(Watch(b"fall", last), SOON_S) == 7, where
            assert wakes(other) in (Gone("other"), Disturbed()), where
            assert wakes(last) == Gone("fall"), where
            assert eventually(lambda: len(connection._reader._multiplexer.book) == 0, SOON_S), where
            assert len(connection._reader._conns) <= 1, where
            if not where:
                break
        assert at > 20
    finally:
        connection.close()
