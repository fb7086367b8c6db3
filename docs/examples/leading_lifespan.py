import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import recipes

URL = "sqlite://./locks.db"


async def schedule(leadership: recipes.AsyncLeadership) -> None:
    while True:  # until it is cancelled
        print("starts what is due, under token", leadership.token)
        await asyncio.sleep(0.2)


async def lead(election: recipes.AsyncElection) -> None:
    while True:
        try:
            await election.run(schedule, "host-1:8000")
        except Exception:
            logging.exception("the work failed")  # and campaigns again
            await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    async with recipes.connect_async(URL) as client:
        election = client.election("scheduler")
        leading = asyncio.create_task(lead(election))
        yield {"election": election}
        leading.cancel()  # ends the work, then resigns
        await asyncio.wait([leading])


# app = FastAPI(lifespan=lifespan)
# In a handler: leader = await request.state.election.leader()


async def main() -> None:  # what the server does with it
    async with lifespan(None) as state:
        await asyncio.sleep(0.5)
        print("requests see", await state["election"].leader())


asyncio.run(main())
