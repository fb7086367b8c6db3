"""A process that holds on an engine of its own and forks; the child uses the same engine as well.

``python -m integration.sql.forking URL TABLES`` prints what either found, one line of JSON each.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from typing import Any

import sqlalchemy

import recipes

SESSION_S = 4.0
ROUNDS = 30
CONNECTION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


def main() -> None:
    url, tables = sys.argv[1:]
    scheme, _, rest = url.partition(":")
    engine = sqlalchemy.create_engine(f"{DRIVERS[scheme]}:{rest}")
    client = recipes.connect(
        engine, tables=tables, session_timeout=SESSION_S, restart_grace=0, root="forking"
    )
    grant = client.lock("parent's").acquire(timeout=30)
    used: set[Any] = set()

    @sqlalchemy.event.listens_for(engine.pool, "checkout")
    def note(connection: Any, record: Any, proxy: Any) -> None:
        del record, proxy
        cursor = connection.cursor()
        cursor.execute(CONNECTION[scheme])
        used.add(cursor.fetchall()[0][0])
        cursor.close()
        connection.rollback()  # which it began

    for _ in range(ROUNDS):  # so that the pool has several
        grant.verify()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forking beside threads
        theirs, child = set(used), os.fork()
    if child == 0:
        try:
            used.clear()
            for _ in range(ROUNDS):
                client.lock("child's").acquire(timeout=30).release()
            say(child=True, shared=len(used & theirs), used=len(used), held=grant.held)
            client.close()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    until = time.monotonic() + SESSION_S
    while time.monotonic() < until:
        client.lock("beside").acquire(timeout=30).release()
    os.waitpid(child, 0)
    say(child=False, held=grant.held, verified=grant.verify(), released=grant.release())
    client.close()


def say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
