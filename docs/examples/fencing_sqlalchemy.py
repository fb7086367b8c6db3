from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import recipes
from recipes import fencing

gate = fencing.SqlGate("fences")
engine = create_engine("sqlite:///app.db")

with engine.begin() as connection:  # once, in a migration
    connection.execute(text(gate.ddl()))
    connection.execute(text("CREATE TABLE IF NOT EXISTS report (body TEXT)"))

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    with client.lock("reports") as grant, Session(engine) as session, session.begin():
        gate.admit(session, "reports", grant)  # first in the transaction
        session.execute(text("INSERT INTO report VALUES ('all is well')"))
        print(session.scalar(text("SELECT body FROM report")))

engine.dispose()
