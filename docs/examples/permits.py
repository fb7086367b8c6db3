import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    gpus = client.semaphore("gpu", limit=4)

    with gpus.acquire(weight=3, timeout=10) as grant:
        print(f"training on {grant.weight} of 4, until {grant.id[:8]} is released")

        if other := gpus.try_acquire():  # the one that is left
            print("and one more")
            other.release()

        try:
            gpus.acquire(2)  # would wait for its own three
        except recipes.WouldDeadlock as refused:
            print(refused)

    with gpus.of(2) as grant:  # a semaphore of another weight, for `with`
        for one in gpus.holders():
            print(f"{one.weight} permits are held by {one.id[:8]}")
