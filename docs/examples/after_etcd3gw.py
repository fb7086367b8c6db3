import recipes

with recipes.connect("etcd://127.0.0.1:2379/app", session_timeout=15) as client:
    try:
        with client.lock("reports").acquire(timeout=5) as grant:
            for page in ("first", "second"):
                grant.check()
                print(page, "page is made under token", grant.token)
    except recipes.LockTimeout:
        print("somebody else has it")
