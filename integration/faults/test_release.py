"""Releasing twice, from elsewhere, and after an operator deleted the contender."""

from __future__ import annotations

import asyncio

import recipes
from integration import servers
from integration.faults.labs import LASTING_S, Lab, at_once
from integration.faults.looking import remove, token_of
from integration.proxy import Proxy
from recipes._run.clock import boot_time

SOON_S = 20
BURST = 200


@at_once()
def test_fault_25_double_release(lab: Lab) -> None:
    one, other = lab.actor(), lab.actor()
    first = one.acquire(lab.name)
    waiting = other.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)

    assert first.release() is True
    second = waiting.result(SOON_S)
    assert first.release() is False
    assert first.verify() is False
    assert second.verify()
    (own,) = lab.contenders()
    assert token_of(lab.server, own) == second.token
    assert len(lab.seen.of("lock.released", name=lab.name)) == 1
    assert not lab.seen.of("lock.lost", name=lab.name)


@at_once()
def test_fault_25_release_by_another_thread_or_task(lab: Lab) -> None:
    one = lab.actor()
    held = one.acquire(lab.name)
    assert one.start(held.grant.release).result(SOON_S) is True
    assert held.held is False
    assert held.release() is False
    assert lab.contenders() == []
    assert one.acquire(lab.name, timeout=20).release()


@at_once()
def test_fault_25_release_by_many_at_once(lab: Lab) -> None:
    one, other = lab.actor(), lab.actor()
    for _ in range(10):
        held = one.acquire(lab.name)
        waiting = other.start_acquire(lab.name)
        assert lab.contenders_become(2)
        answers = [one.start(held.grant.release) for _ in range(8)]
        assert sorted(answer.result(SOON_S) for answer in answers) == [False] * 7 + [True]
        granted = waiting.result(SOON_S)
        assert granted.verify()
        assert granted.release()
    assert not lab.seen.of("lock.lost")


@at_once()
def test_fault_32_contender_of_a_holder_deleted(lab: Lab) -> None:
    one, other = (lab.actor(session_timeout=LASTING_S) for _ in range(2))
    held = one.acquire(lab.name)
    kept = one.acquire("another lock of the same session")
    (own,) = [path for path in lab.contenders() if token_of(lab.server, path) == held.token]
    waiting = other.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)

    remove(lab.server, own)
    removed_at = boot_time()
    assert held.wait_lost(2 * LASTING_S)
    told_s = boot_time() - removed_at
    lab.figure(f"told {told_s:.2f} s after the deletion")
    renewal_s = LASTING_S / held.grant._hold.session.protocol.renewals_per_ttl
    assert told_s <= renewal_s + 1 + lab.pace.late_s(removed_at)
    assert held.held is False
    assert "removed" in held.grant.lost_reason

    new = waiting.result(SOON_S)
    assert held.release() is False
    assert held.verify() is False
    assert new.verify()
    assert new.held
    assert kept.held
    assert kept.verify()  # the session lives on
    assert len(lab.contenders()) == 2
    lab.seen.wait("lock.lost", name=lab.name, token=held.token)
    assert len(lab.seen.of("lock.lost")) == 1
    assert not lab.seen.of("session.lost")


@at_once()
def test_fault_32_contender_of_a_waiter_deleted(lab: Lab) -> None:
    held = lab.actor(session_timeout=LASTING_S).acquire(lab.name)
    waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    (queued,) = [path for path in lab.contenders() if token_of(lab.server, path) != held.token]

    remove(lab.server, queued)
    assert held.release()
    granted = waiting.result(2 * SOON_S)
    if isinstance(lab.server, servers.ZooKeeper) and not granted.verify():
        # The blocker's deletion proves the session, and not a node that somebody else deleted (S2
        # exempts operators): what was granted is found lost by the first renewal or verify.
        assert granted.wait_lost(2 * LASTING_S)
        assert granted.release() is False
        lab.seen.wait("lock.lost", name=lab.name, token=granted.token)
        granted = lab.actor().acquire(lab.name, timeout=SOON_S)
    else:
        assert len(lab.seen.of("lock.requeued", name=lab.name)) == 1
    assert granted.verify()
    assert token_of(lab.server, lab.contenders()[0]) == granted.token
    assert len(lab.contenders()) == 1


@at_once()
def test_fault_32_contender_deleted_and_a_verify_finds_it(lab: Lab) -> None:
    held = lab.actor(session_timeout=15).acquire(lab.name)  # no renewal finds it before
    remove(lab.server, lab.contenders()[0])
    assert held.verify() is False
    assert held.held is False
    assert held.grant.lost.is_set()
    lab.seen.wait("lock.lost", name=lab.name, token=held.token)
    assert lab.actor().acquire(lab.name, timeout=SOON_S).verify()
    assert held.release() is False
    assert len(lab.contenders()) == 1


def test_fault_9_a_release_goes_ahead_of_a_burst_of_acquires(etcd34: servers.Etcd, prefix: str) -> None:
    """One asyncio client has so many calls under way and no more; on a slow way the others queue for long."""

    async def main(proxy: Proxy) -> None:
        url = proxy.url(prefix)
        async with recipes.connect_async(url, session_timeout=60, request_timeout=60) as client:
            held = await client.lock("held").acquire()
            proxy.delay(0.1)
            burst = [asyncio.ensure_future(client.lock(f"x{n}").acquire()) for n in range(BURST)]
            await asyncio.sleep(0)  # they are asked for
            assert await held.release()
            assert sum(task.done() for task in burst) < BURST / 2
            proxy.heal()
            for grant in await asyncio.gather(*burst):
                assert grant.held

    with Proxy.of(etcd34) as proxy:
        asyncio.run(main(proxy))
