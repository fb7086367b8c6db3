import asyncio

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from recipes import sql


async def main() -> None:
    engine = create_async_engine("postgresql+psycopg://app:secret@127.0.0.1:5432/app")
    async with AsyncSession(engine) as session, session.begin():
        token = await sql.locked_async(session, "stock/7", timeout=5)
        left = (await session.execute(text("SELECT 3"))).scalar_one()
        print("left:", left - 1, "token", token)
    await engine.dispose()


asyncio.run(main())
