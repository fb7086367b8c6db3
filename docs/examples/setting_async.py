import asyncio
import json

import recipes

settings = {"rate": 10}


async def follow(value: recipes.AsyncValue, changed: asyncio.Event) -> None:
    """Keep `settings` as they are in the store, until this task is cancelled."""
    async for found in value.changes():
        if found is not None:
            settings.update(json.loads(found.data))
            changed.set()


async def main() -> None:
    async with recipes.connect_async("sqlite://./locks.db") as client:
        value, changed = client.value("settings"), asyncio.Event()
        following = asyncio.create_task(follow(value, changed))

        await value.set(b'{"rate": 25}')
        await changed.wait()
        print("from now on:", settings)

        following.cancel()


asyncio.run(main())
