import recipes

URL = "zookeeper://127.0.0.1:2181/app"

with recipes.connect(URL) as client:
    workers = client.group("workers")

    with (
        workers.join(b"10.0.0.7:8000", id="worker-7") as membership,
        workers.watch() as seen,
    ):
        print("alive:", [member.id for member in next(seen)])

        membership.update(b"10.0.0.7:8000 draining")
        print("says:", next(seen))

        with recipes.connect(URL) as elsewhere:
            try:
                elsewhere.group("workers").join(id="worker-7", timeout=2)
            except recipes.AlreadyJoined as refused:
                print(refused)

    print("alive:", workers.members())
