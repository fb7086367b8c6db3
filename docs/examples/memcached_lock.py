import recipes

with recipes.connect("memcached://127.0.0.1:11211/app") as client:
    with client.lock("reports/nightly").acquire(timeout=30) as grant:
        print(f"one process at a time; token {grant.token}")
