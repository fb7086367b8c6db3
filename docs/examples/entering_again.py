import recipes

accounts = {"a": 100, "b": 0}


def change(client: recipes.Client, account: str, amount: int, tokens: set[int]) -> None:
    with client.rlock("accounts") as grant:  # alone, or inside a transfer
        accounts[account] += amount
        tokens.add(grant.token)


def transfer(client: recipes.Client, amount: int) -> set[int]:
    tokens: set[int] = set()
    with client.rlock("accounts"):
        change(client, "a", -amount, tokens)
        change(client, "b", amount, tokens)
    return tokens  # released here, by the last to leave


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    tokens = transfer(client, 40)
    print("moved", accounts["b"], "under", "one token" if len(tokens) == 1 else "several")
