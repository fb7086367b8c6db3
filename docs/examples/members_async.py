import asyncio
import contextlib

import recipes

peers: tuple[recipes.Member, ...] = ()


async def stay(group: recipes.AsyncGroup, address: bytes) -> None:
    """Be a member until this task is cancelled; join again if the session was lost."""
    while True:
        with contextlib.suppress(recipes.LockLost):
            async with group.join(address):
                await asyncio.Event().wait()  # a loss ends it


async def follow(group: recipes.AsyncGroup) -> None:
    """Keep a list of the others."""
    global peers
    async for peers in group.watch():
        print("alive:", [member.data.decode() for member in peers])


async def main() -> None:
    async with recipes.connect_async("sqlite://./locks.db") as client:
        group = client.group("web")
        with contextlib.suppress(TimeoutError):  # in a service: until it stops
            async with asyncio.timeout(0.5), asyncio.TaskGroup() as tasks:
                tasks.create_task(stay(group, b"10.0.0.7:8000"))
                tasks.create_task(follow(group))


asyncio.run(main())
