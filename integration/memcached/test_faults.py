"""What fails on a Memcached, and what a client then does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import recipes
from integration import servers
from integration.faults.closer import closed_behind
from integration.faults.workers import Worker
from integration.harness.process import eventually
from integration.needing import needed
from recipes import LockTimeout, StoreRefused, TooWeak
from recipes._run.clock import boot_time
from recipes.stores._kit.cell import Cell, Keep, Take
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.addresses import Endpoint
from recipes.stores.memcached.acts import Acts
from recipes.stores.memcached.session import MemcachedSession

GRACE_S = 6


@pytest.fixture
def alone() -> Iterator[servers.Memcached]:
    """Yield a server of one test, which has been up for `GRACE_S`."""
    with needed("memcached", servers.memcached) as one:
        one.wait_granting(GRACE_S)
        yield one


def started(*words: str) -> servers.Memcached:
    """Return a server with other options, running."""
    return needed("memcached", lambda: servers.memcached(*words).start())


def filled(server: servers.Memcached, size: int) -> str:
    """Fill the part of the memory that has items as large as those of locks; return the last answers."""
    answers = ""
    for start in range(0, 20_000, 1000):
        lines = [(f"set {number:05} 0 0 {size}", "x" * size) for number in range(start, start + 1000)]
        answers = server.ask(*(word for line in lines for word in line))
    return answers


def test_after_a_restart_nothing_is_granted_until_all_that_held_have_noticed(
    alone: servers.Memcached,
) -> None:
    with recipes.connect(alone.url("app"), restart_grace=GRACE_S, session_timeout=3) as client:
        before = client.lock("x").acquire(timeout=10)
        alone.kill()
        alone.start()
        with recipes.connect(alone.url("app"), restart_grace=GRACE_S, session_timeout=3) as other:
            with pytest.raises(LockTimeout):
                other.lock("x").acquire(timeout=1)
            after = other.lock("x").acquire(timeout=30)
            assert not before.held
            assert after.token > before.token
            after.release()


def test_a_try_while_nothing_is_granted_says_how_long_that_is(alone: servers.Memcached) -> None:
    alone.restart()
    with (
        recipes.connect(alone.url("app"), request_timeout=5) as client,
        pytest.raises(recipes.StoreUnavailable, match="restart_grace"),
    ):
        client.lock("x").try_acquire()


def test_what_flush_all_frees_is_lost_at_the_next_renewal(alone: servers.Memcached) -> None:
    options = {"restart_grace": 0, "session_timeout": 3}
    with (
        recipes.connect(alone.url("app"), **options) as client,
        recipes.connect(alone.url("app"), restart_grace=0, session_timeout=15) as other,
    ):
        before = client.lock("x").acquire(timeout=10)
        alone.ask("flush_all")
        after = other.lock("x").acquire(timeout=10)
        assert after.token > before.token
        assert eventually(lambda: not before.held, 10)
        assert after.held
        after.release()


def test_a_full_server_forgets_locks_and_says_so_when_a_client_opens() -> None:
    older = "-o", "no_lru_maintainer"  # the other one keeps what is looked at, as holders do, for longer
    with started("-m", "1", "-I", "512k", *older) as server:
        server.wait_granting()
        options = {"restart_grace": 0, "session_timeout": 3}
        with (
            pytest.raises(TooWeak, match="proven"),
            recipes.connect(server.url("app"), require="proven", **options),
        ):
            pass
        with recipes.connect(server.url("app"), **options) as client:
            assert not client.guarantees.proven
            grant = client.lock("x").acquire(timeout=10)
            filled(server, len(server.get("app:x")))
            assert not server.get("app:x"), "it should have been evicted"
            assert eventually(lambda: not grant.held, 10)
            again = client.lock("x").acquire(timeout=10)
            assert again.token > grant.token
            again.release()


def test_a_server_that_forgets_nothing_is_proven_and_keeps_what_is_held_when_it_is_full() -> None:
    """A store of what has no room deletes the item that is there; neither a take nor a renewal may."""
    with started("-M", "-m", "1", "-I", "512k") as server:
        server.wait_granting()
        options = {"restart_grace": 0, "session_timeout": 3}
        with (
            recipes.connect(server.url("app"), require="proven", **options) as client,
            recipes.connect(server.url("app"), require="proven", **options) as other,
        ):
            grant = client.lock("x").acquire(timeout=10)
            item = server.get("app:x")
            assert "SERVER_ERROR" in filled(server, len(item))
            with pytest.raises(recipes.StoreFull):
                client.lock("y").acquire(timeout=5)
            assert other.lock("x").try_acquire() is None
            with pytest.raises(LockTimeout):
                other.lock("x").acquire(timeout=7)  # beyond a session, so that it is renewed meanwhile
            assert grant.held
            assert server.get("app:x") == item
            grant.release()
            after = other.lock("x").acquire(timeout=10)
            assert after.token > grant.token
            after.release()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_server_that_does_not_count_is_refused(asynchronous: bool) -> None:
    async def opened() -> None:
        async with recipes.connect_async(server.url("app")):
            pass

    def opened_blocking() -> None:
        with recipes.connect(server.url("app")):
            pass

    with started("-C") as server, pytest.raises(StoreRefused, match="-C"):
        asyncio.run(opened()) if asynchronous else opened_blocking()


def test_an_item_lives_for_its_lease_though_the_server_ends_it_early(alone: servers.Memcached) -> None:
    ended: list[str] = []
    session = MemcachedSession("m", Endpoint(alone.host, alone.port), Acts("m", "ttl:", 0), ended.append)
    for number in range(5):
        value = f"s/{number}"
        begun = boot_time()
        took = session.carry_out(Command(Take(str(number), value, 2.0), "s", NOBODY), 5)
        assert took.value == value
        assert eventually(lambda: not alone.get(f"ttl:{number}"), 10, every_s=0.01)  # noqa: B023 - it is over
        assert boot_time() - begun > 2.0
    assert session.carry_out(Command(Keep((("0", "s/0"),), 2.0), "s", NOBODY), 5) == (False,)
    session.close(1)
    assert not ended
    assert took != Cell()


def test_fault_43_all_descriptors_are_closed_behind_its_back(alone: servers.Memcached) -> None:
    url = alone.url("app")
    with (
        recipes.connect(url, restart_grace=GRACE_S, session_timeout=3) as other,
        other.lock("x, of another").acquire(timeout=10) as theirs,
        Worker("faults.closer", "blocking", url, 3, "x") as closer,
    ):
        closed_behind(closer, theirs.token, lambda: other.lock("x").try_acquire() is None, theirs.release)
