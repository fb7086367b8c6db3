from kazoo.client import KazooClient

import recipes

kazoo = KazooClient("127.0.0.1:2181")
kazoo.start()
theirs = kazoo.Lock("/app/reports%2Fnightly", extra_lock_patterns=("-lock-",))

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    ours = client.lock("reports/nightly")

    with ours:
        assert not theirs.acquire(blocking=False)
    with theirs:
        assert ours.try_acquire() is None

kazoo.stop()
kazoo.close()
