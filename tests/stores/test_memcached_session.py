"""The connections to a Memcached, with the server in the test's hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores._kit.cell import Peek
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.addresses import Endpoint
from recipes.stores.memcached.acts import Acts, Life
from recipes.stores.memcached.session import MemcachedSession
from tests.threads import refuse


class Silent:
    """A connection from which nothing comes."""

    def __init__(self) -> None:
        self.asked = self.was_reset = 0

    def stale(self) -> bool:
        return False

    def send(self, data: bytes, deadline: float) -> None:
        self.asked += 1

    def receive(self, deadline: float) -> bytes:
        raise TimeoutError("no answer in time")

    def reset(self) -> None:
        self.was_reset += 1


def made(host: str) -> MemcachedSession:
    return MemcachedSession(
        "memcached://h", Endpoint(host, 1), Acts("memcached://h", "", 0.0), lambda _: None
    )


def test_a_name_for_which_no_thread_can_be_started_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "recipes-resolve")
    with pytest.raises(StoreUnavailable, match="can't start new thread") as caught:
        made("localhost").try_once(Command(Peek("x"), "s", NOBODY), boot_time() + 1.0)
    assert caught.value.unsent


def test_where_one_connection_is_silent_no_other_is_tried() -> None:
    """Each would take all the time of a request, and a session does not last so long."""
    session: Any = made("h")
    free = [Silent() for _ in range(4)]
    life: Any = Life(1, 0.0)
    session._free.extend((one, life) for one in free)
    with pytest.raises(StoreUnavailable):
        session.try_once(Command(Peek("x"), "s", NOBODY), boot_time() + 1.0)
    assert sorted(one.asked for one in free) == [0, 0, 0, 1]
    assert [one.was_reset for one in free] == [1, 1, 1, 1]
    assert not session._free
