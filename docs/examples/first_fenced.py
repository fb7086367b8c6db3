import contextlib
import os
import signal
import sqlite3
import sys

import recipes
from recipes import fencing

who = sys.argv[1]
gate = fencing.SqlGate("fences")  # a table that remembers the largest token

with (
    contextlib.closing(sqlite3.connect("shop.db")) as shop,
    recipes.connect("sqlite://./locks.db", session_timeout=3) as client,
):
    with shop:  # a transaction
        shop.execute(gate.ddl())
        shop.execute("CREATE TABLE IF NOT EXISTS price (item PRIMARY KEY, set_by)")

    try:
        with client.lock("price") as grant:
            print(who, "has the lock, and token", grant.token, flush=True)
            if "--pause" in sys.argv:
                os.kill(os.getpid(), signal.SIGSTOP)  # stops here until it gets SIGCONT
            with shop:  # the check and the write are one transaction
                gate.admit(shop, "price", grant.token)
                shop.execute("REPLACE INTO price VALUES ('a book', ?)", [who])
            print(who, "wrote")
    except recipes.StaleToken as refused:
        print(who, "was refused:", refused)
