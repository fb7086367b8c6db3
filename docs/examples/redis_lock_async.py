import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("redis://127.0.0.1:6379/0/app") as client:
        async with client.lock("reports/nightly") as grant:
            print("one process at a time; token", grant.token)


asyncio.run(main())
