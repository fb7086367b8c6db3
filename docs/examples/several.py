import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    alice, bob = client.lock("accounts/alice"), client.lock("accounts/bob")
    rates, gpu = client.rwlock("rates").reader, client.semaphore("gpu", 4)
    together = client.multilock(bob, alice, rates, gpu.of(2))  # in any order

    with together as grant:  # all or none
        print(f"alice is fenced by {grant[alice].token}, bob by {grant[bob].token}")
        print(f"{grant[gpu].weight} permits of 4 are held")
        grant.check()  # raises if any part was lost

    with bob:
        nothing = client.multilock(alice, bob).try_acquire()
        print("while bob is held:", nothing, alice.holders())
