from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from recipes.stores.etcd import EtcdBackend
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.memory import MemoryBackend
from recipes.stores.registry import from_url
from recipes.stores.sqlite import SqliteBackend
from recipes.stores.urls import hosts_of, root_of
from recipes.stores.zookeeper import ZooKeeperBackend
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol


@pytest.mark.parametrize(
    ("url", "kind", "label"),
    [
        ("zookeeper://zk1:2181,zk2/app", ZooKeeperBackend, "zookeeper://zk1:2181,zk2:2181/app"),
        ("zookeepers://zk1/app", ZooKeeperBackend, "zookeepers://zk1:2181/app"),
        ("zookeeper://[::1]:2182", ZooKeeperBackend, "zookeeper://[::1]:2182/"),
        ("etcd://[::1]/app", EtcdBackend, "etcd://[::1]:2379/app"),
        ("etcd://h", EtcdBackend, "etcd://h:2379/"),
        ("ETCD://h:1/a/b/", EtcdBackend, "etcd://h:1/a/b"),
        ("etcds://h,i:2/app", EtcdBackend, "etcds://h:2379,i:2/app"),
        ("memory://", MemoryBackend, "memory://"),
        ("memory://shared", MemoryBackend, "memory://shared"),
        ("sqlite:///var/lib/app/locks.db", SqliteBackend, "sqlite:///var/lib/app/locks.db"),
        ("sqlite:////var/lib/../x", SqliteBackend, "sqlite:///var/x"),
        ("sqlite:////a%20b%23.db", SqliteBackend, "sqlite:///a b#.db"),
        ("sqlite://./locks.db", SqliteBackend, f"sqlite://{Path.cwd()}/locks.db"),
    ],
)
def test_the_url_names_the_backend(url: str, kind: str, label: Any) -> None:
    backend = from_url(url, {})
    assert type(backend) is kind
    assert backend.label == label


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "unknown store '', for the URL has no scheme; write for example sqlite://"),
        ("locks.db", "unknown store '', for the URL has no scheme"),
        ("localhost:2379", "unknown store '', for the URL has no scheme"),
        ("app:secret@localhost:2379", "unknown store '', for the URL has no scheme"),
        ("postgres://h/d", "unknown store 'postgres', did you mean postgresql://: use"),
        ("zk://h", "unknown store 'zk', did you mean zookeeper://: use"),
        ("http://h:2379", "unknown store 'http', did you mean etcd://: use"),
        ("colours://h", "unknown store 'colours': use"),
        (
            "mongodb://h",
            r"use zookeeper://, zookeepers:// .*, rediss\+cluster:// \(with TLS\), postgresql://, .* or m",
        ),
        ("etcd://", "names no server; write for example etcd://host1:2379,host2:2379/app"),
        ("etcds:///app", "names no server; write for example etcds://host1:2379,host2:2379/app"),
        ("zookeeper://", "names no server; write for example zookeeper://host1:2181,host2:2181/app"),
        ("zookeepers://", "names no server; write for example zookeepers://host1:2181,host2:2181/app"),
        ("etcd:h", "names no server"),
        ("etcd://a,,b", "'' is no host:port; write for example etcd://host1:2379,host2:2379/app"),
        ("zookeeper://a,:2181", "':2181' is no host:port; write for example zookeeper://host1:2181"),
        ("etcd://h:0", "'h:0' is no host:port"),
        ("etcd://a:2379, b:2379/app", "' b:2379' is no host:port, for there is white space in it; write"),
        ("postgresql://a, b/app", "' b' is no host:port, for there is white space in it; write"),
        (f"etcd://{'ü' * 64}/app", "ü' is no name of a host; write for example etcd://host1:2379"),
        ("etcd://h:65536", "up to 65535"),
        ("etcd://h:x", "up to 65535"),
        ("etcd://[::1", "this is no URL"),
        ("etcd://h,h:2379", "names the same server twice"),
        ("etcd://h/app?x=1", "no \\?query"),
        ("etcd://h/app#x", "no #fragment|no \\?query and no #fragment"),
        ("etcd://h/a//b", "single slashes"),
        ("etcd://h/a/../b", "single slashes"),
        ("etcd://h/~session", "A-Z a-z 0-9"),
        ("etcd://h/%C3%A9", "A-Z a-z 0-9"),
        ("memory://a/b", "takes a name and no path"),
        ("sqlite://locks.db", "names no host, and 'locks.db' stands in its place: write sqlite:///path"),
        ("sqlite://host/locks.db", "sqlite://./file for one in the current directory"),
        ("sqlite:locks.db", "names a file, and this URL does not"),
        ("sqlite://", "names a file"),
        ("sqlite:///", "names a file"),
        (
            "sqlite:///app.db",
            (
                "it is a file in the current directory; write sqlite://./app.db for the current "
                "directory, or sqlite:////app.db for /app.db"
            ),
        ),
        ("sqlite:///a/", "names a file"),
        ("sqlite:////tmp/a ", "neither begins nor ends with white space"),
        (" memory://a", "neither begins nor ends with white space"),
        ("etcd://127.0.0.1:2379\n", "neither begins nor ends with white space"),
        ("sqlite:///a%00b", "holds no NUL"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///a?mode=ro", "no \\?query"),
    ],
)
def test_a_url_that_does_not_fit(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_url(url, {})


@pytest.mark.parametrize("url", [None, b"etcd://h", 7])
def test_a_url_is_text(url: str) -> None:
    with pytest.raises(TypeError, match="a store's URL is a str"):
        from_url(url, {})


@pytest.mark.parametrize(
    "url", ["zookeeper://h", "etcd://h", "etcds://h", "redis://h", "memory://", "sqlite:///tmp/x"]
)
def test_unknown_options_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="does not know the option 'colour'"):
        from_url(url, {"colour": "red"})


def test_tls_takes_a_context_and_plain_does_not() -> None:
    context = ssl.create_default_context()
    backend = from_url("etcds://h", {"ssl_context": context})
    assert isinstance(backend, EtcdBackend)
    assert backend._ssl_context is context
    with pytest.raises(ValueError, match="ssl_context"):
        from_url("etcd://h", {"ssl_context": context})
    made = from_url("etcds://h", {})._ssl_context  # type: ignore[attr-defined]
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert from_url("etcd://h", {})._ssl_context is None  # type: ignore[attr-defined]


def test_every_session_has_a_protocol_of_its_own() -> None:
    etcd, zookeeper = from_url("etcd://h", {}), from_url("zookeeper://h", {})
    one, other = etcd.protocol(), etcd.protocol()
    assert isinstance(one, EtcdProtocol)
    assert one.session_id != other.session_id, "a lease id of its own"
    assert 0 < int(one.session_id, 16) < 2**63
    assert isinstance(zookeeper.protocol(), ZooKeeperProtocol)


def test_memory_is_shared_by_name_alone() -> None:
    one, other = from_url("memory://same", {}), from_url("memory://same", {})
    assert isinstance(one, MemoryBackend)
    assert isinstance(other, MemoryBackend)
    assert one.server is other.server
    private = [from_url("memory://", {}) for _ in range(2)]
    assert private[0].server is not private[1].server  # type: ignore[attr-defined]


def test_a_host_name_that_is_not_ascii_is_written_as_resolvers_and_http_have_it() -> None:
    assert from_url("etcd://bücher/app", {}).label == "etcd://xn--bcher-kva:2379/app"


def test_parts() -> None:
    assert hosts_of(urlsplit("x://a:1,[::1]:2,c"), 9) == [("a", 1), ("::1", 2), ("c", 9)]
    assert hosts_of(urlsplit("x://Bücher.example:1"), 9) == [("xn--bcher-kva.example", 1)]
    assert root_of(urlsplit("x://a//app-1/b_2.c/")) == "app-1/b_2.c"
    assert root_of(urlsplit("x://a/")) == ""
