import redis

import recipes
from recipes import fencing

PUBLISH = """
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])
"""
KEYS = ["report:nightly", "report:editions"]

with (
    redis.Redis(host="127.0.0.1", port=6379) as server,
    recipes.connect("etcd://127.0.0.1:2379/app") as client,
):
    gate = fencing.RedisGate(server)
    with client.lock("reports") as late:
        pass  # this holder is paused here, and the lock goes to the next
    with client.lock("reports") as grant:
        edition = gate.eval("reports", grant, PUBLISH, keys=KEYS, args=["by the holder"])
        print("edition", edition)

    try:
        gate.transaction(
            "reports", late.token, lambda pipe: pipe.set(KEYS[0], "by the late one")
        )
    except recipes.StaleToken as refused:
        print(refused)
    assert server.get("report:nightly") == b"by the holder"
