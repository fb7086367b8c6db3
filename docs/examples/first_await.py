import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("sqlite:///tmp/app.db") as client:
        async with client.lock("reports/nightly") as grant:  # waits for its turn
            print("nightly report published under token", grant.token)


asyncio.run(main())
