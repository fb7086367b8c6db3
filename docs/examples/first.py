import recipes

# A file, for the processes of one machine; for several: "etcd://host:2379/app", "zookeeper://host:2181/app".
with recipes.connect("sqlite:///tmp/app.db") as client:
    with client.lock("reports/nightly") as grant:  # waits for its turn
        print("nightly report published under token", grant.token)
