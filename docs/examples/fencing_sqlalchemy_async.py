import asyncio

import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import recipes
from recipes import fencing

gate = fencing.AsyncSqlGate("fences")


async def main() -> None:
    engine = create_async_engine("postgresql+psycopg://app@127.0.0.1:5432/app")
    async with engine.begin() as connection:
        await connection.execute(sqlalchemy.text(gate.ddl()))

    async with recipes.connect_async("etcd://127.0.0.1:2379/app") as client:
        async with client.lock("reports") as grant, AsyncSession(engine) as session, session.begin():
            await gate.admit(session, "reports", grant)
            print("in a transaction, under token", grant.token)
    await engine.dispose()


asyncio.run(main())
