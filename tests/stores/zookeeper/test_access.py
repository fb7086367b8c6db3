"""User, password and ACL as options, and what kazoo is notified of them."""

from __future__ import annotations

import importlib.util
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from recipes.errors import StoreUnavailable
from recipes.stores.secret import Secret
from recipes.stores.zookeeper import kazoo_client
from recipes.stores.zookeeper.access import OPEN, Access
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.requests import Connect, Exists
from tests.stores.zookeeper.conftest import Connections, answered
from tests.stores.zookeeper.fake_server import FakeZooKeeper

APP = {"username": "app", "password": "pw"}


def given(**options: Any) -> Access:
    return Access.given("zookeeper", options)


def kazoo() -> Any:
    return SimpleNamespace(auth_data=set(), _connection=SimpleNamespace(sasl_options=None))


def test_without_credentials_nothing_is_told() -> None:
    assert given() == OPEN
    assert OPEN.kazoo_options() == {}
    client = kazoo()
    OPEN.introduce(client, Secret)
    assert client == kazoo()


def test_who_has_a_name_is_alone_with_what_it_makes() -> None:
    access = Access.given("zookeepers", APP)
    assert access.kazoo_options() == {"default_acl": tuple(CREATOR_ALL_ACL), "use_ssl": True}
    assert given(**APP, acl=OPEN_ACL_UNSAFE).acl == tuple(OPEN_ACL_UNSAFE)
    assert given(acl=OPEN_ACL_UNSAFE).acl == tuple(OPEN_ACL_UNSAFE)
    assert "pw" not in repr(access)


def test_by_digest_the_password_is_asked_for_once_a_session() -> None:
    asked: list[int] = []
    access = given(username="app", password=lambda: f"pw{asked.append(1)}")
    client = kazoo()
    access.introduce(client, lambda: access.who.password("zk:1"))
    access.introduce(client, lambda: access.who.password("zk:1"))
    assert client.auth_data == {("digest", "app:pwNone")}
    assert "pw" not in repr(client.auth_data)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("password", "hashed"), [("pñ", b"p\xf1"), ("p\N{SNOWMAN}", "p\N{SNOWMAN}".encode())]
)
def test_by_sasl_it_is_hashed_as_java_does(password: str, hashed: bytes) -> None:
    access = given(username="app", password=password, sasl="DIGEST-MD5")
    client = kazoo()
    access.introduce(client, lambda: access.who.password("zk:1"))
    options = client._connection.sasl_options
    assert options == {"mechanism": "DIGEST-MD5", "username": b"app", "password": hashed}
    assert repr(hashed) not in repr(options)
    assert client.auth_data == set()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({**APP, "username": "a:b"}, ValueError, "holds no colon"),
        ({**APP, "sasl": "GSSAPI"}, ValueError, "sasl='GSSAPI': use 'DIGEST-MD5'"),
        ({"sasl": "DIGEST-MD5"}, ValueError, "sasl= needs username= and password="),
        ({"acl": []}, ValueError, "acl= is empty"),
        ({"acl": CREATOR_ALL_ACL[0]}, TypeError, "acl= is a list of kazoo.security.ACL, not ACL"),
        ({"acl": "world"}, TypeError, "not str"),
        ({"acl": ["world"]}, TypeError, "has a str in it"),
        ({"tls_ca": "x"}, ValueError, "does not encrypt"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        given(**options)


def test_sasl_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"coordination-recipes\[sasl\]"):
        given(**APP, sasl="DIGEST-MD5")


def test_a_connection_introduces_itself_at_each_connection(
    connections: Connections, server: FakeZooKeeper
) -> None:
    driver = connections(server.hosts)
    driver.session._access = access = given(**APP)
    driver.session._asker = access.who.asker
    driver.ask(Connect(4.0))
    server.cut()
    answered(driver, Exists("/"))
    assert driver.session._client.auth_data == {("digest", "app:pw")}


def test_a_password_that_is_not_given_is_a_connection_that_failed() -> None:
    """And the session goes on: the next connection asks again."""
    called: list[threading.Thread] = []
    going_on = threading.Event()

    def password() -> str:
        called.append(threading.current_thread())
        assert going_on.wait(10)
        return "pw"

    access = given(username="app", password=password)
    for _ in range(3):  # and so do the sessions that are tried meanwhile
        session = KazooSession("zk:1", lambda reason: None, access, {})
        session._client, session._connect_s = kazoo(), 0.05
        for _ in range(2):
            with pytest.raises(TimeoutError, match="password"):
                session._introduce()
    assert len(called) == 1, "it is asked once at a time"
    assert session._over is None
    going_on.set()
    called[0].join(10)
    session._connect_s = 10
    session._introduce()
    assert session._client.auth_data == {("digest", "app:pw")}


def test_a_call_says_that_it_was_the_password_that_was_late(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(kazoo_client, "connect_timeout", lambda *_: 0.05)
    driver = connections(server.hosts)
    driver.session._access = access = given(username="app", password=lambda: str(going_on.wait(10)))
    assert access.who is not None
    driver.session._asker = access.who.asker
    with pytest.raises(StoreUnavailable, match=r":\d+: no answer to a login in time: password\(\) has not"):
        driver.ask(Connect(4.0))
    going_on.set()
