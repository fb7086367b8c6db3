import recipes

with recipes.connect(
    "postgresql://app:secret@127.0.0.1:5432/app",
    layout="shedlock",
    create_tables=True,
) as client:
    grant = client.lock("nightly-report").try_acquire()
    if grant is not None:
        with grant:
            print("no Java service runs it; token", grant.token)
