"""Looking at queues from outside: who holds, who waits, and who they say they are."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest

from recipes import ContenderInfo
from recipes._contract.names import MAX_ENCODED_BYTES
from tests.contract.listing import join
from tests.contract.world import LONG, Party, World, until


def look(party: Party, name: str, **options: Any) -> tuple[list[ContenderInfo], list[ContenderInfo]]:
    """Return the holders and the waiters of a lock, which one client sees."""
    lock = party.client.lock(name)
    holders = party.api.do(lambda: lock.holders(**options))
    return holders, party.api.do(lambda: lock.waiters(**options))


class Inspecting:
    """`Lock.holders`, `Lock.waiters`, `Client.locks`, and ``connect(owner=...)``."""

    @pytest.mark.needs("has_queue")
    def test_who_holds_and_who_waits(self, world: World) -> None:
        a, b = world.client(owner="nightly 夜", **LONG), world.client(**LONG)
        assert look(b, "x/y") == ([], [])
        began = time.time()
        grant = a.acquire("x/y")
        waiting = b.queue_up("x/y")
        with b.tap.counting() as asked:
            ((holder,), (waiter,)) = look(b, "x/y")
        assert len(asked) <= 4
        assert (holder.lock, holder.position, holder.holds, holder.mode) == ("x/y", 0, True, "exclusive")
        assert (holder.token, holder.mine, holder.ours) == (grant.token, False, True)
        assert (holder.owner, holder.host) == ("nightly 夜", socket.gethostname())
        assert holder.pid == os.getpid()
        assert holder.since is not None
        assert began - 1 <= holder.since <= time.time() + 1
        assert holder.session == a.client.session.id
        assert (waiter.position, waiter.holds, waiter.mine) == (1, False, True)
        assert (waiter.owner, waiter.host, waiter.pid, waiter.since) == (None, None, None, None)
        assert holder.key != waiter.key
        assert look(a, "x/y")[0][0].mine
        assert look(b, "x/y", limit=1) == ([holder], [])
        a.release(grant)
        assert waiting.result(5).token == waiter.token
        assert [one.token for one in look(a, "x/y")[0]] == [waiter.token]

    @pytest.mark.needs("has_queue")
    def test_readers_and_a_writer_that_downgraded_hold_together(self, world: World) -> None:
        a, b = world.client(owner="writer", **LONG), world.client(owner="reader", **LONG)
        written = a.writer.acquire("x")
        reading = b.reader.queue_up("x")
        holders, waiters = look(a, "x")
        assert [(one.owner, one.mode) for one in holders] == [("writer", "exclusive")]
        assert [(one.owner, one.mode) for one in waiters] == [("reader", "shared")]
        a.downgrade(written)
        read = reading.result(5)
        holders, waiters = look(b, "x")
        assert [(one.owner, one.mode, one.token) for one in holders] == [
            ("writer", "shared", written.token),
            ("reader", "shared", read.token),
        ]
        assert not waiters
        assert b.reader.try_acquire("x").held
        assert b.writer.try_acquire("x") is None

    @pytest.mark.needs("has_queue")
    def test_all_locks(self, world: World) -> None:
        a, b = world.client(owner="a", **LONG), world.client(**LONG)
        names = ["x", "x/y", ".", "日本", "x "]
        assert a.api.do(a.client.locks) == {}
        grants = {name: a.acquire(name) for name in names}
        free = b.acquire("free")
        b.release(free)
        waiting = b.queue_up("x")
        found = b.api.do(b.client.locks)
        assert set(found) == set(names)
        assert all(found[name][0].token == grants[name].token for name in names)
        assert [one.holds for one in found["x"]] == [True, False]
        assert len(b.api.do(lambda: b.client.locks(limit=2))) == 2
        a.release(grants["x"])
        assert waiting.result(5).held

    @pytest.mark.needs("has_queue")
    def test_a_queue_that_has_no_name_of_ours_hides_no_other(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        join(a, "x" * (MAX_ENCODED_BYTES + 1))
        grant = a.acquire("x")
        assert b.api.do(b.client.locks).keys() == {"x"}
        a.release(grant)

    @pytest.mark.needs("has_queue")
    def test_others_are_shown_as_what_they_are(self, world: World) -> None:
        client = world.client(**LONG)
        planted = world.store.plant("x", "foreign")
        assert until(lambda: look(client, "x")[0], 5)
        ((foreign,), waiters) = look(client, "x")
        assert not waiters
        assert (foreign.mine, foreign.pid, foreign.host) == (False, None, None)
        assert foreign.ours is not world.store.has_foreign
        assert (foreign.token > 0) is world.store.strangers_have_tokens
        assert planted.endswith(foreign.key.rpartition("/")[2])
        world.store.remove(planted)

    @pytest.mark.needs("has_queue")
    def test_an_operator_expels_by_token_that_one_and_nobody_else(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant = a.acquire("x")
        waiting = b.queue_up("x")
        lock = b.client.lock("x")
        holder, waiter = b.api.do(lock.contenders)
        assert (holder.token, holder.holds, waiter.holds) == (grant.token, True, False)
        assert b.api.do(lambda: lock.evict(waiter.token + 10**6)) is False
        assert b.api.do(lambda: b.client.lock("y").evict(grant.token)) is False
        assert b.api.do(lock.contenders) == [holder, waiter]
        assert b.api.do(lambda: lock.evict(grant.token)) is True
        assert b.api.do(lambda: lock.evict(grant.token)) is False
        assert waiting.result(5).token == waiter.token
        assert not a.verify(grant)
        assert grant.lost_reason is not None
        assert "removed" in grant.lost_reason

    @pytest.mark.needs("has_queue")
    def test_an_operator_expels_by_the_id_that_is_shown(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant = a.acquire("x")
        lock = b.client.lock("x")
        (holder,) = b.api.do(lock.holders)
        assert holder.id == grant.id
        assert b.api.do(lambda: lock.evict("no such")) is False
        assert b.api.do(lambda: lock.evict(grant.id)) is True
        assert not a.verify(grant)

    @pytest.mark.needs("has_queue")
    def test_one_that_is_no_client_of_ours_is_evicted_likewise(self, world: World) -> None:
        client = world.client(**LONG)
        world.store.plant("x", "foreign")
        lock = client.client.lock("x")
        assert until(lambda: client.api.do(lock.contenders), 5)
        (foreign,) = client.api.do(lock.contenders)
        assert client.api.do(lambda: lock.evict(foreign.token)) is True
        assert client.api.do(lock.contenders) == []

    @pytest.mark.needs("has_queue")
    @pytest.mark.parametrize("wrong", [None, "7", 1.0, True])
    def test_a_token_that_is_none_is_refused(self, world: World, wrong: Any) -> None:
        client = world.client(is_open=False)
        with pytest.raises(TypeError, match=f"a token is a whole number, and an id .*, not {wrong!r}"):
            client.api.do(lambda: client.client.lock("x").evict(wrong))
        assert not client.tap.asked

    @pytest.mark.needs("has_queue")
    @pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, True, None])
    def test_a_limit_that_does_not_fit_is_refused(self, world: World, wrong: Any) -> None:
        client = world.client(is_open=False)
        lock = client.client.lock("x")
        for ask in (lock.holders, lock.waiters, client.client.locks):
            with pytest.raises((ValueError, TypeError), match="limit"):
                client.api.do(lambda ask=ask: ask(limit=wrong))
        assert not client.tap.asked
