from zlib import crc32

from sqlalchemy import create_engine, text

from recipes import sql

engine = create_engine("postgresql+psycopg://app:secret@127.0.0.1:5432/app")

with engine.begin() as connection:
    number = {"number": crc32(b"stock/7")}
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), number)
    token = sql.locked(connection, "stock/7")
    print("held under both, token", token)
