"""The examples of `docs/coming-from` that take an old lock and one of ours together."""

from __future__ import annotations

import pytest
from tooz import coordination

import recipes
from integration import servers
from integration.test_docs import python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.measured


def test_the_example_of_etcd3gw(etcd35: servers.Etcd, prefix: str) -> None:
    text = source("during_etcd3gw.py", prefix).replace('"127.0.0.1", 2379', f'"127.0.0.1", {etcd35.port}')
    said = python(text.replace("127.0.0.1:2379", etcd35.address))
    assert "the report is made under both, token" in said


def test_tooz_on_zookeeper_does_not_wait_for_ours(zookeeper: servers.ZooKeeper, prefix: str) -> None:
    """So its page wants a release that takes both."""
    coordinator = coordination.get_coordinator(f"zookeeper://{zookeeper.address}", b"worker-1")
    coordinator.start()
    theirs = coordinator.get_lock(prefix.encode())
    with recipes.connect(zookeeper.url("tooz/locks")) as client:
        ours = client.lock(prefix)
        with ours:
            assert theirs.acquire(blocking=False)
        assert ours.try_acquire() is None
        assert theirs.release()
    coordinator.stop()
    coordinator._coord.close()  # which it leaves to others
    servers.clean(zookeeper, "tooz")


def test_the_example_of_redis_py(redis_server: servers.Redis, etcd35: servers.Etcd, prefix: str) -> None:
    text = source("during_redis.py", prefix).replace("6379", str(redis_server.port))
    assert "made under both, token" in python(text.replace("127.0.0.1:2379", etcd35.address))


def source(example: str, prefix: str) -> str:
    """Return an example whose locks are nobody else's."""
    text = (ROOT / "docs/examples" / example).read_text()
    return text.replace('reports"', f'{prefix}-reports"').replace("/app", f"/{prefix}")
