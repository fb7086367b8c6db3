import contextlib
import sqlite3

import recipes

TABLE = "CREATE TABLE IF NOT EXISTS report (name PRIMARY KEY, body, fence INTEGER)"
UPDATE = "UPDATE report SET body = ?, fence = ? WHERE name = 'nightly' AND fence <= ?"


def publish(database: sqlite3.Connection, body: str, token: int) -> bool:
    with database:  # one statement both checks the token and writes
        return database.execute(UPDATE, [body, token, token]).rowcount == 1


with (
    contextlib.closing(sqlite3.connect("reports.db")) as database,
    recipes.connect("sqlite://./locks.db") as client,
):
    with database:
        database.execute(TABLE)
        database.execute("INSERT OR IGNORE INTO report VALUES ('nightly', '', 0)")

    with client.lock("reports") as late:
        pass  # this holder is paused here, and the lock goes to the next
    with client.lock("reports") as grant:
        print("the holder writes:", publish(database, "by the holder", grant.token))
    print("the late one writes:", publish(database, "by the late one", late.token))
