import redis

import recipes
from recipes import fencing

PUBLISH = """
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])
"""

with (
    redis.Redis(host="127.0.0.1", port=6379) as server,
    recipes.connect("etcd://127.0.0.1:2379/app") as client,
):
    gate = fencing.RedisGate(server)
    with client.lock("reports") as late:
        pass  # this holder stops here, past its session's timeout, and the lock goes on to the next
    with client.lock("reports") as grant:
        keys = ["report:nightly", "report:editions"]
        print("edition", gate.eval("reports", grant, PUBLISH, keys=keys, args=["by the holder"]))

    try:
        gate.transaction("reports", late.token, lambda pipe: pipe.set("report:nightly", "by the late one"))
    except recipes.StaleToken as refused:
        print(refused)
    assert server.get("report:nightly") == b"by the holder"
