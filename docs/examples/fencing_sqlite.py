import contextlib
import sqlite3

import recipes
from recipes import fencing

gate = fencing.SqlGate("fences")

with (
    contextlib.closing(sqlite3.connect("app.db")) as database,
    recipes.connect("etcd://127.0.0.1:2379/app") as client,
):
    with database:  # once, in a migration of yours
        database.execute(gate.ddl())
        database.execute("CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, body TEXT)")

    with client.lock("reports") as late:
        pass  # this holder stops here, past its session's timeout, and the lock goes on to the next
    with client.lock("reports") as grant, database:  # a transaction
        gate.admit(database, "reports", grant)
        database.execute("REPLACE INTO report VALUES ('nightly', 'by the holder')")

    try:
        with database:  # StaleToken leaves the block, and so rolls back
            gate.admit(database, "reports", late.token)
            database.execute("REPLACE INTO report VALUES ('nightly', 'by the late one')")
    except recipes.StaleToken as refused:
        print(refused)
    assert database.execute("SELECT body FROM report").fetchone() == ("by the holder",)
