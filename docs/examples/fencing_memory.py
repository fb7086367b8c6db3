import recipes
from recipes import fencing

gate = fencing.MemoryGate()
prices: dict[str, int] = {}

with recipes.connect("etcd://127.0.0.1:2379/app") as client, client.lock("prices") as grant:
    with gate.admit("prices", grant):
        prices["a book"] = 12
    print(prices)
