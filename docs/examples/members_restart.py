import recipes

STORE = "sqlite://./locks.db"
before = recipes.connect(STORE)
before.group("workers").join(b"first start", id="worker-7")

with recipes.connect(STORE) as after:
    restarted = after.group("workers")
    print("before:", restarted.members())
    before.close()  # the process that was there ends, or the store ends its session
    with restarted.join(b"second start", id="worker-7", timeout=60) as membership:
        print("after:", restarted.members(), "under token", membership.token)
