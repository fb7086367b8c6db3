"""What the URL of a Redis, and its options, come to; nothing is sent."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

import recipes
from recipes.guarantees import STORES
from recipes.stores.redis import RedisBackend
from recipes.stores.redis.places import Cluster, One, Sentinels
from recipes.stores.registry import from_url

BOTH = pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])


def backend_of(url: str, **options: Any) -> RedisBackend:
    made = from_url(url, options)
    assert isinstance(made, RedisBackend)
    return made


@pytest.mark.parametrize(
    ("url", "options", "label", "prefix"),
    [
        ("redis://h", {}, "redis://h:6379/0/lock", "lock:"),
        ("rediss://h:1/2", {}, "rediss://h:1/2/lock", "lock:"),
        ("redis://[::1]/0/app", {}, "redis://[::1]:6379/0/app", "app:"),
        ("redis://h/3/a/b", {}, "redis://h:6379/3/a/b", "a/b:"),
        ("redis://h", {"prefix": ""}, "redis://h:6379/0/", ""),
        ("redis://h", {"prefix": "my_"}, "redis://h:6379/0/my_", "my_"),
        ("redis://h", {"prefix": "{app}:"}, "redis://h:6379/0/{app}", "{app}:"),
        ("redis+sentinel://a,b:1/main", {}, "redis+sentinel://a:26379,b:1/main/0/lock", "lock:"),
        ("rediss+sentinel://a/main/4/app", {}, "rediss+sentinel://a:26379/main/4/app", "app:"),
        ("redis+cluster://a,b:1", {}, "redis+cluster://a:6379,b:1/lock", "lock:"),
        ("rediss+cluster://a/app", {}, "rediss+cluster://a:6379/app", "app:"),
    ],
)
def test_the_url_names_the_servers_and_the_prefix(
    url: str, options: dict[str, Any], label: str, prefix: str
) -> None:
    made = backend_of(url, **options, **({"replicas": 1} if "+" in url else {}))
    assert (made.label, made._settings.prefix) == (label, prefix)
    assert (made._settings.access.context is not None) is url.startswith("rediss")


def test_the_scheme_says_which_servers_are_asked() -> None:
    of = {url: backend_of(url, replicas=1)._settings for url in ("redis://h/5", "redis+cluster://h")}
    assert {url: type(one.place) for url, one in of.items()} == {
        "redis://h/5": One,
        "redis+cluster://h": Cluster,
    }
    assert [one.access.db for one in of.values()] == [5, 0]
    assert isinstance(backend_of("redis+sentinel://h/m", replicas=1)._settings.place, Sentinels)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("redis://", {}, "names no server; write for example redis://host:6379/0/app"),
        (
            "redis://h,i",
            {},
            "redis:// names one server; for several use redis+sentinel:// or redis+cluster://",
        ),
        ("rediss://h,i", {}, "for several use rediss+sentinel:// or rediss+cluster://"),
        (
            "redis://h/app",
            {},
            "'app' stands where the number of the database belongs; write for example redis://",
        ),
        (
            "redis+sentinel://h",
            {},
            "misses the name of the master; write for example redis+sentinel://host1:26379,",
        ),
        ("redis+sentinel://h/m/app", {}, "'app' stands where the number of the database belongs"),
        (
            "redis+sentinel://h/m",
            {},
            "replicas= is missing: how many replicas the master has. A renewal counts",
        ),
        (
            "redis+cluster://h",
            {},
            "replicas= is missing: how many replicas each master has. A renewal counts",
        ),
        ("redis+cluster://h", {"replicas": -1}, "replicas=-1: it is 0 or more"),
        ("redis://h", {"restart_grace": -1}, "restart_grace=-1"),
        (
            "redis://h/0/app",
            {"prefix": "x"},
            "prefix='x' and the URL's path 'app' both say what keys begin with",
        ),
        ("redis://h", {"prefix": "{a"}, "prefix='{a': braces are for one hash tag, as in '{app}:'"),
        ("redis://h", {"prefix": "{}"}, "braces are for one hash tag"),
        ("redis://h", {"prefix": "a\n"}, "cannot be printed"),
        ("redis://h", {"tls_ca": "x"}, "redis:// does not encrypt: tls_ca= needs rediss://"),
        ("redis+cluster://h", {"tls_ca": "x", "replicas": 0}, "tls_ca= needs rediss+cluster://"),
        ("redis://h", {"prefixe": "x"}, "redis:// does not know the option 'prefixe'; did you mean prefix=?"),
        ("redis://h", {"username": "me"}, "password= is missing"),
        ("redis://h/0/~x", {}, "A-Z a-z 0-9"),
    ],
)
def test_what_does_not_fit_is_said_with_what_to_write(url: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        from_url(url, options)


@pytest.mark.parametrize(
    "options", [{"prefix": 3}, {"replicas": "2"}, {"replicas": True}, {"restart_grace": "20"}]
)
def test_a_value_of_the_wrong_type_is_said_by_its_option(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        from_url("redis://h", options)


@BOTH
def test_a_session_longer_than_the_grace_is_refused(connect: Any) -> None:
    with pytest.raises(
        ValueError, match=r"session_timeout=30 is longer than restart_grace=20: .*every client a"
    ):
        connect("redis://h", session_timeout=30)
    connect("redis://h", session_timeout=30, restart_grace=30)
    connect("redis://h", session_timeout=30, restart_grace=0)
    connect("redis://h", session_timeout=20)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, STORES["redis"].survives),
        ({"replicas": 2}, "the death of any client, a restart and a failover, after which"),
        (
            {"restart_grace": 0},
            "the death of any client; a restart, a failover, FLUSHALL or eviction may let",
        ),
        ({"restart_grace": 0, "replicas": 2}, "the death of any client; a restart, a failover"),
    ],
)
def test_what_it_survives_depends_on_the_options(options: dict[str, Any], says: str) -> None:
    given = backend_of("redis://h", **options).guarantees
    assert given.survives.startswith(says)
    assert not given.linearizable


def test_a_password_alone_is_that_of_the_default_user() -> None:
    for made in (backend_of("redis://h", username="", password="x"), backend_of("redis://h", password="x")):
        credentials = made._settings.access.credentials
        assert credentials is not None
        assert credentials.username == "default"
    assert backend_of("redis://h")._settings.access.credentials is None


def test_what_is_too_weak_is_refused_by_the_scheme() -> None:
    with pytest.raises(
        recipes.TooWeak, match="rediss\\+cluster:// does not give linearizable; use zookeeper://"
    ):
        recipes.connect("rediss+cluster://h", replicas=1, require="linearizable")


def test_every_session_has_an_id_of_its_own() -> None:
    made = backend_of("redis+cluster://h", replicas=1)
    one, other = made.protocol(), made.protocol()
    assert one.session_id
    assert one.session_id != other.session_id


@BOTH
def test_without_redis_py_it_is_said_what_to_install(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "redis" else find(name, *more)
    )
    with pytest.raises(
        ImportError, match=r"redis:// needs redis-py: pip install 'coordination-recipes\[redis\]'"
    ):
        connect("redis://h")
