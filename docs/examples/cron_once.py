import contextlib
import datetime
import sqlite3

import recipes
from recipes import fencing

gate = fencing.SqlGate("fences")


def once_a_day(client: recipes.Client, database: sqlite3.Connection, job: str, day: str) -> str:
    grant = client.lock(job).try_acquire()
    if grant is None:
        return "somebody else is at it"
    with grant:
        found = database.execute("SELECT token FROM done WHERE job = ? AND day = ?", [job, day]).fetchone()
        if found:
            return f"was done under token {found[0]}"
        result = f"report of {day}"  # the work
        with database:  # what it made, and that it is done: both, or neither
            gate.admit(database, job, grant)
            database.execute("INSERT INTO done VALUES (?, ?, ?, ?)", [job, day, grant.token, result])
        return f"done under token {grant.token}"


with (
    contextlib.closing(sqlite3.connect("app.db")) as database,
    recipes.connect("sqlite://./locks.db") as client,
):
    with database:  # once, in a migration of yours
        database.execute(gate.ddl())
        database.execute("CREATE TABLE IF NOT EXISTS done (job, day, token, result, PRIMARY KEY (job, day))")

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    print(once_a_day(client, database, "nightly", today))
    print(once_a_day(client, database, "nightly", today))  # another machine, whose clock is late
