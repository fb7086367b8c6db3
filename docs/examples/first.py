import recipes


def publish(report: str, *, fence: int) -> None:
    print(f"{report} published under token {fence}")


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports/nightly") as grant:  # waits for its turn
        publish("nightly report", fence=grant.token)
