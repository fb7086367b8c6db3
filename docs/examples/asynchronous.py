import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("etcd://127.0.0.1:2379/app") as client:
        lock = client.lock("reports/nightly")

        async with lock as grant:  # the body is cancelled if the lock is lost
            print("token", grant.token)

        async with lock.acquire(timeout=5) as grant:
            print("token", grant.token)

        grant = await lock.acquire(timeout=5)  # the same without a block
        await grant.release()

        if taken := await lock.try_acquire():
            async with taken:
                print("it was free")


asyncio.run(main())
