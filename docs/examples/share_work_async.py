import asyncio
import contextlib

import recipes

SHARDS = [f"shard-{number}" for number in range(4)]


async def work_on(shard: str, grant: recipes.AsyncGrant) -> None:
    with contextlib.suppress(recipes.LockLost):
        async with grant:  # cancelled if the grant is lost
            while True:
                # a step of the work: await index(shard, fence=grant.token)
                await asyncio.sleep(0.1)


async def serve(client: recipes.AsyncClient) -> None:
    async with client.group("indexers").join() as membership, asyncio.TaskGroup() as works:
        tasks: dict[str, asyncio.Task[None]] = {}
        async for assignment in membership.partitions(SHARDS):
            for shard in assignment.leaving:
                tasks[shard].cancel()
                await asyncio.wait([tasks.pop(shard)])  # before the shard is given away
            for shard, grant in assignment.new.items():
                tasks[shard] = works.create_task(work_on(shard, grant))
            print("works on", *assignment)


async def main() -> None:
    async with recipes.connect_async("etcd://127.0.0.1:2379/app") as client:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(serve(client), 0.5)  # a service runs forever


asyncio.run(main())
