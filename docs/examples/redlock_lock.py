import recipes

SERVERS = "127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381"

with recipes.connect(f"redlock://{SERVERS}/0/app") as client:
    with client.lock("reports/nightly").acquire(timeout=60) as grant:
        print(f"one process at a time; token {grant.token}")
