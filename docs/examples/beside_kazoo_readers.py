from kazoo.client import KazooClient

import recipes

kazoo = KazooClient("127.0.0.1:2181")
kazoo.start()
theirs = kazoo.ReadLock("/app/catalog", extra_lock_patterns=("(?<!-R)-lock-",))

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    ours = client.rwlock("catalog")

    with ours.writer:
        assert not theirs.acquire(blocking=False)
    with ours.reader, theirs:  # readers of both kinds hold together
        stat = kazoo.exists(f"{theirs.path}/{theirs.node}")
        print("held by kazoo under token", stat.czxid)
        assert ours.writer.try_acquire() is None

kazoo.stop()
kazoo.close()
