import psycopg

import recipes
from recipes import fencing

DATABASE = "postgresql://app@127.0.0.1:5432/app"
TABLE = "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, body TEXT)"
gate = fencing.SqlGate("fences")

with psycopg.connect(DATABASE) as database:  # once, in a migration
    database.execute(gate.ddl())
    database.execute(TABLE)

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports") as grant, psycopg.connect(DATABASE) as database:
        gate.admit(database, "reports", grant)  # first in the transaction
        database.execute("DELETE FROM report")
        database.execute("INSERT INTO report VALUES ('nightly', 'all is well')")
        print(database.execute("SELECT body FROM report").fetchone())
