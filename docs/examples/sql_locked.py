from sqlalchemy import create_engine, text

import recipes
from recipes import sql

engine = create_engine("postgresql+psycopg://app:secret@127.0.0.1:5432/app")

with engine.begin() as connection:
    token = sql.locked(connection, "stock/7", timeout=5)
    # From here on, no other transaction that locks "stock/7" can change what you read.
    left = connection.execute(text("SELECT 3")).scalar_one()
    print("left:", left - 1, "token", token)
# Committed: now the next transaction has the lock, and reads what was written.

with engine.begin() as connection, engine.begin() as other:
    sql.locked(connection, "stock/7")
    try:
        sql.locked(other, "stock/7", nowait=True)
    except recipes.LockTimeout:
        print("another transaction has it; this transaction can go on")
