import recipes

with recipes.connect(
    "postgresql://app:secret@127.0.0.1:5432/app", create_tables=True
) as client:
    with client.lock("reports/nightly") as grant:
        print("one process at a time; token", grant.token)
