import asyncio

import redis.asyncio

import recipes
from recipes import fencing


async def main() -> None:
    async with (
        redis.asyncio.Redis(host="127.0.0.1", port=6379) as server,
        recipes.connect_async("etcd://127.0.0.1:2379/app") as client,
    ):
        gate = fencing.AsyncRedisGate(server)
        async with client.lock("reports") as grant:
            done = await gate.transaction("reports", grant, lambda pipe: pipe.set("report:nightly", "all is well"))
            print(done, "under token", grant.token)


asyncio.run(main())
