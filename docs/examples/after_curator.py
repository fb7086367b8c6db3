import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    with client.lock("reports/nightly") as grant:
        print("held by Python under token", grant.token)
