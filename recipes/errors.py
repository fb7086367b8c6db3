"""Every exception this package raises on purpose, the tree first.

::

    RecipesError
    ├── LockError                what happened to one lock, or whatever else is held
    │   ├── LockTimeout          not acquired in time (also a TimeoutError)
    │   │   ├── AlreadyJoined    another session is the member of a group with this id
    │   │   └── StoreTimeout     the same, as the store did not answer (also a StoreUnavailable)
    │   ├── LockLost             held once, and no longer proven
    │   ├── QueueFull            as many wait as may
    │   └── WouldDeadlock        waiting for a grant of the same thread or task
    │       └── UpgradeError     the same, from shared to exclusive
    ├── BarrierBroken            a generation of a barrier does not pass
    ├── BarrierMismatch          a barrier has another number of parties (also a ValueError)
    ├── LatchMismatch            a latch was made with another count (also a ValueError)
    ├── SessionLost              the session a call depended on has ended
    ├── ClientClosed             the client was closed
    ├── Closed                   what is asked for the next was closed
    ├── ReentrantCall            by a signal handler, amid a step of the same thread (also a RuntimeError)
    ├── TooWeak                  the store does not give what was required (also a ValueError)
    ├── StaleToken               a gate refused a token: a later holder was there before
    └── StoreError               the store, or the way to it
        ├── OutcomeUnknown       a write was asked for, and it cannot be known whether it was done
        ├── StoreUnavailable     no answer (also a ConnectionError): it may work later
        │   └── StoreUntrusted   TLS failed: one side does not accept the other
        ├── StoreRefused         an answer, and it was no: trying again will not help
        │   └── StoreDenied      not known there, or not permitted (also a PermissionError)
        └── StoreFull            the store has no room left: nothing was written

Facts are attributes, the sentence is made from them, and every error can be
pickled. Bad arguments are a plain ``ValueError`` or ``TypeError``, raised before
anything is sent.
"""

from __future__ import annotations

from typing import Any, cast

from recipes.events import noun_of, titled

__all__ = [
    "AlreadyJoined",
    "BarrierBroken",
    "BarrierMismatch",
    "ClientClosed",
    "Closed",
    "LatchMismatch",
    "LockError",
    "LockLost",
    "LockTimeout",
    "OutcomeUnknown",
    "QueueFull",
    "RecipesError",
    "ReentrantCall",
    "SessionLost",
    "StaleToken",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "StoreUntrusted",
    "TooWeak",
    "UpgradeError",
    "WouldDeadlock",
]


_ARGS: Any = BaseException.__dict__["args"]


def _args(error: BaseException) -> tuple[Any, ...]:
    """Return the sentence of ``error``, for what keeps nothing else of it: results of Celery in JSON."""
    return _ARGS.__get__(error) or (str(error),)


class RecipesError(Exception):
    """Base of every error of this package."""

    def __init__(self, *args: Any, **facts: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(facts)

    args: tuple[Any, ...] = cast("Any", property(_args, _ARGS.__set__))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.__dict__, _ARGS.__get__(self))


def _rebuild(kind: type[RecipesError], facts: dict[str, Any], args: tuple[Any, ...] = ()) -> RecipesError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class LockError(RecipesError):
    """Something happened to one lock, or to whatever else is held.

    Attributes:
        lock: Its name.
        recipe: What it is: "lock", "rlock", "rwlock", "semaphore", "election" ...
    """

    lock: str
    recipe: str = "lock"

    @property
    def _title(self) -> str:
        return titled(self.recipe, self.lock)

    @property
    def _words(self) -> tuple[str, str]:
        return _WORDS.get(self.recipe, _ACQUIRED)


_ACQUIRED = ("acquired", "acquire it again")
_WORDS = {"election": ("won", "campaign again"), "group": ("joined", "join again")}
"""What is done with something, and how it is asked for once more, where that is not "acquire"."""


class LockTimeout(LockError, TimeoutError):
    """The lock was not acquired in time; its place in the queue is withdrawn just behind the call.

    Where the reason is that the store did not answer, it is a `StoreTimeout`, which is a
    `StoreUnavailable` too. So a program can tell "busy" from "down".

    Attributes:
        lock: The name of the lock.
        recipe: What it is, as in every `LockError`.
        timeout_s: The seconds that were allowed.
        position: How many contenders were ahead when last looked, None if never seen.
    """

    def __init__(
        self, lock: str, timeout_s: float, position: int | None = None, *, recipe: str = "lock"
    ) -> None:
        super().__init__(lock=lock, recipe=recipe, timeout_s=timeout_s, position=position)

    timeout_s: float
    position: int | None

    def __str__(self) -> str:
        seen = (
            "the store had not answered yet"
            if self.position is None
            else f"at least {self.position} ahead when last looked"
        )
        return (
            f"{self._title} was not {self._words[0]} within {self.timeout_s:g} s ({seen}); "
            "allow more time, or look at who holds it"
        )


class AlreadyJoined(LockTimeout):
    """The group has a member with this id, which did not leave in time; nothing stays behind.

    After a crash that is the former process's session, until the store has ended it: allow more than the
    session timeout. Else it is another process, or another grant of this one, under the same id.

    Attributes:
        lock: The name of the group.
        recipe: "group".
        member_id: The id.
        timeout_s: The seconds that were allowed.
        position: How many with this id were ahead when last looked.
    """

    def __init__(self, lock: str, member_id: str, timeout_s: float, position: int | None = None) -> None:
        super().__init__(lock, timeout_s, position, recipe="group")
        self.member_id = member_id

    member_id: str

    def __str__(self) -> str:
        return (
            f"{self._title} has a member {self.member_id!r}, which did not leave within "
            f"{self.timeout_s:g} s; a crashed one goes with its session, so allow more than the session "
            "timeout, or join under another id"
        )


class LockLost(LockError):
    """The lock was held, and is not any more: stop touching what it protects.

    Attributes:
        lock: The name of the lock.
        recipe: What it is, as in every `LockError`.
        token: The fencing token of the grant that was lost; None if it has none.
        reason: Why, in a few words.
    """

    def __init__(self, lock: str, token: int | None, reason: str, *, recipe: str = "lock") -> None:
        super().__init__(lock=lock, recipe=recipe, token=token, reason=reason)

    token: int | None
    reason: str

    def __str__(self) -> str:
        return (
            f"{self._title}{_numbered(self.token)} is no longer held: {self.reason}; "
            f"another client may hold it now, so stop, and {self._words[1]}"
        )


class QueueFull(LockError):
    """As many wait for the lock as the caller allowed; this one has left the queue again.

    Attributes:
        lock: The name of the lock.
        recipe: What it is, as in every `LockError`.
        max_waiters: How many were allowed to wait.
        position: How many contenders were ahead, those that hold among them.
    """

    def __init__(self, lock: str, max_waiters: int, position: int, *, recipe: str = "lock") -> None:
        super().__init__(lock=lock, recipe=recipe, max_waiters=max_waiters, position=position)

    max_waiters: int
    position: int

    def __str__(self) -> str:
        return (
            f"{self._title} has no room for one more waiter: {self.position} ahead, and "
            f"max_waiters is {self.max_waiters}; nothing was left in the queue, so try again later"
        )


class WouldDeadlock(LockError):
    """This thread or task holds what it is about to wait for.

    Attributes:
        lock: The name of the lock.
        recipe: What it is, as in every `LockError`.
        token: The token of the grant that the same owner holds; None if it has none.
    """

    def __init__(self, lock: str, token: int | None, *, recipe: str = "lock") -> None:
        super().__init__(lock=lock, recipe=recipe, token=token)

    token: int | None

    def __str__(self) -> str:
        instead = "or do not wait (timeout=0)"
        if self.recipe == "semaphore":
            instead = "or have each thread or task acquire what it uses, or do not wait (timeout=0)"
        elif self.recipe == "rwlock":
            instead = "or use try_acquire()"
        elif noun_of(self.recipe) == "lock":
            instead = "use try_acquire(), or acquire it by client.rlock() both times"
        return (
            f"this thread or task already holds {self._title}{_numbered(self.token)} and would "
            f"wait for itself; release that grant first, {instead}"
        )


class UpgradeError(WouldDeadlock):
    """This thread or task holds the lock shared, and asks to wait for it exclusively.

    Two readers that both wait to become the writer would wait for each other for ever; so
    nobody may. Release the shared grant first, and read again what you decided by.
    """

    def __str__(self) -> str:
        return (
            f"this thread or task holds {self._title} shared (token {self.token}) and would wait for "
            "itself to hold it exclusively; release that grant first, then read again what you decided by"
        )


class BarrierBroken(RecipesError):
    """A generation of a barrier does not pass: all that waited in it get this error; the next begins clean.

    Also raised by `Barrier.leave` where not all that entered together have left in time.

    Attributes:
        name: The barrier's name.
        generation: Which generation, counted from 1 since the barrier was first used.
        reason: Why, in a few words.
    """

    def __init__(self, name: str, generation: int, reason: str) -> None:
        super().__init__(name=name, generation=generation, reason=reason)

    name: str
    generation: int
    reason: str

    def __str__(self) -> str:
        return (
            f"generation {self.generation} of {titled('barrier', self.name)} is broken: {self.reason}; "
            "all parties have to come again"
        )


class BarrierMismatch(RecipesError, ValueError):
    """A barrier is used with another number of parties; nothing has waited.

    Attributes:
        name: The barrier's name.
        parties: How many pass together, as this client says.
        others: How many, as those say that use it now.
    """

    def __init__(self, name: str, parties: int, others: int) -> None:
        super().__init__(name=name, parties=parties, others=others)

    name: str
    parties: int
    others: int

    def __str__(self) -> str:
        return (
            f"{titled('barrier', self.name)} is used for {self.others} parties, and not for {self.parties}; "
            "name the same number everywhere, or change it while nothing uses the barrier"
        )


class SessionLost(RecipesError):
    """The session that a call depended on has ended; its locks are gone with it.

    Attributes:
        reason: Why, in a few words.
        lock: The lock whose queue the call had joined, if it was not to queue again.
        recipe: What that is, as in every `LockError`.
    """

    def __init__(self, reason: str, lock: str | None = None, *, recipe: str = "lock") -> None:
        super().__init__(reason=reason, lock=lock, recipe=recipe)

    reason: str
    lock: str | None
    recipe: str = "lock"

    def __str__(self) -> str:
        if self.lock is not None:
            what, again = titled(self.recipe, self.lock), _WORDS.get(self.recipe, _ACQUIRED)[1]
            return f"the place in the queue of {what} is gone: {self.reason}; {again}"
        return f"the session with the store has ended: {self.reason}; the next call opens another"


class ClientClosed(RecipesError):
    """The client was closed; make another with ``connect``."""

    def __str__(self) -> str:
        return "this client is closed; make another with connect() or connect_async()"


class Closed(RecipesError):
    """What is asked for the next was closed, by this thread or task or another: there is nothing more.

    In a ``for`` loop over it this is the end of the loop.
    """

    def __str__(self) -> str:
        return "what is asked for the next was closed, so there is nothing more; begin anew"


class ReentrantCall(RecipesError, RuntimeError):
    """A signal handler, or a finalizer, made this call amid a step of the thread that it interrupted.

    Nothing was sent. The call would have waited for what it interrupted, which goes on only when the
    handler returns. That is rare: while a thread waits, for a lock or for an answer, a handler may call
    what it likes. ``release`` and ``close`` never raise it: the rest of them is done behind the scenes.
    """

    def __str__(self) -> str:
        return (
            "a signal handler or finalizer made this call amid a call that it interrupted; "
            "set a flag there, or make the call in another thread"
        )


class TooWeak(RecipesError, ValueError):
    """The store does not give what was required of it; raised by ``connect`` and by gates, before any I/O.

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


class LatchMismatch(RecipesError, ValueError):
    """The latch was made with another count by another client; nothing was counted.

    Attributes:
        name: The latch's name.
        count: The count that was named here.
        stored: The count that it was made with.
    """

    def __init__(self, name: str, count: int, stored: int) -> None:
        super().__init__(name=name, count=count, stored=stored)

    name: str
    count: int
    stored: int

    def __str__(self) -> str:
        return (
            f"latch {self.name!r} was made to be counted down {self.stored} times, not {self.count}; "
            "name the same count everywhere, or take another name"
        )


class StaleToken(RecipesError):
    """A gate of `recipes.fencing` refused a token: somebody with a later one was there before.

    Nothing was written, and whatever was read is out of date.

    Attributes:
        name: What the gate protects.
        token: The token that was refused.
        seen: The smallest one that would have passed.
    """

    def __init__(self, name: str, token: int, seen: int) -> None:
        super().__init__(name=name, token=token, seen=seen)

    name: str
    token: int
    seen: int

    def __str__(self) -> str:
        return (
            f"{self.name!r} refused token {self.token}: it has seen {self.seen}, of a later holder; "
            "stop, acquire the lock again, and read again what you decided by"
        )


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


class OutcomeUnknown(StoreError):
    """A write was sent, no answer came, and it cannot be known whether it was done; it is not done twice.

    The session ended before the answer came, or the time was over. Behind the scenes the client sees to it
    that it is not done any more, if it was not (``pending_cleanups`` counts that). What this client reads
    from here on is read after that, also in its next session. To other clients a copy on its way may show
    until then, or until the session has ended.

    Attributes:
        recipe: What was written: "value", "counter", "latch" ...
        name: Its name.
    """

    def __init__(self, store: str, detail: str, *, recipe: str, name: str) -> None:
        super().__init__(store, detail)
        self.recipe, self.name = recipe, name

    recipe: str
    name: str

    def __str__(self) -> str:
        return (
            f"it is not known whether {titled(self.recipe, self.name)} was written on {self.store}: "
            f"{self.detail}; read it before you write it again"
        )


class StoreUnavailable(StoreError, ConnectionError):
    """No answer from the store: what was asked may have been done, or not.

    The package itself asks again wherever that is safe; this error reaches a
    caller only where there was no more time. Of a write that may have been done
    it says so by another error, `OutcomeUnknown`.

    Attributes:
        unsent: It is known that nothing was sent.
    """

    def __init__(self, store: str, detail: str, *, unsent: bool = False) -> None:
        super().__init__(store, detail)
        self.unsent = unsent

    unsent: bool

    def __str__(self) -> str:
        return f"no answer from {self.store}: {self.detail}; check that it runs and can be reached"


class StoreTimeout(LockTimeout, StoreUnavailable):
    """The lock was not acquired in time, and when the time ended the store did not answer.

    Both a `LockTimeout` and a `StoreUnavailable`. It cannot be known whether the lock is held by another
    client. What the attempt may have left in the queue is withdrawn behind the scenes, or goes with its
    session.

    Attributes:
        lock: The name of the lock.
        recipe: What it is, as in every `LockError`.
        timeout_s: The seconds that were allowed.
        position: How many contenders were ahead when last looked, None if never seen.
        store: Where, as in every `StoreError`.
        detail: What was seen.
        unsent: It is known that nothing was sent.
    """

    def __init__(
        self,
        lock: str,
        timeout_s: float,
        position: int | None = None,
        *,
        silent: StoreUnavailable,
        recipe: str = "lock",
    ) -> None:
        of_lock = {"lock": lock, "recipe": recipe, "timeout_s": timeout_s, "position": position}
        of_store = {"store": silent.store, "detail": silent.detail, "unsent": silent.unsent}
        RecipesError.__init__(self, **of_lock, **of_store)  # the two bases take different arguments

    def __str__(self) -> str:
        return (
            f"{self._title} was not {self._words[0]} within {self.timeout_s:g} s: no answer from "
            f"{self.store} ({self.detail}); check that the store runs and can be reached"
        )


class StoreUntrusted(StoreUnavailable):
    """TLS with the store failed: a certificate is not accepted, or the port does not speak TLS.

    Another server of the cluster may do better, so it is asked again like any that does not answer.
    """

    def __str__(self) -> str:
        what_next = "check the certificates, tls_ca= and the host in the URL"
        return f"no TLS with {self.store}: {self.detail}; {what_next}"


class StoreRefused(StoreError):
    """The store answered no (permissions, credentials, a bad request, a wrong schema)."""

    def __str__(self) -> str:
        return f"{self.store} refused: {self.detail}; asking again will not help"


class StoreDenied(StoreRefused, PermissionError):
    """The store does not accept the credentials, or does not permit the request (role, ACL)."""

    def __str__(self) -> str:
        return f"{self.store} denied access: {self.detail}; check username, password and what they permit"


class StoreFull(StoreError):
    """The store has no room left to write; nothing was written."""

    def __str__(self) -> str:
        return f"{self.store} is full: {self.detail}; free space there, then try again"


def _numbered(token: int | None) -> str:
    """Return which grant it was, where grants have numbers."""
    return "" if token is None else f" (token {token})"
