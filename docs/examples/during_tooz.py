from tooz import coordination

import recipes

coordinator = coordination.get_coordinator("etcd3+http://127.0.0.1:2379?api_version=v3", b"worker-1")
coordinator.start(start_heart=True)

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    old, new = coordinator.get_lock(b"reports"), client.lock("reports")
    with old, new.acquire(timeout=60) as grant:  # the old one first, everywhere
        print("the report is made under both, token", grant.token)

coordinator.stop()
