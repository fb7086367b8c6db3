"""Fault 34: an unknown CA, another host's certificate, an expired one, ports with and without TLS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration import servers
from integration.credentials.authority import Authority
from integration.credentials.servers import SENTINEL, USER, SecureEtcd, SecureRedis, SecureZooKeeper
from integration.faults.actors import APIS, actor
from tests.pace import taking

SOON_S = 4.0
"""Less than the request timeout: an answer to the caller, not the end of its patience."""
PATIENCE_S = 5.0

KINDS: dict[str, Callable[..., Any]] = {
    "etcd": lambda **options: SecureEtcd("etcd-3.5", **options),
    "etcd-grpc": lambda **options: SecureEtcd("etcd-3.4", grpc=True, **options),
    "zookeeper": SecureZooKeeper,
}


@pytest.fixture(
    scope="module",
    params=["etcd", *(pytest.param(one, marks=pytest.mark.long) for one in KINDS if one != "etcd")],
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def local(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a server whose certificate is for localhost, and not for its address."""
    authority = Authority(tmp_path_factory.mktemp("local"))
    with KINDS[kind](certificate=authority.issue("server", "localhost")) as server:
        server.options["tls_ca"] = authority.ca
        yield server


@pytest.fixture(scope="module")
def expired(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a server whose certificate was good until yesterday."""
    authority = Authority(tmp_path_factory.mktemp("expired"))
    with KINDS[kind](certificate=authority.issue("server", expired=True)) as server:
        server.options["tls_ca"] = authority.ca
        yield server


@pytest.fixture(scope="module")
def mutual(kind: str) -> Iterator[Any]:
    """Yield a server that asks its clients for a certificate."""
    with KINDS[kind](mutual=True) as server:
        yield server


@pytest.fixture(scope="module")
def plain(kind: str) -> Iterator[servers.Server]:
    """Yield a server without TLS."""
    with servers.ALL[{"etcd": "etcd-3.5", "zookeeper": "zookeeper-3.8"}.get(kind, kind)].make() as server:
        yield server


@pytest.fixture(params=APIS)
def refused(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return what opens a client, sees that it fails at once, and returns the message."""

    def attempt(error: type[recipes.StoreError], url: str, options: dict[str, Any]) -> str:
        one = actor(request.param, url, session_timeout=6, request_timeout=PATIENCE_S, **options)
        with contextlib.closing(one), taking(SOON_S), pytest.raises(error) as caught:
            one.open()
        said = str(caught.value)
        assert SENTINEL not in said
        return said

    return attempt


def test_fault_34_good_certificates(local: Any, prefix: str) -> None:
    url = local.url(prefix).replace("127.0.0.1", "localhost")
    with recipes.connect(url, **local.options) as client, client.lock("x") as grant:
        assert grant.verify()


def test_fault_34_wrong_ca(local: Any, prefix: str, refused: Callable[..., str], tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    said = refused(recipes.StoreUntrusted, local.url(prefix), {**local.options, "tls_ca": other.ca})
    assert local.address in said
    assert "the server's certificate is not accepted: unable to get local issuer certificate" in said
    said = refused(recipes.StoreUntrusted, local.url(prefix), {**local.options, "tls_ca": None})
    assert "certificate" in said
    assert "tls_ca=" in said


def test_fault_34_wrong_ca_on_each_server(
    server: Any, prefix: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    said = refused(recipes.StoreUntrusted, server.url(prefix), {**server.options, "tls_ca": other.ca})
    assert server.address in said
    why = ("unable to get local issuer certificate", "self-signed certificate in certificate chain")
    assert f"the server's certificate is not accepted: {why[isinstance(server, SecureRedis)]}" in said


def test_fault_34_wrong_hostname(local: Any, prefix: str, refused: Callable[..., str]) -> None:
    said = refused(recipes.StoreUntrusted, local.url(prefix), local.options)
    assert local.address in said
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in said


def test_fault_34_expired(expired: Any, prefix: str, refused: Callable[..., str]) -> None:
    said = refused(recipes.StoreUntrusted, expired.url(prefix), expired.options)
    assert expired.address in said
    assert "certificate has expired" in said


def test_fault_34_no_certificate_of_ours(mutual: Any, prefix: str, refused: Callable[..., str]) -> None:
    options = {name: value for name, value in mutual.options.items() if name != "tls_cert"}
    said = refused(recipes.StoreUntrusted, mutual.url(prefix), options)
    assert mutual.address in said
    assert "tls_cert=" in said


def test_fault_34_a_certificate_of_ours_from_elsewhere(
    mutual: Any, prefix: str, refused: Callable[..., str], tmp_path: Path
) -> None:
    foreign = Authority(tmp_path / "stranger").issue("client")
    said = refused(recipes.StoreUntrusted, mutual.url(prefix), {**mutual.options, "tls_cert": foreign})
    assert mutual.address in said
    assert "client" in said
    assert "certificate" in said


@pytest.mark.parametrize("named", [False, True], ids=["by-certificate", "by-password"])
def test_fault_34_the_gateway_refuses_a_certificate_with_a_name(
    kind: str, mutual: Any, prefix: str, refused: Callable[..., str], named: bool
) -> None:
    """The gateway serves no such client: it is refused at once, and the error says what to do."""
    if kind != "etcd":
        pytest.skip("only etcd has a gateway")
    options = {**mutual.options, "tls_cert": mutual.authority.issue("named", common_name=USER)}
    if not named:
        del options["username"], options["password"]
    said = refused(recipes.StoreRefused, mutual.url(prefix), options)
    assert "etcds+grpc:// asks without the gateway" in said
    by_grpc = mutual.url(prefix).replace("etcds://", "etcds+grpc://")
    with recipes.connect(by_grpc, **options) as client, client.lock("a") as grant:
        assert grant.held


def test_fault_34_tls_to_a_plain_port(
    kind: str, plain: servers.Server, local: Any, prefix: str, refused: Callable[..., str]
) -> None:
    said = refused(recipes.StoreUnavailable, f"{local.scheme}://{plain.address}/{prefix}", local.options)
    assert plain.address in said
    assert "speak TLS" in said


def test_fault_34_plain_to_a_tls_port(local: Any, prefix: str, refused: Callable[..., str]) -> None:
    url = f"{local.scheme.removesuffix('s')}://{local.address}/{prefix}"
    said = refused(recipes.StoreUnavailable, url, {"username": "app", "password": SENTINEL})
    assert local.address in said
    assert "TLS" in said
