import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("redis://127.0.0.1:6379", prefix="", session_timeout=15) as client:
        async with client.lock("reports").acquire(timeout=5) as grant:
            print("the report is made under token", grant.token)


asyncio.run(main())
