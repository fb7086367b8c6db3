import contextlib
import sqlite3
import threading

import recipes
from recipes import fencing

gate = fencing.SqlGate("fences")
MIGRATIONS = [
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER)",
    "ALTER TABLE orders ADD COLUMN currency TEXT DEFAULT 'EUR'",
]


def version(database: sqlite3.Connection) -> int:
    found: int = database.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(client: recipes.Client, database: sqlite3.Connection) -> str:
    if version(database) == len(MIGRATIONS):
        return "found it done"  # without the lock: most starts migrate nothing
    with client.lock("migration").acquire(timeout=600) as grant:  # all others wait here
        while (done := version(database)) < len(MIGRATIONS):
            with database:  # the step and its version: both, or neither
                gate.admit(database, "migration", grant)
                database.execute(MIGRATIONS[done])
                database.execute(f"PRAGMA user_version = {done + 1}")
    return "can begin"


def start(number: int) -> None:  # one instance of the service
    with (
        contextlib.closing(
            sqlite3.connect("app.db", timeout=10, isolation_level="IMMEDIATE")
        ) as database,
        recipes.connect("sqlite://./locks.db") as client,
    ):
        print(f"instance {number} {migrate(client, database)}\n", end="")


with contextlib.closing(sqlite3.connect("app.db")) as database, database:
    database.execute(gate.ddl())  # once, before the first migration

instances = [threading.Thread(target=start, args=(number,)) for number in range(3)]
for instance in instances:
    instance.start()
for instance in instances:
    instance.join()
start(3)  # a later one
