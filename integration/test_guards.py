"""Guards: the store itself refuses a write of somebody who holds no more."""

from __future__ import annotations

import contextlib
import uuid
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Self

import etcd3gw
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

import recipes
import recipes.etcd
import recipes.zookeeper
from integration import servers


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_an_etcd_transaction_commits_only_while_the_grant_stands(etcd34: servers.Etcd, prefix: str) -> None:
    host, _, port = etcd34.address.rpartition(":")
    plain = etcd3gw.Etcd3Client(host, int(port), api_path="/v3/", timeout=5)
    value = f"{prefix}-guarded-{uuid.uuid4()}"

    def write(grant: recipes.Grant, text: str) -> bool:
        put = {"request_put": {"key": encoded(value), "value": encoded(text)}}
        reply = plain.transaction({"compare": [recipes.etcd.guard(grant)], "success": [put], "failure": []})
        return bool(reply.get("succeeded"))

    with recipes.connect(etcd34.url(prefix), session_timeout=15) as client:
        first = client.lock("x").acquire(timeout=30)
        assert write(first, "first")
        first.release()
        second = client.lock("x").acquire(timeout=30)
        assert not write(first, "late")
        assert write(second, "second")
        assert plain.get(value) == [b"second"]
        with pytest.raises(TypeError, match="takes one of it"):
            recipes.zookeeper.guard(second, None)
    assert not write(second, "after the session")
    plain.delete(value)


def test_a_zookeeper_transaction_commits_only_while_the_grant_stands(
    zookeeper: servers.ZooKeeper, prefix: str
) -> None:
    plain = KazooClient(hosts=zookeeper.address)
    plain.start(10)
    try:
        node = plain.create(f"/guarded-{uuid.uuid4()}", b"")

        def write(grant: recipes.Grant, data: bytes) -> bool:
            transaction = plain.transaction()
            recipes.zookeeper.guard(grant, transaction)
            transaction.set_data(node, data)
            return not any(isinstance(result, KazooException) for result in transaction.commit())

        with recipes.connect(zookeeper.url(prefix), session_timeout=15) as client:
            first = client.lock("x").acquire(timeout=30)
            assert write(first, b"first")
            first.release()
            second = client.lock("x").acquire(timeout=30)
            assert not write(first, b"late")
            assert write(second, b"second")
            assert plain.get(node)[0] == b"second"
            with pytest.raises(TypeError, match="one of etcd"):
                recipes.etcd.guard(second)
        assert not write(second, b"after the session")
        plain.delete(node)
    finally:
        plain.stop()
        plain.close()


GUARDED = pytest.mark.parametrize("server", servers.CONSENSUS, indirect=True)
"""The servers whose own transactions take a guard."""


class Plain:
    """A client of one store that is not this package: writes a value, on a guard's condition."""

    def __init__(self, server: servers.Server) -> None:
        self.server = server
        self._open = contextlib.ExitStack()
        if isinstance(server, servers.ZooKeeper):
            self._kazoo = self._open.enter_context(servers.kazoo_client(server))
            self.value = self._kazoo.create(f"/guarded-{uuid.uuid4()}", b"")
        else:
            host, _, port = server.address.rpartition(":")
            self._etcd = etcd3gw.Etcd3Client(host, int(port), api_path="/v3/", timeout=5)
            self.value = f"guarded-{uuid.uuid4()}"

    def guard(self, grant: recipes.Grant) -> Callable[[], bool]:
        """Return what writes on condition of a guard that is made now; whether it did."""
        if isinstance(self.server, servers.ZooKeeper):
            transaction = self._kazoo.transaction()
            recipes.zookeeper.guard(grant, transaction)
            checks = list(transaction.operations)
            return lambda: self._commit(checks)
        compare = recipes.etcd.guard(grant)
        put = {"request_put": {"key": encoded(self.value), "value": encoded("written")}}
        body = {"compare": [compare], "success": [put], "failure": []}
        return lambda: bool(self._etcd.transaction(body).get("succeeded"))

    def _commit(self, checks: list[Any]) -> bool:
        transaction = self._kazoo.transaction()
        transaction.operations += checks
        transaction.set_data(self.value, b"written")
        return not any(isinstance(result, KazooException) for result in transaction.commit())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self.server, servers.ZooKeeper):
            self._kazoo.delete(self.value)
        else:
            self._etcd.delete(self.value)
        self._open.close()


@GUARDED
def test_a_writers_guard_ends_with_its_downgrade(server: servers.Server, prefix: str) -> None:
    """One made after it says less: that the grant stands, shared."""
    with Plain(server) as plain, recipes.connect(server.url(prefix), session_timeout=15) as client:
        grant = client.rwlock("x").writer.acquire(timeout=30)
        writes = plain.guard(grant)
        assert writes()
        assert writes(), "a guard lasts"
        grant.downgrade()
        assert not writes()
        reads = plain.guard(grant)
        assert reads()
        grant.downgrade()  # nothing more happens
        assert reads()
        assert grant.release()
        assert not reads()
        assert not writes()
    servers.clean(server, prefix)


@GUARDED
def test_a_readers_guard_holds_beside_others_until_its_release(server: servers.Server, prefix: str) -> None:
    with Plain(server) as plain, recipes.connect(server.url(prefix), session_timeout=15) as client:
        reader = client.rwlock("x").reader
        first, second = reader.acquire(timeout=30), reader.acquire(timeout=30)
        guards = plain.guard(first), plain.guard(second)
        assert [guard() for guard in guards] == [True, True]
        assert first.release()
        assert [guard() for guard in guards] == [False, True]
        assert second.release()
        assert [guard() for guard in guards] == [False, False]
    servers.clean(server, prefix)


@GUARDED
def test_a_guard_is_made_after_what_its_grant_says_is_replaced(server: servers.Server, prefix: str) -> None:
    """One made before ends with that, which loses a write at worst; a leader's and a member's alike."""
    with Plain(server) as plain, recipes.connect(server.url(prefix), session_timeout=15) as client:
        leadership, membership = client.election("x").campaign("1"), client.group("x").join(b"1", id="a")
        other = client.group("x").join(b"1", id="b")
        grants = [leadership, membership, other]
        before = [plain.guard(grant) for grant in grants]
        assert [guard() for guard in before] == [True, True, True]
        leadership.proclaim("2")
        membership.update(b"2")
        assert [guard() for guard in before] == [False, False, True]
        after = [plain.guard(grant) for grant in grants]
        leadership.proclaim("3")
        membership.update(b"3")
        assert [guard() for guard in after] == [True, True, True]
        assert [grant.release() for grant in grants] == [True, True, True]
        assert [guard() for guard in after] == [False, False, False]
    servers.clean(server, prefix)
