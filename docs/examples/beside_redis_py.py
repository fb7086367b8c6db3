import redis

import recipes

with (
    redis.Redis(host="127.0.0.1", port=6379) as server,
    recipes.connect("redis://127.0.0.1:6379") as client,
):
    theirs = server.lock("lock:reports/nightly", timeout=60)
    ours = client.lock("reports/nightly")

    with ours as grant:
        assert not theirs.acquire(blocking=False)
        print("held by us under token", grant.token)
    with theirs:
        assert ours.try_acquire() is None
        print("held by a client of this package:", [one.ours for one in ours.holders()])
    with client.rwlock("reports/nightly").reader:  # theirs waits for our readers too
        assert not theirs.acquire(blocking=False)
