"""``layout="name"`` beside a program that creates one ephemeral node with kazoo; and what can go wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError

from integration import servers
from integration.faults.actors import APIS, Actor, actor
from integration.faults.looking import creates
from integration.proxy import Proxy
from integration.stores import ZooKeeperNameStore

pytestmark = pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True)
LONG = {"session_timeout": 60.0, "request_timeout": 20.0}
SHORT = {"session_timeout": 4.0, "request_timeout": 2.0}
"""Where a session ends, or an answer does not come."""
SOON_S = 20.0


class Program:
    """Another program: it creates one ephemeral node, and waits until that is gone."""

    def __init__(self, store: ZooKeeperNameStore) -> None:
        self._kazoo, self.path = store.operator, f"/{store.prefix}/nightly/lock"

    def try_acquire(self) -> bool:
        try:
            self._kazoo.create(self.path, b"program", ephemeral=True, makepath=True)
        except NodeExistsError:
            return False
        return True

    def acquire(self) -> None:
        while not self.try_acquire():
            gone = threading.Event()
            if self._kazoo.exists(self.path, watch=lambda _, gone=gone: gone.set()):
                assert gone.wait(SOON_S)

    def release(self) -> None:
        self._kazoo.delete(self.path)

    def czxid(self) -> int:
        return int(self._kazoo.exists(self.path).czxid)


class Place:
    """A root, and clients of it."""

    def __init__(self, server: servers.Server, prefix: str, api: str) -> None:
        self.store, self._api, self._clients = ZooKeeperNameStore(server, prefix), api, list[Actor]()
        self.program = Program(self.store)

    def client(self, url: str = "", **options: Any) -> Actor:
        given = {**LONG, "layout": "name", **options}
        one = actor(self._api, url or self.store.url(), **given)
        self._clients.append(one)
        one.open()
        return one

    def close(self) -> None:
        for one in self._clients:
            one.close()
        self.store.close()


@pytest.fixture(params=APIS)
def place(request: pytest.FixtureRequest, server: servers.Server, prefix: str) -> Iterator[Place]:
    """Yield a place, for each API in turn."""
    one = Place(server, prefix, request.param)
    yield one
    one.close()


def test_both_exclude_each_other_and_notice_at_once_that_it_is_free(place: Place) -> None:
    program, ours = place.program, place.client()
    assert program.try_acquire()
    before = program.czxid()
    assert ours.try_acquire("nightly") is None
    waiting = ours.start_acquire("nightly")
    program.release()
    held = waiting.result(SOON_S)
    assert held.token == program.czxid() > before
    assert not program.try_acquire()
    theirs = threading.Thread(target=program.acquire)
    theirs.start()
    assert held.release()
    theirs.join(SOON_S)
    assert not theirs.is_alive()
    assert ours.try_acquire("nightly") is None
    program.release()
    again = ours.acquire("nightly")
    assert again.token > held.token
    assert again.release()


def test_a_queue_of_the_same_name_is_another_lock(place: Place) -> None:
    held = place.client().acquire("nightly")
    other = place.client(layout=None).acquire("nightly")
    assert held.verify()
    assert other.verify()


def test_the_lock_of_a_session_that_expired_is_free_and_its_holder_knows(place: Place) -> None:
    lost, other = place.client(), place.client()
    held = lost.acquire("nightly")
    waiting = other.start_acquire("nightly")
    place.store.end_session(lost.client)
    granted = waiting.result(SOON_S)
    assert granted.token > held.token
    assert held.wait_lost(SOON_S)
    assert not held.held
    assert granted.verify()
    assert lost.try_acquire("nightly") is None  # with a new session
    assert granted.release()
    assert lost.acquire("nightly").token > granted.token


@pytest.mark.parametrize("silent", [False, True])
def test_a_create_whose_reply_was_lost_is_adopted(place: Place, server: servers.Server, silent: bool) -> None:
    with Proxy.of(server) as proxy:
        client = place.client(proxy.url(place.store.prefix), **SHORT)
        assert client.acquire("nightly").release()
        trap = proxy.drop_reply(match=creates(server), silent=silent)
        held = client.acquire("nightly", timeout=SOON_S)
        assert trap.sprung.is_set()
        assert held.token == place.program.czxid()
        assert held.verify()
        assert not place.program.try_acquire()
        assert held.release()
        assert place.program.try_acquire()
        proxy.heal()
        client.close()
