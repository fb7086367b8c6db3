import recipes

with recipes.connect("sqlite:///tmp/app.db") as client:
    with client.semaphore("workers", limit=4) as grant:  # four processes at most
        print("one of four at work:", grant.held)
