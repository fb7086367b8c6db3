import contextlib
import datetime
import sqlite3

import recipes
from recipes import fencing

gate = fencing.SqlGate("fences")
FOUND = "SELECT token FROM done WHERE job = ? AND day = ?"
DONE = "CREATE TABLE IF NOT EXISTS done (job, day, token, result, PRIMARY KEY (job, day))"


def once_a_day(
    client: recipes.Client, database: sqlite3.Connection, job: str, day: str
) -> str:
    grant = client.lock(job).try_acquire()
    if grant is None:
        return "another process does it"
    with grant:
        if found := database.execute(FOUND, [job, day]).fetchone():
            return f"was done under token {found[0]}"
        row = [job, day, grant.token, f"report of {day}"]  # the work
        with database:  # the result and the record: both, or neither
            gate.admit(database, job, grant)
            database.execute("INSERT INTO done VALUES (?, ?, ?, ?)", row)
        return f"done under token {grant.token}"


with (
    contextlib.closing(sqlite3.connect("app.db")) as database,
    recipes.connect("sqlite://./locks.db") as client,
):
    with database:  # once, in a migration
        database.execute(gate.ddl())
        database.execute(DONE)

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    print(once_a_day(client, database, "nightly", today))
    print(once_a_day(client, database, "nightly", today))  # another machine, later
