import recipes

with recipes.connect("redis://127.0.0.1:6379", session_timeout=15) as client:
    with client.lock("reports") as grant:
        print("the report is made under token", grant.token)
