import pottery
import redis

import recipes

with (
    redis.Redis(host="127.0.0.1", port=6379) as server,
    recipes.connect("redis://127.0.0.1:6379", prefix="redlock:") as client,
):
    theirs = pottery.Redlock(key="reports", masters={server}, auto_release_time=60)
    ours = client.lock("reports")

    with ours:
        assert not theirs.acquire(blocking=False)
    with theirs:
        assert ours.try_acquire() is None
    print("either waits for the other")
