"""Every exception this package raises on purpose, the tree first.

::

    RecipesError
    ├── LockError                what happened to one lock
    │   ├── LockTimeout          not acquired in time (also a TimeoutError)
    │   ├── LockLost             held once, and no longer proven
    │   └── WouldDeadlock        waiting for a grant of the same thread or task
    │       └── UpgradeError     the same, from shared to exclusive
    ├── SessionLost              the session a call depended on has ended
    ├── ClientClosed             the client was closed
    ├── TooWeak                  the store does not give what was required (also a ValueError)
    └── StoreError               the store, or the way to it
        ├── StoreUnavailable     no answer (also a ConnectionError): it may work later
        ├── StoreRefused         an answer, and it was no: trying again will not help
        └── StoreFull            the store has no room left: nothing was written

Facts are attributes, the sentence is made from them, and every error can be
pickled. Bad arguments are a plain ``ValueError`` or ``TypeError``, raised before
anything is sent.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ClientClosed",
    "LockError",
    "LockLost",
    "LockTimeout",
    "RecipesError",
    "SessionLost",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "TooWeak",
    "UpgradeError",
    "WouldDeadlock",
]


class RecipesError(Exception):
    """Base of every error of this package."""

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {k: v for k, v in self.__dict__.items() if not k.startswith("__")}
        return _rebuild, (type(self), facts)


def _rebuild(kind: type[RecipesError], facts: dict[str, Any]) -> RecipesError:
    error = kind.__new__(kind)
    error.__dict__.update(facts)
    return error


class LockError(RecipesError):
    """Something happened to one lock; ``lock`` is its name."""

    lock: str


class LockTimeout(LockError, TimeoutError):
    """The lock was not acquired in time, and nothing of the attempt stays behind.

    Attributes:
        lock: The name of the lock.
        timeout_s: The seconds that were allowed.
        position: How many contenders were ahead when last looked, None if never seen.
    """

    def __init__(self, lock: str, timeout_s: float, position: int | None = None) -> None:
        super().__init__(lock=lock, timeout_s=timeout_s, position=position)

    timeout_s: float
    position: int | None

    def __str__(self) -> str:
        seen = (
            "the store had not answered yet"
            if self.position is None
            else f"at least {self.position} ahead when last looked"
        )
        return (
            f"lock {self.lock!r} was not acquired within {self.timeout_s:g} s ({seen}); "
            "allow more time, or look at who holds it"
        )


class LockLost(LockError):
    """The lock was held, and is not any more: stop touching what it protects.

    Attributes:
        lock: The name of the lock.
        token: The fencing token of the grant that was lost.
        reason: Why, in a few words.
    """

    def __init__(self, lock: str, token: int | None, reason: str) -> None:
        super().__init__(lock=lock, token=token, reason=reason)

    token: int | None
    reason: str

    def __str__(self) -> str:
        return (
            f"lock {self.lock!r} (token {self.token}) is no longer held: {self.reason}; "
            "another client may hold it now, so stop, and acquire it again"
        )


class WouldDeadlock(LockError):
    """This thread or task holds what it is about to wait for.

    Attributes:
        lock: The name of the lock.
        token: The token of the grant that the same owner holds.
    """

    def __init__(self, lock: str, token: int | None) -> None:
        super().__init__(lock=lock, token=token)

    token: int | None

    def __str__(self) -> str:
        return (
            f"this thread or task already holds lock {self.lock!r} (token {self.token}) and would "
            "wait for itself; release that grant first, use try_acquire(), or acquire it by client.rlock() "
            "both times"
        )


class UpgradeError(WouldDeadlock):
    """This thread or task holds the lock shared, and asks to wait for it exclusively.

    Two readers that both wait to become the writer would wait for each other for ever; so
    nobody may. Release the shared grant first, and read again what you decided by.
    """

    def __str__(self) -> str:
        return (
            f"this thread or task holds lock {self.lock!r} shared (token {self.token}) and would wait for "
            "itself to hold it exclusively; release that grant first, then read again what you decided by"
        )


class SessionLost(RecipesError):
    """The session that a call depended on has ended; its locks are gone with it.

    Attributes:
        reason: Why, in a few words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)

    reason: str

    def __str__(self) -> str:
        return f"the session with the store has ended: {self.reason}; the next call opens another"


class ClientClosed(RecipesError):
    """The client was closed; make another with ``connect``."""

    def __str__(self) -> str:
        return "this client is closed; make another with recipes.connect()"


class TooWeak(RecipesError, ValueError):
    """The store does not give what was required of it; raised by ``connect``, before any I/O.

    Attributes:
        store: Which store, as in its URL.
        missing: What it does not give.
        use: Stores that give all that was required.
    """

    def __init__(self, store: str, missing: tuple[str, ...], use: tuple[str, ...]) -> None:
        super().__init__(store=store, missing=missing, use=use)

    store: str
    missing: tuple[str, ...]
    use: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.store} does not give {' and '.join(self.missing)}; use {' or '.join(self.use)}"


class StoreError(RecipesError):
    """The store, or the way to it, is in trouble.

    Attributes:
        store: Where, as ``host:port`` or a file name, without secrets.
        detail: What was seen.
    """

    def __init__(self, store: str, detail: str) -> None:
        super().__init__(store=store, detail=detail)

    store: str
    detail: str

    def __str__(self) -> str:
        return f"{self.store}: {self.detail}"


class StoreUnavailable(StoreError, ConnectionError):
    """No answer from the store: what was asked may have been done, or not.

    The package itself asks again wherever that is safe; this error reaches a
    caller only where there was no more time.
    """

    def __str__(self) -> str:
        return f"no answer from {self.store}: {self.detail}; check that it runs and can be reached"


class StoreRefused(StoreError):
    """The store answered no (permissions, credentials, a bad request, a wrong schema)."""

    def __str__(self) -> str:
        return f"{self.store} refused: {self.detail}; asking again will not help"


class StoreFull(StoreError):
    """The store has no room left to write; nothing was written."""

    def __str__(self) -> str:
        return f"{self.store} is full: {self.detail}; free space there, then try again"
