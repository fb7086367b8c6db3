import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    limits = client.value("limits")
    limits.set(b"10 requests a second")

    found = limits.get()  # None if there is no such value
    assert found is not None
    print(found.data.decode(), "has version", found.version)

    print("written:", limits.set_if(b"20 requests a second", found.version))
    print("written again:", limits.set_if(b"30 requests a second", found.version))

    with limits.changes() as changes:  # the value now, then every change
        print("now:", next(changes).data.decode())
        limits.delete()
        print("deleted:", next(changes))
