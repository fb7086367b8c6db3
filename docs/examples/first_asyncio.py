import asyncio

import recipes


async def book(client: recipes.AsyncClient, seat: str, seats: dict[str, str], guest: str) -> None:
    async with client.lock(f"seats/{seat}"):  # other tasks run while this one waits
        if seat not in seats:
            await asyncio.sleep(0.01)  # the payment
            seats[seat] = guest


async def main() -> None:
    seats: dict[str, str] = {}
    async with recipes.connect_async("sqlite://./locks.db") as client:
        async with asyncio.TaskGroup() as tasks:
            for guest in ("ada", "bob", "cleo"):
                tasks.create_task(book(client, "12a", seats, guest))
        print("seat 12a is booked by", seats["12a"])

        lock = client.lock("seats/12a")
        async with lock.acquire(timeout=5) as grant:  # LockTimeout after 5 s in all
            print("still held:", grant.held, "under token", grant.token)
            print("somebody else gets", await asyncio.create_task(lock.try_acquire()))


asyncio.run(main())
