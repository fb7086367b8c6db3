import recipes

URL = "zookeeper://127.0.0.1:2181/app"

with recipes.connect(URL, session_timeout=15, owner="nightly job") as client:
    lock = client.lock("reports")
    try:
        with lock.acquire(timeout=5) as grant:
            print("made by", lock.holders()[0].owner, "under token", grant.token)
    except recipes.LockTimeout:
        print("another process has it")
