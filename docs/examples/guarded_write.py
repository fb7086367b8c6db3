import recipes

STORE = "sqlite://./locks.db"

with recipes.connect(STORE) as client, recipes.connect(STORE) as another:
    grant = client.lock("index").acquire()
    current = grant.guarding(client.value("index/current"))
    current.set(b"index-1")  # written: the grant still holds

    # The process is paused for too long, and the store gives the lock to the next.
    another.lock("index").evict(grant.token)
    with another.lock("index") as later:
        later.guarding(another.value("index/current")).set(b"index-2")

    try:  # the process continues
        current.set(b"index-1, repaired")
    except recipes.LockLost as refused:
        print(refused)
    print("what stays:", another.value("index/current").get().data.decode())
