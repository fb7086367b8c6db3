"""The examples of those who come from other packages: before, and meanwhile."""

from __future__ import annotations

import pytest
from tooz import coordination

import recipes
from integration import servers
from integration.test_docs import python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.measured

ON_ETCD = {
    "before_etcd3gw.py": "second page is made",
    "before_tooz.py": "the report is made; acquired: True",
    "during_etcd3gw.py": "the report is made under both, token",
    "during_tooz.py": "the report is made under both, token",
}


@pytest.mark.parametrize("example", ON_ETCD)
def test_an_example_of_another_package_on_etcd(etcd35: servers.Etcd, prefix: str, example: str) -> None:
    text = source(example, prefix).replace('"127.0.0.1", 2379', f'"127.0.0.1", {etcd35.port}')
    assert ON_ETCD[example] in python(text.replace("127.0.0.1:2379", etcd35.address))


def test_the_example_of_kazoo(zookeeper: servers.ZooKeeper, prefix: str) -> None:
    text = source("before_kazoo.py", prefix).replace("127.0.0.1:2181", zookeeper.address)
    assert "the report is made by nightly job" in python(text)
    servers.clean(zookeeper, prefix)


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


@pytest.mark.parametrize(
    ("example", "says"),
    [("before_redis.py", "second page is made; owned: True"), ("during_redis.py", "made under both, token")],
)
def test_an_example_of_redis_py(
    redis_server: servers.Redis, etcd35: servers.Etcd, prefix: str, example: str, says: str
) -> None:
    text = source(example, prefix).replace("6379", str(redis_server.port))
    assert says in python(text.replace("127.0.0.1:2379", etcd35.address))


def source(example: str, prefix: str) -> str:
    """Return an example whose locks are nobody else's."""
    text = (ROOT / "docs/examples" / example).read_text()
    return text.replace('reports"', f'{prefix}-reports"').replace("/app", f"/{prefix}")
