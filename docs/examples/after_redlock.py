import recipes

with recipes.connect("redis://127.0.0.1:6379", prefix="redlock:", session_timeout=15) as client:
    try:
        with client.lock("reports").acquire(timeout=5) as grant:
            print("first page is made")
            grant.check()
            print("second page is made under token", grant.token)
    except recipes.LockTimeout:
        print("another process has it")
