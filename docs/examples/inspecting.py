import recipes

URL = "etcd://127.0.0.1:2379/app"

with recipes.connect(URL, owner="nightly job") as client:
    lock = client.lock("reports/nightly")
    with lock:
        for one in lock.holders():
            print(f"{one.owner} holds {one.lock} {one.mode} under token {one.token}")
        for one in lock.waiters(limit=10):
            print("waits behind", one.position, "others:", one.owner or one.key)
        for name, queue in client.locks().items():
            print(name, "has", len(queue), "in its queue")
