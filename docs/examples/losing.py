import recipes


def pages_of(_report: str) -> list[str]:
    return ["first page", "second page"]


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    try:
        with client.lock("reports/nightly") as grant:
            grant.lost.add_callback(lambda lost: print("stop:", lost.lost_reason))
            for page in pages_of("nightly"):
                grant.check()  # raises LockLost; asks the local clock, not the store
                print(page, "under token", grant.token)
    except recipes.LockLost as lost:
        print(lost.lock, "was lost:", lost.reason)
