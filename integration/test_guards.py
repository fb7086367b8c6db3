"""Guards: the store itself refuses a write of somebody who holds no more."""

from __future__ import annotations

import uuid
from base64 import b64encode

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

    with recipes.connect(etcd34.url(prefix), session_timeout=4) as client:
        first = client.lock("x").acquire(timeout=5)
        assert write(first, "first")
        first.release()
        second = client.lock("x").acquire(timeout=5)
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

        with recipes.connect(zookeeper.url(prefix), session_timeout=4) as client:
            first = client.lock("x").acquire(timeout=5)
            assert write(first, b"first")
            first.release()
            second = client.lock("x").acquire(timeout=5)
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
