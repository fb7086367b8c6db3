import asyncio

import recipes


async def main() -> None:
    async with recipes.connect_async("sqlite://./locks.db", session_timeout=3) as client:
        lock = client.lock("reports/nightly")
        try:
            async with lock as grant:
                await lock.evict(grant.token)  # here an operator takes the lock away
                try:
                    await asyncio.sleep(60)  # the work: cancelled when the lock is lost
                finally:
                    print("close files, roll back; do not write")
        except recipes.LockLost as lost:
            print(lost)
        task = asyncio.current_task()
        print("the task itself was not cancelled:", task.cancelling() == 0)


asyncio.run(main())
