import recipes

with recipes.connect("sqlite://./locks.db", session_timeout=3) as client:
    lock = client.lock("reports/nightly")
    try:
        with lock as grant:
            for page in range(1, 4):
                grant.check()  # raises LockLost; asks the local clock, not the store
                print("page", page, "under token", grant.token)
                if page == 2:  # here an operator takes the lock away
                    lock.evict(grant.token)
                    grant.lost.wait(timeout=10)  # the next renewal finds it out
    except recipes.LockLost as lost:
        print("stopped before page", page, "-", lost.reason)
