import asyncio

import psycopg

import recipes
from recipes import fencing

DATABASE = "postgresql://app@127.0.0.1:5432/app"
gate = fencing.AsyncSqlGate("fences")


async def main() -> None:
    async with await psycopg.AsyncConnection.connect(DATABASE) as database:
        await database.execute(gate.ddl())

    async with recipes.connect_async("etcd://127.0.0.1:2379/app") as client:
        async with client.lock("reports") as grant, await psycopg.AsyncConnection.connect(DATABASE) as database:
            await gate.admit(database, "reports", grant)
            print("in a transaction, under token", grant.token)


asyncio.run(main())
