"""Redis on several servers, with users and TLS, and through a client that a program has already."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

import recipes
from integration import servers
from integration.credentials.authority import Authority
from integration.credentials.servers import USER, SecureRedis
from integration.harness.redis import MASTER
from integration.needing import needed
from recipes import events

NAMES = ("a", "b", "c", "{d", "reports/nightly")
"""Their keys are on all three masters of a cluster."""


@pytest.fixture(scope="module")
def sentinels() -> Iterator[servers.RedisSentinels]:
    """Yield a master, two replicas and three sentinels."""
    with needed("redis-sentinels", servers.redis_sentinels) as one:
        yield one


@pytest.fixture(scope="module")
def cluster() -> Iterator[servers.RedisCluster]:
    """Yield a cluster of six nodes."""
    with needed("redis-cluster", servers.redis_cluster) as one:
        yield one


@pytest.fixture
def noticed() -> Iterator[list[str]]:
    """Yield what is noticed of stores."""
    found: list[str] = []

    def hook(transition: events.Transition) -> None:
        if transition.event == "store.stranger":
            found.append(str(transition.reason))

    forget = events.subscribe(hook)
    yield found
    forget()


def works(place: Any, **options: Any) -> None:
    """See that one of two clients waits for the other, and that asyncio meets threads."""
    options = {"restart_grace": 0, **options}
    with recipes.connect(place, **options) as one, recipes.connect(place, **options) as other:
        with one.lock("a"):
            assert other.lock("a").try_acquire() is None
        assert other.lock("a").try_acquire(timeout=5) is not None


def works_in_asyncio(place: Any, *, sentinels: Sequence[Any] = (), **options: Any) -> None:
    """See the same, on one loop; close the client, and those of sentinels, which it leaves open."""
    options = {"restart_grace": 0, **options}

    async def main() -> None:
        given = place() if callable(place) else place
        async with (
            recipes.connect_async(given, **options) as one,
            recipes.connect_async(given, **options) as other,
        ):
            async with one.lock("a"):
                assert await other.lock("a").try_acquire() is None
            assert await other.lock("a").try_acquire(timeout=5) is not None
        if not isinstance(given, str):
            assert await given.set("still", "open"), "the client is its program's own"
            await given.aclose()
            for sentinel in sentinels:
                await sentinel.aclose()

    asyncio.run(main())


def test_a_client_of_redis_py_says_where_to_connect_and_stays_open(redis_server: servers.Redis) -> None:
    with redis_server.client() as client:
        works(client, prefix="own:")
        assert client.exists("own:~grace")
        assert client.set("still", "open")
    host, port = redis_server.host, redis_server.port
    works_in_asyncio(lambda: redis.asyncio.Redis(host=host, port=port), prefix="own:")


def test_sentinels_say_where_to_connect(sentinels: servers.RedisSentinels, prefix: str) -> None:
    works(sentinels.url(prefix), **sentinels.options)
    works_in_asyncio(sentinels.url(prefix), **sentinels.options)
    addresses = [(one.host, one.port) for one in sentinels.sentinels]
    with redis.sentinel.Sentinel(addresses).master_for(MASTER) as client:
        works(client, **sentinels.options)
    manager = redis.asyncio.sentinel.Sentinel(addresses)
    works_in_asyncio(lambda: manager.master_for(MASTER), sentinels=manager.sentinels, **sentinels.options)


def test_a_sentinel_that_is_away_is_passed_over(sentinels: servers.RedisSentinels, prefix: str) -> None:
    first = sentinels.sentinels[0]
    first.kill()
    try:
        works(sentinels.url(prefix), **sentinels.options)
    finally:
        first.start()
    first.pause()
    try:
        works(sentinels.url(prefix), request_timeout=1, **sentinels.options)
    finally:
        first.resume()


def test_a_master_that_no_sentinel_knows_is_refused(sentinels: servers.RedisSentinels) -> None:
    url = sentinels.url().replace(MASTER, "other")
    with pytest.raises(recipes.StoreRefused, match="knows no master 'other'"):
        works(url, replicas=2)


def test_a_client_goes_on_with_the_master_that_sentinels_promote(
    sentinels: servers.RedisSentinels, prefix: str
) -> None:
    options = {**sentinels.options, "restart_grace": 5, "session_timeout": 5}
    with recipes.connect(sentinels.url(prefix), **options) as client:
        with client.lock("a").acquire(timeout=30) as grant:
            promoted = sentinels.failover()
        assert promoted.leads
        with client.lock("a").acquire(timeout=60) as later:
            assert later.token > grant.token
            assert promoted.ask("EXISTS", f"{prefix}:a")


def refused_for(call: Callable[[], object], why: str) -> None:
    """See that it is refused and says why; an answer that itself came too late says something else."""
    for _ in range(5):
        with pytest.raises(recipes.StoreUnavailable) as caught:
            call()
        if re.search(why, str(caught.value)):
            return
    raise AssertionError(caught.value)


def test_fewer_replicas_than_stated_start_no_session(sentinels: servers.RedisSentinels, prefix: str) -> None:
    refused_for(
        lambda: works(sentinels.url(prefix), replicas=3, request_timeout=4),
        "[012] of 3 replicas acknowledged",
    )


def test_what_no_replica_knows_of_is_no_grant(sentinels: servers.RedisSentinels, prefix: str) -> None:
    """One of them may have taken over, and renew a holder that this server takes for dead."""
    options = {**sentinels.options, "restart_grace": 0, "request_timeout": 1}
    with recipes.connect(sentinels.url(prefix), **options) as client:
        with client.lock("a"):
            pass
        replicas = sentinels.others(sentinels.leader())
        for one in replicas:
            one.pause()
        try:
            refused_for(lambda: client.lock("a").try_acquire(timeout=2), "0 of 2 replicas acknowledged")
        finally:
            for one in replicas:
                one.resume()
        with client.lock("a").acquire(timeout=30) as grant:
            assert grant.verify()


def test_a_cluster_has_locks_on_all_of_its_nodes(cluster: servers.RedisCluster, prefix: str) -> None:
    works(cluster.url(prefix), **cluster.options)
    works_in_asyncio(cluster.url(prefix), **cluster.options)
    with recipes.connect(cluster.url(prefix), restart_grace=0, **cluster.options) as client:
        grants = [client.lock(name).acquire(timeout=10) for name in NAMES]
        assert set(client.locks()) == set(NAMES)
        for grant in grants:
            assert grant.release()
    seed = cluster.members[0]
    with redis.RedisCluster(host=seed.host, port=seed.port) as client:
        works(client, **cluster.options)
        assert client.set("still", "open")
    works_in_asyncio(lambda: redis.asyncio.RedisCluster(host=seed.host, port=seed.port), **cluster.options)


def test_a_node_that_is_silent_is_passed_over(cluster: servers.RedisCluster, prefix: str) -> None:
    silent = next(member for member in cluster.members if not member.leads)
    url = cluster.url(prefix)
    host = silent.address
    first = url.replace(host, "").replace(",,", ",").replace("//", f"//{host},").replace(",/", "/")
    silent.pause()
    try:
        with recipes.connect(first, restart_grace=0, request_timeout=1, replicas=0) as client:
            assert client.lock("a").try_acquire(timeout=5) is not None
    finally:
        silent.resume()


def test_a_client_goes_where_a_slot_has_moved(cluster: servers.RedisCluster, prefix: str) -> None:
    options = {**cluster.options, "restart_grace": 5, "session_timeout": 5}
    key = f"{prefix}:a"
    with recipes.connect(cluster.url(prefix), **options) as client:
        with client.lock("a").acquire(timeout=30) as grant:
            former = cluster.master_of(key)
            promoted = cluster.failover(former)
        with client.lock("a").acquire(timeout=60) as later:
            assert later.token > grant.token
            assert cluster.master_of(key) is promoted
            assert promoted.ask("EXISTS", key)


def test_a_client_goes_on_when_what_it_notes_of_a_node_has_moved(
    cluster: servers.RedisCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**cluster.options, "restart_grace": 5, "session_timeout": 5}
    promoted = cluster.failover(cluster.master_of(f"{prefix}:a"))
    with recipes.connect(cluster.url(prefix), **options) as client:
        with client.lock("a").acquire(timeout=30):
            (noted,) = promoted.ask("KEYS", f"{prefix}:~life:*")
            cluster.move(noted.decode())
            monkeypatch.setattr("recipes.stores.redis.wire.IDLE_S", -1.0)  # each request learns anew
        with client.lock("a").acquire(timeout=10) as grant:
            assert grant.verify()


def test_an_eviction_policy_is_noticed_once(
    redis_server: servers.Redis, prefix: str, noticed: list[str]
) -> None:
    redis_server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with recipes.connect(redis_server.url(prefix), restart_grace=0) as client, client.lock("a"):
            assert [said.partition(":")[0] for said in noticed] == ["maxmemory-policy is allkeys-lru"]
            assert not client.guarantees.proven
        needs = recipes.connect(redis_server.url(prefix), restart_grace=0, require={"proven"})
        with pytest.raises(recipes.TooWeak, match="proven"):
            needs.open()
        needs.close()
    finally:
        redis_server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_a_key_of_another_program_that_never_expires_is_noticed_once(
    redis_server: servers.Redis, prefix: str, noticed: list[str]
) -> None:
    with recipes.connect(redis_server.url(prefix), restart_grace=0) as client:
        redis_server.ask("SET", f"{prefix}:a", "theirs", "PX", 60_000)
        assert client.lock("a").try_acquire(timeout=0.1) is None
        assert noticed == []
        redis_server.ask("SET", f"{prefix}:a", "theirs")
        for _ in range(2):
            assert client.lock("a").try_acquire(timeout=0.1) is None
        assert len(client.lock("a").holders()) == 1
        said = f"{prefix}:a is another program's and never expires; it stands in the way"
        assert [one.startswith(said) for one in noticed] == [True]


def test_clients_agree_about_the_grace(redis_server: servers.Redis, prefix: str) -> None:
    with recipes.connect(redis_server.url(prefix), restart_grace=0):
        other = recipes.connect(redis_server.url(prefix), restart_grace=20)
        with pytest.raises(
            recipes.StoreRefused, match="restart_grace is 0 for the other clients and 20 for this"
        ):
            other.open()
        other.close()


@pytest.mark.parametrize(
    "asked", [{}, {"mutual": True}, {"tls": False}, {"tls": False, "user": False}], ids=str
)
def test_a_server_that_asks_who_is_there(asked: dict[str, Any], prefix: str) -> None:
    with needed("redis", lambda: SecureRedis(**asked)) as server:
        works(server.url(prefix), **server.options)
        works_in_asyncio(server.url(prefix), **server.options)
        works_in_asyncio(
            server.url(prefix), **{**server.options, "password": lambda: server.options["password"]}
        )
        with pytest.raises(recipes.StoreDenied):
            works(server.url(prefix), **{**server.options, "password": "another"})
        with pytest.raises(recipes.StoreDenied):
            works(server.url("forbidden"), **server.options)


def test_what_the_script_may_not_do_is_denied(prefix: str) -> None:
    with (
        needed("redis", lambda: SecureRedis(tls=False)) as server,
        recipes.connect(server.url(prefix), **server.options) as client,
    ):
        server.ask("ACL", "SETUSER", USER, "-zadd")
        with pytest.raises(recipes.StoreDenied, match=r"ACL failure|The user executing the script"):
            client.lock("a").try_acquire()
        server.ask("ACL", "SETUSER", USER, "+zadd")


def test_a_certificate_of_another_authority_is_not_accepted(prefix: str, tmp_path: Any) -> None:
    with needed("redis", SecureRedis) as server:
        options = {**server.options, "tls_ca": Authority(tmp_path / "other").ca}
        with pytest.raises(recipes.StoreUntrusted, match="certificate is not accepted"):
            works(server.url(prefix), **options)
        with pytest.raises(recipes.StoreUnavailable):
            works(server.url(prefix).replace("rediss", "redis"), password="x", request_timeout=1)
