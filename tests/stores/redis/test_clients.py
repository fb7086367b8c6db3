"""Clients of redis-py that a program has already: what is taken from them; nothing is sent."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

import recipes
from recipes.stores.redis import RedisBackend
from recipes.stores.redis.places import Cluster, Sentinels
from recipes.stores.registry import from_client

SENTINELS = [("s1", 1), ("s2", 2)]


def backend_of(client: Any, *, asynchronous: bool = False, **options: Any) -> RedisBackend:
    made = from_client(client, options, asynchronous=asynchronous)
    assert isinstance(made, RedisBackend)
    return made


class Own(redis.Redis):
    """A class of a program's own."""


@pytest.mark.parametrize(
    ("client", "label"),
    [
        (redis.Redis(), "redis://localhost:6379/0/lock"),
        (redis.Redis.from_url("redis://h:1/3"), "redis://h:1/3/lock"),
        (redis.Redis(host="h", ssl=True), "rediss://h:6379/0/lock"),
        (Own(host="::1"), "redis://[::1]:6379/0/lock"),
    ],
)
def test_the_server_is_that_of_the_client(client: Any, label: str) -> None:
    assert backend_of(client).label == label
    assert backend_of(client, prefix="app:").label == label.replace("lock", "app")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_user_and_tls_are_taken_and_timeouts_are_not(asynchronous: bool) -> None:
    kind: Any = redis.asyncio.Redis if asynchronous else redis.Redis
    given = {"username": "me", "password": "secret", "ssl_ca_certs": "/ca", "ssl_cert_reqs": "none"}
    client = kind(host="h", db=2, ssl=True, socket_timeout=9, decode_responses=True, **given)
    made = backend_of(client, asynchronous=asynchronous)
    access = made._settings.access
    assert access.db == 2
    assert given.items() <= access.options.items()
    assert not {"socket_timeout", "decode_responses", "retry"} & set(access.options)
    assert "secret" not in repr(access) + repr(dict(access.options))


def sentinel_of(module: Any, **options: Any) -> Any:
    return module.Sentinel(SENTINELS, sentinel_kwargs=options).master_for("main", **options)


def blocking_cluster(**options: Any) -> Any:
    client: Any = object.__new__(redis.RedisCluster)  # whose constructor asks its servers
    nodes = {"h:1": SimpleNamespace(host="h", port=1)}
    client.nodes_manager = SimpleNamespace(nodes_cache={}, startup_nodes=nodes, connection_kwargs=options)
    return client


ENCRYPTING: dict[str, Callable[..., Any]] = {
    "redis": redis.Redis,
    "of a URL": lambda **options: redis.Redis.from_url("rediss://h", **options),
    "sentinel": lambda **options: sentinel_of(redis.sentinel, **options),
    "cluster": blocking_cluster,
    "asyncio": redis.asyncio.Redis,
    "asyncio, of a URL": lambda **options: redis.asyncio.Redis.from_url("rediss://h", **options),
    "asyncio, sentinel": lambda **options: sentinel_of(redis.asyncio.sentinel, **options),
    "asyncio, cluster": lambda **options: redis.asyncio.RedisCluster(host="h", **options),
}


@pytest.mark.parametrize("kind", ENCRYPTING)
@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ({}, ssl.CERT_REQUIRED),
        ({"ssl_cert_reqs": "none"}, ssl.CERT_NONE),
        ({"ssl_cert_reqs": None}, ssl.CERT_NONE),
    ],
)
def test_each_kind_of_client_says_how_to_encrypt(kind: str, said: dict[str, Any], mode: int) -> None:
    options = {} if "URL" in kind else {"ssl": True}
    client: Any = ENCRYPTING[kind](**options, **said)
    replicas = {"replicas": 0} if "sentinel" in kind or "cluster" in kind else {}
    settings = backend_of(client, asynchronous="asyncio" in kind, **replicas)._settings
    place = settings.place
    accesses = [settings.access, *(place._accesses if isinstance(place, Sentinels) else ())]
    assert len(accesses) == 1 + ("sentinel" in kind)
    for access in accesses:
        context = access.encryption
        assert context is not None
        assert context.verify_mode is mode


@pytest.mark.parametrize("option", ["ssl_validate_ocsp", "ssl_validate_ocsp_stapled", "ssl_ocsp_context"])
def test_a_client_that_validates_by_ocsp_is_refused_before_any_io(option: str) -> None:
    given: dict[str, Any] = {option: object()}
    with pytest.raises(ValueError, match=f"this client has {option}, which the connections of a lock do not"):
        recipes.connect(redis.Redis(ssl=True, **given))
    assert backend_of(redis.Redis(**given)).label == "redis://localhost:6379/0/lock"


def test_options_of_tls_are_not_taken_without_tls() -> None:
    client = redis.asyncio.Redis(host="h", ssl_ca_certs="/ca")
    assert not backend_of(client, asynchronous=True)._settings.access.options


@pytest.mark.parametrize("module", [redis.sentinel, redis.asyncio.sentinel])
def test_sentinels_are_asked_as_the_client_does(module: Any) -> None:
    manager = module.Sentinel(SENTINELS, sentinel_kwargs={"password": "q"}, password="p", ssl=True)
    asynchronous = module is redis.asyncio.sentinel
    made = backend_of(manager.master_for("main", db=2), asynchronous=asynchronous, replicas=2)
    assert made.label == "rediss+sentinel://s1:1,s2:2/main/2/lock"
    place = made._settings.place
    assert isinstance(place, Sentinels)
    (asked,) = place._accesses
    assert dict(asked.options) == {"password": "q"}
    assert made._settings.access.options["password"] == "p"
    with pytest.raises(ValueError, match="replicas= is missing"):
        backend_of(manager.master_for("main"), asynchronous=asynchronous)
    with pytest.raises(ValueError, match=r"reads from replicas, where nothing is locked: use .*master_for"):
        backend_of(manager.slave_for("main"), asynchronous=asynchronous, replicas=2)


def test_a_cluster_is_known_by_all_nodes_that_the_client_knows() -> None:
    client = redis.asyncio.RedisCluster(host="h", port=1, password="x", ssl=True)
    made = backend_of(client, asynchronous=True, replicas=1)
    assert made.label == "rediss+cluster://h:1/lock"
    assert isinstance(made._settings.place, Cluster)
    assert made._settings.access.options["password"] == "x"


@pytest.mark.parametrize("remap", [None, lambda address: ("127.0.0.1", address[1])])
def test_the_nodes_of_a_cluster_are_reached_as_the_client_reaches_them(remap: Any) -> None:
    client = redis.asyncio.RedisCluster(host="h", port=1, address_remap=remap)
    place: Any = backend_of(client, asynchronous=True, replicas=1)._settings.place
    moved = place.redirected("MOVED 1 10.0.0.1:2", ("h", 1))
    assert moved.address == ("10.0.0.1" if remap is None else "127.0.0.1", 2)


def test_a_blocking_cluster_is_known_by_what_its_manager_has() -> None:
    client: Any = object.__new__(redis.RedisCluster)  # whose constructor asks its servers
    node = SimpleNamespace(host="h", port=1)
    client.nodes_manager = SimpleNamespace(
        nodes_cache={"i:2": SimpleNamespace(host="i", port=2)},
        startup_nodes={"h:1": node},
        connection_kwargs={"ssl": True, "username": "me", "password": "x"},
    )
    made = backend_of(client, replicas=1)
    assert made.label == "rediss+cluster://i:2,h:1/lock"
    assert made._settings.access.options["username"] == "me"


@pytest.mark.parametrize(
    ("connect", "client", "says"),
    [
        (
            recipes.connect,
            redis.asyncio.Redis(),
            r"of redis.asyncio: give it to connect_async\(\), or .* redis here",
        ),
        (recipes.connect_async, redis.Redis(), r"of redis: give it to connect\(\), or .* redis.asyncio here"),
        (recipes.connect, redis.Redis().pipeline(), "Pipeline is no client: give a redis.Redis, or what"),
        (
            recipes.connect,
            redis.sentinel.Sentinel(SENTINELS),
            r"Sentinel is no client: .*Sentinel.master_for\(\)",
        ),
        (recipes.connect, SimpleNamespace(), "a store's URL is a str, not SimpleNamespace"),
    ],
)
def test_what_is_no_client_for_this_api_is_refused(connect: Any, client: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        connect(client)


def test_a_client_on_a_unix_socket_is_refused() -> None:
    with pytest.raises(ValueError, match="on a Unix socket; connect by host and port"):
        recipes.connect(redis.Redis(unix_socket_path="/s"))


@pytest.mark.parametrize("option", ["username", "tls_ca", "colour"])
def test_options_that_the_client_has_already_are_unknown(option: str) -> None:
    with pytest.raises(ValueError, match=f"a client of redis does not know the option '{option}'"):
        recipes.connect(redis.Redis(), **{option: "x"})  # type: ignore[arg-type]
