import recipes

with recipes.connect("etcd://127.0.0.1:2379/app", owner="worker-1") as client:  # it renews by itself
    try:
        with client.lock("reports").acquire(timeout=5) as grant:
            print("the report is made; held:", grant.held, "under token", grant.token)
    except recipes.LockTimeout:
        print("somebody else has it")
