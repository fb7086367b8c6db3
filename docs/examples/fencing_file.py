import json

import recipes
from recipes import fencing

gate = fencing.FileGate("catalog.json")

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    lock = client.lock("catalog")
    with lock as late:
        gate.write(late, json.dumps(["a book"]).encode())
    with lock as grant:
        books = json.loads(gate.read(grant))
        gate.write(grant, json.dumps([*books, "another"]).encode())

    try:
        gate.write(late.token, b"[]")
    except recipes.StaleToken as refused:
        print(refused)
