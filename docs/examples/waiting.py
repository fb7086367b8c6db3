import recipes

with recipes.connect("etcd://127.0.0.1:2379/app", session_timeout=15) as client:
    lock = client.lock("reports/nightly")

    with lock as grant:  # waits without limit, also through an outage of the store
        print("held", grant.held, "for at least", round(grant.remaining, 1), "s more")

    try:
        with lock.acquire(timeout=5) as grant:  # 5 s for the whole call
            print("token", grant.token)
    except recipes.LockTimeout as late:
        print(late)

    if taken := lock.try_acquire():  # one look: None if somebody holds or waits
        with taken:
            print("it was free")
