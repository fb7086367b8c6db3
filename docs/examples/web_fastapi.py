import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, HTTPException, Request

import recipes


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    async with recipes.connect_async("sqlite://./locks.db") as client:
        yield {"client": client}  # one client for the whole process


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/ship")
async def ship(order: int, request: Request) -> dict[str, int]:
    lock = request.state.client.lock(f"orders/{order}")
    try:
        async with lock.acquire(timeout=2) as grant:
            return {"shipped": order, "token": grant.token}
    except (recipes.StoreUnavailable, recipes.LockLost):  # first: a StoreTimeout is both
        raise HTTPException(503, "try again later") from None
    except recipes.LockTimeout:
        raise HTTPException(409, "another request works on this order") from None
