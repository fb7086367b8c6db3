import recipes

with recipes.connect("redis://127.0.0.1:6379", session_timeout=30) as client:
    lock = client.rlock("reports")

    def add_page(number: int) -> None:
        with lock:  # entered again: the same token
            print("page", number)

    with lock as grant:
        add_page(1)
        add_page(2)
        print("the report is made under token", grant.token)
