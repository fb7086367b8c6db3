import redis

import recipes

server = redis.Redis(host="127.0.0.1", port=6379)

with recipes.connect(server, prefix="app:") as client:
    with client.lock("reports/nightly") as grant:
        server.set("report", "made")
        print("beside the lock:", server.get("report"), "token", grant.token)
