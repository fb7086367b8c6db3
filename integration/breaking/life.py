"""What a client does while one of its system calls is broken: each kind of call once, in both APIs."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import recipes
from recipes._run.clock import boot_time

__all__ = ["ACQUIRE_S", "AGAIN", "CLOSE_S", "REQUEST_S", "Step", "life"]

REQUEST_S = 2.0
ACQUIRE_S = 6.0
CLOSE_S = 5.0
RENEWED_S = 1.0
AGAIN = ("acquire again", "acquire once more")


@dataclass
class Step:
    """A call, and how it ended.

    Attributes:
        limit_s: How many seconds it may take.
        late_s: How long its process's threads, taken together, were ready meanwhile and did not run.
    """

    name: str
    limit_s: float
    call: Callable[[], Awaitable[Any] | Any]
    began: float = 0.0
    ended: float = 0.0
    late_s: float = 0.0
    error: str = ""
    clear: bool = True
    result: Any = None

    @property
    def facts(self) -> dict[str, Any]:
        """What can be written of it."""
        names = ("name", "limit_s", "began", "ended", "late_s", "error", "clear")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "result": repr(self.result)}

    def __enter__(self) -> Self:
        self.began = boot_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.ended = boot_time()
        if error is not None:
            self.error, self.clear = (
                f"{type(error).__name__}: {error}",
                isinstance(error, recipes.RecipesError),
            )
        return isinstance(error, Exception)


Life = Generator[Step, Step, None]


def life(client: Any, hold: Callable[[Any], Any], waiting: Callable[[], None]) -> Life:
    """Yield one call after the other, and get it back when it has ended.

    Args:
        client: A client that is not open, of any API.
        hold: Holds a grant for a moment, and notes when it was held.
        waiting: Tells another process, which holds ``busy``, to let go of it once this one waits.
    """
    lock = client.lock("own")
    yield Step("open", 2 * REQUEST_S, client.open)
    own = (yield Step("acquire", ACQUIRE_S, lambda: lock.acquire(timeout=ACQUIRE_S))).result
    if own is not None:
        client._runtime.state.wake_keepalive()
        yield Step("verify", REQUEST_S, own.verify)
        yield Step("hold", RENEWED_S, lambda: hold(own))
    yield Step("look", REQUEST_S, lock.holders)
    if own is not None:
        yield Step("release", REQUEST_S, own.release)
    waiting()
    busy = client.lock("busy")
    got = (yield Step("wait", ACQUIRE_S, lambda: busy.acquire(timeout=ACQUIRE_S))).result
    if got is not None:
        yield Step("hold what was awaited", RENEWED_S, lambda: hold(got))
        yield Step("release what was awaited", REQUEST_S, got.release)
    grant = (yield Step("try", REQUEST_S, lock.try_acquire)).result
    if grant is not None:
        yield Step("release what was tried", REQUEST_S, grant.release)
    if client.guarantees.values:
        yield from _values(client)
    grants = []
    for name in AGAIN:  # one of them may be what fails
        last = client.lock(name)
        grants.append((yield Step(name, ACQUIRE_S, partial(last.acquire, timeout=ACQUIRE_S))).result)
    yield Step("close", CLOSE_S, client.close)
    assert not any(grant is not None and grant.held for grant in grants), "the client is closed"


def _values(client: Any) -> Life:
    value = client.value("value")
    with contextlib.closing(value.changes()) as seen:
        yield Step("watch", REQUEST_S + 1, lambda: seen.next(REQUEST_S))
        wrote = yield Step("set", REQUEST_S, lambda: value.set(b"set"))
        change = yield Step("see", REQUEST_S + 1, lambda: seen.next(REQUEST_S))
        if not wrote.error and not change.error and change.result is not None:
            assert change.result.data == b"set", change.result
    yield Step("add", REQUEST_S, lambda: client.counter("counter").add(1))
