import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async(
        "postgresql://app:secret@127.0.0.1:5432/app", create_tables=True
    ) as client:
        async with client.lock("reports/nightly") as grant:
            print("one process at a time; token", grant.token)


asyncio.run(main())
