from sqlalchemy import create_engine, text

import recipes

engine = create_engine("postgresql+psycopg://app:secret@127.0.0.1:5432/app")

with recipes.connect(engine, create_tables=True) as client:
    with client.lock("reports/nightly") as grant, engine.begin() as connection:
        rows = connection.execute(text("SELECT 1")).all()
        print("beside the lock:", rows, "token", grant.token)
