import recipes

with recipes.connect("redis://127.0.0.1:6379/0/app") as client:
    with client.lock("reports/nightly") as grant:
        print("one process at a time; token", grant.token)
