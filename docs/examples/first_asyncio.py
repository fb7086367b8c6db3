import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("sqlite://./locks.db") as client:
        lock = client.lock("seats/12a")
        async with lock.acquire(timeout=5) as grant:  # LockTimeout after 5 s in all
            print("held:", grant.held, "under token", grant.token)
            print("another task gets", await asyncio.create_task(lock.try_acquire()))


asyncio.run(main())
