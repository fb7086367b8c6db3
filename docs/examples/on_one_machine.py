import recipes

with recipes.connect(
    "sqlite:///var/lib/app/locks.db", require={"fencing", "many_processes"}
) as client:
    with client.lock("reports/nightly") as grant:
        print(
            f"one process of this {client.guarantees.scope} at a time; token {grant.token}"
        )
