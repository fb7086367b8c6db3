"""Never run: uses the public surface as users do, and is checked by mypy --strict and pyright."""

# What should be an error is marked with type: ignore, and is an error if it is none.
# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any, assert_type

import redis
import redis.asyncio
import tenacity

import recipes
from recipes import events, fencing, telemetry


def blocking() -> None:
    client = recipes.connect("zookeeper://zk1:2181,zk2:2181/app", session_timeout=15, request_timeout=5.0)
    assert_type(client, recipes.Client)
    with recipes.connect("etcds://h/app", ssl_context=ssl.create_default_context()) as client:
        assert_type(client, recipes.Client)
        lock = client.lock("reports/nightly")
        assert_type(lock, recipes.Lock)
        assert_type(lock.name, str)
        with lock as grant:
            assert_type(grant, recipes.Grant)
            assert_type(grant.token, int)
            assert_type(grant.id, str)
            assert_type(grant.held, bool)
            assert_type(grant.remaining, float)
            assert_type(grant.name, str)
            assert_type(grant.lost_reason, str | None)
            assert_type(grant.lost.is_set(), bool)
            assert_type(grant.lost.wait(0.5), bool)
            assert_type(grant.lost.wait(timeout=None), bool)
            assert_type(grant.verify(), bool)
            grant.check()
        with lock.acquire(timeout=5) as grant:
            assert_type(grant, recipes.Grant)
            grant.lost.add_callback(told)
        if maybe := lock.try_acquire():
            assert_type(maybe, recipes.Grant)
            assert_type(maybe.release(), bool)
        assert_type(lock.try_acquire(timeout=0.5), recipes.Grant | None)
        assert_type(client.grants, list[recipes.Grant])
        assert_type(client.pending_cleanups, int)
        session(client.session)
    assert_type(client.open(), recipes.Client)
    client.close()


def decorating() -> None:
    client = recipes.connect("memory://")
    awaited = recipes.connect_async("memory://")

    @client.lock("x")
    def work(number: int, *, text: str = "") -> bool:
        return bool(text) and number > 0

    assert_type(work(1, text="a"), bool)
    work("1")  # type: ignore[arg-type]
    work()  # type: ignore[call-arg]

    @awaited.semaphore("x", 3).of(2)
    async def other(number: int) -> bytes:
        return bytes(number)

    async def use() -> None:
        assert_type(await other(1), bytes)
        await other("1")  # type: ignore[arg-type]
        assert_type(await awaited.lock("x").locked(), bool)

    assert_type(client.lock("x").locked(), bool)
    client.lock("x").acquire(blocking=False)  # type: ignore[arg-type]
    awaited.lock("x")(work)  # type: ignore[arg-type]
    asyncio.run(use())


def retrying() -> None:
    recipes.connect("memory://", retry=tenacity.wait_fixed(0.5) + tenacity.wait_random(0, 1))
    recipes.connect_async(
        "memory://", retry=(tenacity.wait_exponential(max=2), tenacity.stop_after_attempt(3))
    )
    recipes.connect("memory://", retry=3)  # type: ignore[arg-type]


def options() -> None:
    url = "zookeepers://zk1:2281/app"
    recipes.connect(url, username="me", password="secret", tls_ca="ca.pem", sasl="DIGEST-MD5", acl=[object()])
    recipes.connect_async(
        url, username="me", password=lambda: "secret", tls_cert=Path("c"), tls_key=Path("k")
    )
    recipes.connect("redis+sentinel://s1/m/0", prefix="lock:", restart_grace=30, replicas=2)
    recipes.connect_async("redis://h", restart_grace=2.5)
    recipes.connect(redis.Redis(), prefix="lock:")
    recipes.connect_async(redis.asyncio.Redis())
    recipes.connect(3)  # type: ignore[arg-type]
    recipes.connect("redis://h", replica=1)  # type: ignore[arg-type]
    recipes.connect("redis://h", replicas="1")  # type: ignore[arg-type]
    recipes.connect(url, sesion_timeout=3)  # type: ignore[arg-type]
    recipes.connect_async(url, pasword="x")  # type: ignore[arg-type]
    recipes.connect(url, tls_ca=3)  # type: ignore[arg-type]
    recipes.connect(url, sasl="PLAIN")  # type: ignore[arg-type]


def mistaken(client: recipes.Client, awaited: recipes.AsyncClient) -> None:
    client.lock(3)  # type: ignore[arg-type]
    client.lock("x", 5)  # type: ignore[call-arg]
    client.rlock("x", max_hold="5")  # type: ignore[arg-type]
    client.rwlock("x", on_lost="tell")  # type: ignore[call-arg]
    awaited.rwlock("x", on_lost="told")  # type: ignore[arg-type]
    client.lock("x").acquire(5)  # type: ignore[call-arg]
    client.lock("x").acquire(max_waiters="2")  # type: ignore[arg-type]
    _ = awaited.lock("x").acquire(time=5)  # type: ignore[arg-type]
    _ = awaited.lock("x").try_acquire(timeout="5")  # type: ignore[arg-type]
    recipes.conect("memory://")  # type: ignore[attr-defined]
    recipes.etcd.guard(7)  # type: ignore[arg-type]


def hanging(client: recipes.Client) -> None:
    with client.lock("x", max_hold=5) as grant:
        grant.progress()
    with client.rwlock("x", max_hold=0.5).writer as written:
        written.progress()


def reaching_modules(grant: recipes.Grant, transaction: Any) -> None:
    assert_type(recipes.etcd.guard(grant), dict[str, Any])
    recipes.zookeeper.guard(grant, transaction)
    recipes.sql.guard(transaction, grant)
    assert_type(recipes.testing.Store(), recipes.testing.Store)
    recipes.events.configure(level="INFO")
    assert_type(recipes.errors.LockLost, type[recipes.LockLost])


def inspecting(client: recipes.Client) -> None:
    lock = client.lock("x")
    assert_type(lock.holders(), list[recipes.ContenderInfo])
    assert_type(lock.waiters(limit=5), list[recipes.ContenderInfo])
    assert_type(lock.contenders(), list[recipes.ContenderInfo])
    assert_type(lock.evict(7), bool)
    assert_type(client.locks(), dict[str, list[recipes.ContenderInfo]])
    lock.acquire(on_queued=print, on_position=print).release(wait=False)


def taking_permits(client: recipes.Client) -> None:
    semaphore = client.semaphore("x", limit=4, max_hold=5)
    assert_type(semaphore, recipes.Semaphore)
    assert_type(semaphore.acquire(2, timeout=1, max_waiters=3), recipes.SemaphoreGrant)
    assert_type(semaphore.try_acquire(weight=2), recipes.SemaphoreGrant | None)
    with semaphore.of(3) as grant:
        assert_type(grant, recipes.SemaphoreGrant)
        assert_type(grant.token, None)
        assert_type((grant.id, grant.weight), tuple[str, int])
        assert_type(semaphore.evict(grant.id), bool)
    client.semaphore("x")  # type: ignore[call-arg]
    semaphore.acquire("2")  # type: ignore[arg-type]


async def taking_permits_awaiting(client: recipes.AsyncClient) -> None:
    async with client.semaphore("x", 4, on_lost="tell").of(2) as grant:
        assert_type(grant, recipes.AsyncSemaphoreGrant)
    assert_type(await client.semaphore("x", 4).acquire(2), recipes.AsyncSemaphoreGrant)


def holding_several(client: recipes.Client) -> None:
    lock, catalog, gpu = client.lock("x"), client.rwlock("y"), client.semaphore("z", 4)
    multilock = client.multilock(lock, catalog.writer, gpu.of(2), client.rlock("r"))
    assert_type(multilock, recipes.MultiLock)
    assert_type(multilock.acquire(timeout=1, on_session_lost="fail"), recipes.MultiGrant)
    assert_type(multilock.try_acquire(), recipes.MultiGrant | None)
    with multilock as grant:
        assert_type(grant, recipes.MultiGrant)
        assert_type((grant.id, grant.token, grant.held), tuple[str, None, bool])
        assert_type(grant[lock], recipes.Grant)
        assert_type(grant[catalog.writer], recipes.WriteGrant)
        assert_type(grant[gpu].weight, int)
        assert_type(grant.verify(), bool)
        assert_type(grant.release(), bool)
    client.multilock(catalog)  # type: ignore[arg-type]
    client.multilock("x")  # type: ignore[arg-type]
    multilock.holders()  # type: ignore[attr-defined]


async def holding_several_awaiting(client: recipes.AsyncClient) -> None:
    lock, gpu = client.lock("x"), client.semaphore("z", 4)
    async with client.multilock(lock, gpu.of(2), on_lost="tell") as grant:
        assert_type(grant, recipes.AsyncMultiGrant)
        assert_type(grant[lock], recipes.AsyncGrant)
        assert_type(grant[gpu].weight, int)
        assert_type(await grant.verify(), bool)
    async with client.multilock(lock, gpu).acquire(timeout=1) as grant:
        assert_type(grant, recipes.AsyncMultiGrant)
    assert_type(await client.multilock(lock).try_acquire(), recipes.AsyncMultiGrant | None)


def leading(client: recipes.Client) -> None:
    election = client.election("x", max_hold=5)
    assert_type(election, recipes.Election)
    with election.campaign("a:1", timeout=1, max_waiters=3) as leadership:
        assert_type(leadership, recipes.Leadership)
        assert_type((leadership.value, leadership.held), tuple[str, bool])
        assert_type(leadership.token, int)
        leadership.proclaim("a:2")
        leadership.proclaim(7)  # type: ignore[arg-type]
    assert_type(election.leader(), recipes.Leader | None)
    with election.observe() as leaders:
        assert_type(leaders.next(timeout=1), recipes.Leader | None)
        assert_type(leaders.next(1, "nothing"), recipes.Leader | str | None)
        for leader in leaders:
            assert_type(leader, recipes.Leader | None)
    assert_type(election.run(lambda leadership: leadership.value), str)
    assert_type(election.run(work, value="a:1"), int)
    assert_type(election.holders(), list[recipes.ContenderInfo])
    election.acquire()  # type: ignore[attr-defined]


def work(leadership: recipes.Leadership) -> int:
    return 7


async def work_awaiting(leadership: recipes.AsyncLeadership) -> int:
    return 7


async def leading_awaiting(client: recipes.AsyncClient) -> None:
    election = client.election("x", on_lost="tell")
    async with election.campaign("a:1", timeout=1) as leadership:
        assert_type(leadership, recipes.AsyncLeadership)
        await leadership.proclaim("a:2")
    assert_type(await election.campaign(), recipes.AsyncLeadership)
    assert_type(await election.leader(), recipes.Leader | None)
    async with election.observe() as leaders:
        assert_type(await leaders.next(timeout=1), recipes.Leader | None)
        async for leader in leaders:
            assert_type(leader, recipes.Leader | None)
    assert_type(await election.run(work_awaiting, value="a:1"), int)
    await election.run(work)  # type: ignore[arg-type]


def being_a_member(client: recipes.Client) -> None:
    group = client.group("x")
    assert_type(group, recipes.Group)
    with group.join(b"a:1", id="a", timeout=1) as membership:
        assert_type(membership, recipes.Membership)
        assert_type((membership.member_id, membership.data), tuple[str, bytes])
        assert_type(membership.token, int)
        membership.update(b"a:2")
        membership.update("a:2")  # type: ignore[arg-type]
    assert_type(group.members(), tuple[recipes.Member, ...])
    with group.watch() as watching:
        assert_type(watching.next(timeout=1), tuple[recipes.Member, ...] | None)
        for members in watching:
            assert_type([(one.id, one.data) for one in members], list[tuple[str, bytes]])
    assert_type(group.holders(), list[recipes.ContenderInfo])
    try:
        group.join(id="a", timeout=0)
    except recipes.AlreadyJoined as refused:
        assert_type(refused.member_id, str)
    group.join("a:1")  # type: ignore[arg-type]
    group.join(b"", "a")  # type: ignore[call-arg]
    group.acquire()  # type: ignore[attr-defined]


async def being_a_member_awaiting(client: recipes.AsyncClient) -> None:
    group = client.group("x", on_lost="tell")
    async with group.join(b"a:1", id="a", timeout=1) as membership:
        assert_type(membership, recipes.AsyncMembership)
        await membership.update(b"a:2")
    assert_type(await group.join(), recipes.AsyncMembership)
    assert_type(await group.members(), tuple[recipes.Member, ...])
    async with group.watch() as watching:
        assert_type(await watching.next(timeout=1), tuple[recipes.Member, ...] | None)
        async for members in watching:
            assert_type(members, tuple[recipes.Member, ...])


def entering_again(client: recipes.Client) -> None:
    lock = client.rlock("x")
    assert_type(lock, recipes.RLock)
    with lock as outer, lock.acquire(timeout=1) as inner:
        assert_type(outer, recipes.Grant)
        assert_type(inner.release(), bool)
    assert_type(lock.try_acquire(), recipes.Grant | None)


async def entering_again_awaiting(client: recipes.AsyncClient) -> None:
    lock = client.rlock("x", on_lost="tell")
    assert_type(lock, recipes.AsyncRLock)
    async with lock as outer:
        assert_type(outer, recipes.AsyncGrant)
    assert_type(await lock.try_acquire(timeout=1), recipes.AsyncGrant | None)


def told(grant: recipes.Grant) -> None:
    pass


async def told_later(grant: recipes.AsyncGrant) -> None:
    await grant.release()


def session(current: recipes.Session) -> None:
    assert_type(current.id, str | None)
    assert_type(current.timeout, float | None)
    assert_type(current.remaining, float)
    if current.state == "suspect":
        pass


async def awaiting() -> None:
    async with recipes.connect_async("etcd://10.0.0.1:2379/app") as client:
        assert_type(client, recipes.AsyncClient)
        lock = client.lock("reports/nightly", on_lost="tell")
        assert_type(lock, recipes.AsyncLock)
        async with lock as grant:
            assert_type(grant, recipes.AsyncGrant)
            assert_type(grant.token, int)
            assert_type(await grant.verify(), bool)
            assert_type(grant.lost.is_set(), bool)
            assert_type(await grant.lost.wait(1), bool)
            grant.lost.add_callback(lambda lost: lost.check())
        grant = await client.lock("x").acquire(timeout=5)
        assert_type(grant, recipes.AsyncGrant)
        assert_type(await grant.release(), bool)
        async with client.lock("x").acquire(timeout=5) as grant:
            assert_type(grant, recipes.AsyncGrant)
        if maybe := await lock.try_acquire():
            assert_type(maybe, recipes.AsyncGrant)
        assert_type(client.grants, list[recipes.AsyncGrant])
        first, second = await asyncio.gather(lock.acquire(), client.lock("y").acquire())
        assert_type(first, recipes.AsyncGrant)
        assert_type(second, recipes.AsyncGrant)
    assert_type(await client.open(), recipes.AsyncClient)
    await client.close()


def failing(lock: recipes.Lock) -> None:
    try:
        lock.acquire(timeout=1, max_waiters=10, on_session_lost="fail")
    except recipes.LockTimeout as late:
        assert_type(late.timeout_s, float)
        assert_type(late.position, int | None)
        assert_type(late.lock, str)
    except recipes.QueueFull as full:
        assert_type(full.max_waiters, int)
        assert_type(full.position, int)
    except recipes.WouldDeadlock as held:
        assert_type(held.token, int | None)
    except recipes.LockLost as lost:
        assert_type(lost.reason, str)
    except recipes.StoreError as trouble:
        assert_type(trouble.store, str)
    except TimeoutError:
        pass
    except recipes.SessionLost as gone:
        assert_type(gone.reason, str)
        assert_type(gone.lock, str | None)


def sharing(client: recipes.Client) -> None:
    with client.group("indexers").join() as membership, membership.partitions(["a", "b"]) as partitions:
        assert_type(partitions, recipes.Partitions)
        for assignment in partitions:
            assert_type(assignment, recipes.Assignment[recipes.Grant])
            assert_type(assignment["a"].token, int)
            assert_type(list(assignment), list[str])
            for item, grant in assignment.leaving.items():
                assert_type(item, str)
                assert_type(grant.release(), bool)
        assert_type(partitions.next(timeout=1), recipes.Assignment[recipes.Grant] | None)


async def sharing_soon(client: recipes.AsyncClient) -> None:
    async with client.group("indexers").join() as membership:
        partitions = membership.partitions(["a", "b"])
        async for assignment in partitions:
            assert_type(assignment.new["a"], recipes.AsyncGrant)
        assert_type(await partitions.next(), recipes.Assignment[recipes.AsyncGrant] | None)
        await partitions.close()


def meeting(client: recipes.Client) -> None:
    barrier = client.barrier("step", 3)
    assert_type(barrier, recipes.Barrier)
    assert_type(barrier.name, str)
    assert_type(barrier.parties, int)
    assert_type(barrier.wait(), int)
    assert_type(barrier.wait(5), int)
    try:
        assert_type(barrier.enter(timeout=5), int)
        barrier.leave(timeout=None)
    except recipes.BarrierBroken as broken:
        assert_type(broken.name, str)
        assert_type(broken.generation, int)
        assert_type(broken.reason, str)
    except recipes.BarrierMismatch as mismatch:
        assert_type(mismatch.parties, int)
        assert_type(mismatch.others, int)
    client.barrier("step", parties="3")  # type: ignore[arg-type]


async def meeting_soon(client: recipes.AsyncClient) -> None:
    barrier = client.barrier("step", parties=3)
    assert_type(barrier, recipes.AsyncBarrier)
    assert_type(await barrier.wait(timeout=5), int)
    assert_type(await barrier.enter(), int)
    await barrier.leave()


def requiring() -> None:
    client = recipes.connect("sqlite:///tmp/locks.db", require={"fencing", "many_processes"})
    recipes.connect_async("etcd://h/app", require="many_machines")
    assert_type(client.guarantees, recipes.Guarantees)
    assert_type(client.guarantees.fencing, bool)
    recipes.connect("memory://", require={"fair", "shared", "proven"})
    try:
        recipes.connect("memory://", require=["durable"])
    except recipes.TooWeak as weak:
        assert_type(weak.missing, tuple[str, ...])


def watching() -> None:
    stop = events.log_json(sys.stdout)
    stop()

    def hook(transition: events.Transition) -> None:
        assert_type(transition.event, str)
        assert_type(transition.token, int | None)

    unsubscribe = events.subscribe(hook)
    unsubscribe()


def gating(grant: recipes.Grant, database: Any) -> None:
    sql = fencing.SqlGate("app.fences", paramstyle="format")
    assert_type(sql.ddl(), str)
    sql.admit(database, "reports", grant)
    sql.admit(database, "reports", grant.token, shared=True)
    file = fencing.FileGate(Path("catalog.json"))
    file.write(grant, b"")
    assert_type(file.read(grant, shared=True), bytes)
    with file.admit(grant):
        pass
    with fencing.MemoryGate().admit("prices", grant):
        pass
    redis = fencing.RedisGate(database, prefix="fence:")
    redis.eval("reports", grant, "return 1", keys=["a"], args=[1])
    assert_type(redis.transaction("reports", grant, lambda pipe: pipe.set("a", 1)), list[Any])
    assert_type(fencing.Seen(3, 2).admit("reports", grant), fencing.Seen)
    try:
        fencing.Seen(3, 2).admit("reports", 1)
    except recipes.StaleToken as stale:
        assert_type(stale.name, str)
        assert_type(stale.token, int)
        assert_type(stale.seen, int)


async def gating_soon(grant: recipes.AsyncGrant, database: Any) -> None:
    await fencing.AsyncSqlGate().admit(database, "reports", grant)
    await fencing.AsyncRedisGate(database).transaction("reports", grant, lambda pipe: pipe.set("a", 1))


def measuring() -> None:
    telemetry.prometheus(name_label=str, buckets=(0.1, 1))()
    telemetry.otel_metrics(name_label=lambda name: name[:3])()
    stop = telemetry.otel_spans()
    stop()
    assert_type(telemetry.INSTRUMENTS[0], telemetry.Instrument)


class Guarded:
    """Holds what it was given."""

    def __init__(self, client: recipes.Client) -> None:
        self._lock: recipes.Lock = client.lock("x")
        self._grant: recipes.Grant | None = None

    def start(self) -> int | None:
        self._grant = self._lock.acquire()
        return self._grant.token

    def stop(self) -> bool:
        return self._grant is not None and self._grant.release()
