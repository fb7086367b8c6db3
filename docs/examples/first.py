import recipes

with recipes.connect("sqlite:///tmp/app.db") as client:
    with client.lock("reports/nightly") as grant:  # waits for its turn
        print("nightly report published under token", grant.token)
