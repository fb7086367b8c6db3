from sqlalchemy import create_engine, text

import recipes
from recipes import sql

engine = create_engine("postgresql+psycopg://app:secret@127.0.0.1:5432/app")

with recipes.connect(engine, create_tables=True) as client:
    with client.lock("reports/nightly") as grant:
        # Work that takes minutes, outside of any transaction.
        with engine.begin() as connection:
            connection.execute(text("SELECT 'written'"))
            sql.guard(connection, grant)
            print("commits only if the grant still holds then")

    try:
        with engine.begin() as connection:
            sql.guard(connection, grant)
    except recipes.LockLost:
        print("a late writer is refused")
