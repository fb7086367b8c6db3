from kazoo.client import KazooClient

import recipes

PATH = "/app/~election/scheduler"

kazoo = KazooClient("127.0.0.1:2181")
kazoo.start()
theirs = kazoo.Election(PATH, "run by kazoo")
theirs.lock = kazoo.Lock(PATH, "run by kazoo", extra_lock_patterns=("-lock-",))

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    ours = client.election("scheduler")

    with ours.campaign("run by us"):
        assert theirs.contenders() == ["run by us"]

    theirs.run(lambda: print("leader:", ours.leader().value))
    assert ours.leader() is None

kazoo.stop()
kazoo.close()
