import redis

import recipes

with (
    redis.Redis(host="127.0.0.1", port=6379) as server,
    recipes.connect("etcd://127.0.0.1:2379/app") as client,
):
    old = server.lock("reports", timeout=60, blocking_timeout=5)
    new = client.lock("reports")
    with old, new.acquire(timeout=30) as grant:  # the old one first, everywhere
        print("the report is made under both, token", grant.token)
