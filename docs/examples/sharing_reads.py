import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    catalog = client.rwlock("catalog")

    with catalog.writer.acquire(timeout=3) as grant:
        print("writing under token", grant.token)
        grant.downgrade()  # readers come in beside it; the token stays
        print("reading what was written,", grant.mode)

    with catalog.reader as one:  # beside all other readers
        print(one.mode)

        try:
            catalog.writer.acquire()  # would wait for itself
        except recipes.UpgradeError as refused:
            print(refused)
