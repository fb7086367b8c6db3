import asyncio

import recipes
from recipes import testing


async def publish(client: recipes.AsyncClient, archive: list[str]) -> None:
    async with client.lock("reports"):  # the body is cancelled if the lock is lost
        archive.append("begins")
        await asyncio.sleep(3600)
        archive.append("ends")


def test_it_stops_when_the_lock_is_lost() -> None:
    async def main() -> None:
        archive: list[str] = []
        async with testing.Store() as store, store.connect_async() as client:
            publishing = asyncio.create_task(publish(client, archive))
            await store.clock.advance_async(60)
            assert archive == ["begins"]
            store.expire(client)  # it finds out when it renews, every 5 s
            await store.clock.advance_async(5)
            assert isinstance(publishing.exception(), recipes.LockLost)
        assert archive == ["begins"]

    asyncio.run(main())
