"""Programs that lock with ``add`` and unlock with a plain ``delete``, beside ours, both ways."""

from __future__ import annotations

import threading

import pytest

import recipes
from integration import servers
from integration.harness.process import eventually
from recipes import LockTimeout

OPTIONS = {"restart_grace": 0, "session_timeout": 3}


def test_each_waits_for_the_other(memcached: servers.Memcached, prefix: str) -> None:
    key = f"{prefix}:reports/nightly"
    with recipes.connect(memcached.url(prefix), **OPTIONS) as client:
        lock = client.lock("reports/nightly")
        with lock:
            assert not memcached.add(key, "theirs", 60)
        assert memcached.add(key, "theirs", 60)
        assert lock.try_acquire() is None
        with pytest.raises(LockTimeout):
            lock.acquire(timeout=0.3)
        releasing = threading.Timer(0.3, memcached.delete, [key])
        releasing.start()
        with lock.acquire(timeout=10) as grant:
            assert grant.held
            assert memcached.get(key).startswith(f"{client.session.id}/")
        releasing.join()


def test_a_lock_that_was_renewed_excludes_them_too(memcached: servers.Memcached, prefix: str) -> None:
    key = f"{prefix}:x"
    with recipes.connect(memcached.url(prefix), **OPTIONS) as client:
        with client.lock("x"):
            assert eventually(lambda: " X" in memcached.ask(f"mg {key} t"), 10), "a renewal marks it"
            assert not memcached.add(key, "theirs", 60)
            assert memcached.get(key).startswith(f"{client.session.id}/")
        assert memcached.add(key, "theirs", 60)
        assert memcached.delete(key)


def test_theirs_that_ends_by_itself_is_taken(memcached: servers.Memcached, prefix: str) -> None:
    with recipes.connect(memcached.url(prefix), **OPTIONS) as client:
        assert memcached.add(f"{prefix}:x", "theirs", 2)
        with client.lock("x").acquire(timeout=10) as grant:
            assert grant.held


def test_their_delete_that_comes_too_late_deletes_ours_which_is_noticed(
    memcached: servers.Memcached, prefix: str
) -> None:
    with recipes.connect(memcached.url(prefix), **OPTIONS) as client:
        grant = client.lock("x").acquire(timeout=10)
        assert memcached.delete(f"{prefix}:x")
        assert memcached.add(f"{prefix}:x", "theirs", 60)
        assert eventually(lambda: not grant.held, 10)
        assert memcached.get(f"{prefix}:x") == "theirs", "what is not ours is not deleted"
    assert memcached.get(f"{prefix}:x") == "theirs"
    memcached.delete(f"{prefix}:x")


def test_a_pool_of_theirs_takes_turns_with_ours(memcached: servers.Memcached, prefix: str) -> None:
    inside, most, turns = 0, 0, 0
    key = f"{prefix}:x"

    def enter() -> None:
        nonlocal inside, most, turns
        inside += 1
        most = max(most, inside)
        turns += 1
        inside -= 1

    def ours() -> None:
        with recipes.connect(memcached.url(prefix), **OPTIONS) as client:
            for _ in range(20):
                with client.lock("x").acquire(timeout=60):
                    enter()

    def theirs() -> None:
        for _ in range(20):
            assert eventually(lambda: memcached.add(key, "theirs", 60), 60, every_s=0.002)
            enter()
            assert memcached.delete(key)

    threads = [threading.Thread(target=one) for one in (ours, ours, theirs, theirs)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (most, turns) == (1, 80)
