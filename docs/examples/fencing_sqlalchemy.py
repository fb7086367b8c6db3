import sqlalchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import recipes
from recipes import fencing


class Base(DeclarativeBase):
    pass


class Report(Base):
    __tablename__ = "report"
    name: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[str]


gate = fencing.SqlGate("fences")
engine = sqlalchemy.create_engine("sqlite:///app.db")

with engine.begin() as connection:  # once, in a migration of yours
    connection.execute(sqlalchemy.text(gate.ddl()))
    Base.metadata.create_all(connection)

with recipes.connect("etcd://127.0.0.1:2379/app") as client, client.lock("reports") as grant:
    with Session(engine) as session, session.begin():
        gate.admit(session, "reports", grant)
        session.merge(Report(name="nightly", body="all is well"))
    with engine.begin() as connection:  # without the ORM it is the same
        gate.admit(connection, "reports", grant)
        print(connection.execute(sqlalchemy.select(Report.body)).scalar())

engine.dispose()
