"""The client: one session with a store, and the recipes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Self

from recipes import guarantees
from recipes._contract.deadline import duration
from recipes._contract.names import decode
from recipes._contract.operations import List, Listing, Queues
from recipes._programs.observing import look_up
from recipes._programs.queueing import open_session
from recipes._run.blocking import BlockingRuntime
from recipes._run.runtime import Settings
from recipes.guarantees import Guarantees, Need
from recipes.inspection import checked_limit, described
from recipes.lock import AsyncLock, Lock
from recipes.rlock import AsyncRLock, RLock
from recipes.rwlock import AsyncReadWriteLock, ReadWriteLock
from recipes.semaphore import AsyncSemaphore, Semaphore
from recipes.session import Session
from recipes.stores.credentials import apart
from recipes.stores.registry import from_url

if TYPE_CHECKING:
    import ssl
    from os import PathLike
    from types import TracebackType

    from recipes._contract.backend import Engine
    from recipes._contract.operations import Program
    from recipes._programs.session import Board
    from recipes._run.runtime import Call
    from recipes._run.tasks import AsyncRuntime
    from recipes.grant import AsyncGrant, Grant
    from recipes.inspection import ContenderInfo

__all__ = ["AsyncClient", "Client", "connect", "connect_async"]

SHORTEST_SESSION_S = 2.0
SHORTEST_REQUEST_S = 0.05
LONGEST_OWNER = 200


def connect(
    url: str,
    *,
    session_timeout: float = 15,
    request_timeout: float = 5,
    require: Need | Iterable[Need] = (),
    owner: str | None = None,
    username: str | None = None,
    password: str | Callable[[], str] | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_cert: str | PathLike[str] | None = None,
    tls_key: str | PathLike[str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    sasl: Literal["DIGEST-MD5"] | None = None,
    acl: Sequence[Any] | None = None,
    **unknown: Never,
) -> Client:
    """Return a client of the store at ``url``; validates, and does no I/O.

    Enter it (or call `Client.open`) to start the session and fail fast; otherwise the
    first use starts it.

    Args:
        url: ``zookeeper://host:port,host:port/root``, ``etcd://host:port,.../prefix``
            (``zookeepers://`` and ``etcds://`` for TLS), ``sqlite:///path/to/file`` (the processes
            of one machine), ``memory://`` (private) or ``memory://name`` (shared in the process).
            The path keeps this application's locks apart from others'.
        session_timeout: Seconds after which the store frees what this client holds, if it
            hears nothing; what is asked for (`Session.timeout` is what was granted). At
            least 2.
        request_timeout: Seconds for one request, hence for `Lock.try_acquire`,
            `Grant.release` and `Grant.verify`.
        require: What the store has to give, one or several of "fencing", "linearizable",
            "durable", "many_processes" and "many_machines" (see `Guarantees`).
        owner: A label that `Lock.holders` and the like show to whoever looks, with the name of this
            machine, the process's number, and when it joined: 1 to 200 characters, stored beside
            each contender. None: nothing of that is stored.
        username: Whom to log in as, on a store on a network; with ``password``. Both may also be in
            the URL, as ``user:password@``.
        password: Text, or a callable that returns it. It runs in a thread of its own, one at a time,
            and is waited for as long as a request may take.
        tls_ca: With TLS, the path of a PEM file with the CAs to trust instead of the system's.
        tls_cert: With TLS, the path of a PEM file with the own certificate.
        tls_key: The path of a PEM file with its key, if that is not in the same file.
        ssl_context: With TLS, a context instead of the three paths.
        sasl: For ZooKeeper, log in by SASL; otherwise by the scheme ``digest``.
        acl: For ZooKeeper, a list of ``kazoo.security.ACL`` for all that is made. None:
            ``CREATOR_ALL_ACL`` with credentials, and open without.
        unknown: There are no other options.

    Raises:
        TooWeak: The store does not give what is required; a ValueError too.
        ValueError: An unknown scheme, an option that is unknown or not for this store, a URL or a
            duration that does not fit.
        TypeError: A value of the wrong type.
        RuntimeError: eventlet has patched this process; gevent may.
    """
    url, options = apart(
        url,
        {
            "username": username,
            "password": password,
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "ssl_context": ssl_context,
            "sasl": sasl,
            "acl": acl,
            **unknown,
        },
    )
    del password, unknown  # first of all: no traceback shows a password from here on
    return Client(_engine(url, require, options), _settings(session_timeout, request_timeout, owner))


def connect_async(
    url: str,
    *,
    session_timeout: float = 15,
    request_timeout: float = 5,
    require: Need | Iterable[Need] = (),
    owner: str | None = None,
    username: str | None = None,
    password: str | Callable[[], str] | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_cert: str | PathLike[str] | None = None,
    tls_key: str | PathLike[str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    sasl: Literal["DIGEST-MD5"] | None = None,
    acl: Sequence[Any] | None = None,
    **unknown: Never,
) -> AsyncClient:
    """Same as `connect`, but for asyncio."""
    url, options = apart(
        url,
        {
            "username": username,
            "password": password,
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "ssl_context": ssl_context,
            "sasl": sasl,
            "acl": acl,
            **unknown,
        },
    )
    del password, unknown  # first of all: no traceback shows a password from here on
    return AsyncClient(_engine(url, require, options), _settings(session_timeout, request_timeout, owner))


_OPTIONAL = frozenset(("username", "password", "tls_ca", "tls_cert", "tls_key", "ssl_context", "sasl", "acl"))
"""The options that are not given where they are None; what nobody knows is refused, None or not."""


def _engine(url: str, needs: Need | Iterable[Need], options: dict[str, Any]) -> Engine:
    given = {name: value for name, value in options.items() if value is not None or name not in _OPTIONAL}
    engine = from_url(url, given)
    guarantees.require(needs, engine.guarantees, f"{url.partition(':')[0].lower()}://")
    return engine


def _settings(session_timeout: float, request_timeout: float, owner: str | None) -> Settings:
    session_s = duration("session_timeout", session_timeout, least=SHORTEST_SESSION_S)
    request_s = duration("request_timeout", request_timeout, least=SHORTEST_REQUEST_S)
    if session_s is None or request_s is None:
        raise TypeError("session_timeout and request_timeout are numbers of seconds")
    if owner is not None and not isinstance(owner, str):
        raise TypeError(f"owner is a str or None, not {type(owner).__name__}")
    if owner is not None and not (1 <= len(owner) <= LONGEST_OWNER and owner.isprintable()):
        raise ValueError(f"owner is 1 to {LONGEST_OWNER} printable characters, not {owner[:40]!r}")
    return Settings(session_s, request_s, owner)


def _look_at_all(limit: int, board: Board) -> Program[dict[str, list[ContenderInfo]]]:
    """Read the names of queues, then each of these."""
    found: dict[str, list[ContenderInfo]] = {}
    queues: tuple[str, ...] = yield from look_up(Queues(limit))
    for queue in queues:
        name = decode(queue)
        listing: Listing = yield from look_up(List(queue, limit))
        if name is not None and listing.contenders:
            found[name] = described(name, listing.contenders, None if board.epoch is None else board.epoch.id)
    return found


class _BaseClient:
    """What both clients share."""

    _runtime: Any

    @property
    def session(self) -> Session:
        """The session with the store."""
        return Session(self._runtime)

    @property
    def guarantees(self) -> Guarantees:
        """What the store promises; no I/O."""
        given: Guarantees = self._runtime.engine.guarantees
        return given

    @property
    def pending_cleanups(self) -> int:
        """How many contenders of interrupted calls are still to be withdrawn, behind the scenes."""
        return len(self._runtime.cleaning)

    def _locks(self, limit: int) -> Program[dict[str, list[ContenderInfo]]]:
        return _look_at_all(checked_limit(limit), self._runtime.board)

    def _looking(self) -> Call:
        within = self._runtime.settings.request_timeout_s
        call: Call = self._runtime.call(None, within, fail_fast=True)
        return call

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._runtime.engine.label}: session {self.session.state}>"


class Client(_BaseClient):
    """A client of one store: one session, shared by all threads that use it.

    Made by `connect`. After a fork the child's client starts a session of its own on first
    use, and holds none of the parent's grants.
    """

    _runtime: BlockingRuntime

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._runtime = (engine.blocking_driver or BlockingRuntime)(engine, settings)
        self._runtime.face = self

    def lock(self, name: str, *, max_hold: float | None = None) -> Lock:
        """Return the exclusive lock of this name; no I/O.

        Args:
            name: The lock's name.
            max_hold: Seconds after which a holder that has neither released it nor called
                `Grant.progress` gives it up, though its session lives: the grant is lost, and the
                next in line gets it. At least 0.1; None: never.

        Raises:
            ValueError: The name is empty, no text, or longer than 1 024 encoded bytes;
                ``max_hold`` is too short, or no duration.
        """
        return Lock(self._runtime, name, max_hold=max_hold)

    def rlock(self, name: str, *, max_hold: float | None = None) -> RLock:
        """Return the re-entrant exclusive lock of this name; no I/O.

        It and the `lock` of the same name exclude each other.

        Args:
            name: The lock's name.
            max_hold: Seconds after which a holder that has neither released it nor called
                `Grant.progress` gives it up, though its session lives: the grant is lost, and the
                next in line gets it. At least 0.1; None: never.

        Raises:
            ValueError: The name is empty, no text, or longer than 1 024 encoded bytes;
                ``max_hold`` is too short, or no duration.
        """
        return RLock(self._runtime, name, max_hold=max_hold)

    def rwlock(self, name: str, *, max_hold: float | None = None) -> ReadWriteLock:
        """Return the read-write lock of this name; no I/O.

        Its writer and the `lock` of the same name exclude each other.

        Args:
            name: The lock's name.
            max_hold: Seconds after which a holder that has neither released it nor called
                `Grant.progress` gives it up, though its session lives: the grant is lost, and the
                next in line gets it. At least 0.1; None: never.

        Raises:
            ValueError: The name is empty, no text, or longer than 1 024 encoded bytes;
                ``max_hold`` is too short, or no duration.
        """
        return ReadWriteLock(self._runtime, name, max_hold=max_hold)

    def semaphore(self, name: str, limit: int, *, max_hold: float | None = None) -> Semaphore:
        """Return the semaphore of this name; no I/O.

        Args:
            name: The semaphore's name; a lock of the same name has nothing to do with it.
            limit: How many permits there are; all clients should name the same.
            max_hold: As for `lock`.

        Raises:
            ValueError: The name, the limit or ``max_hold`` does not fit.
        """
        return Semaphore(self._runtime, name, limit, max_hold=max_hold)

    def locks(self, *, limit: int = 100) -> dict[str, list[ContenderInfo]]:
        """Return the locks in whose queues anybody stands, with the heads of their queues, by name.

        Reads one queue after the other: not one moment of all. On ZooKeeper it also lists locks
        that are free, whose nodes stay.

        Args:
            limit: How many locks, and how many contenders of each; 1 to 10 000.

        Raises:
            StoreUnavailable: The store gave no answer within the request timeout.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            ValueError: The limit does not fit; nothing was sent.
        """
        return self._runtime.run(self._locks(limit), self._looking())

    @property
    def grants(self) -> list[Grant]:
        """The grants this client holds."""
        self._runtime.sweep()
        return [grant for hold in self._runtime.holds for grant in hold.faces]

    def open(self) -> Self:
        """Start the session now; fails fast.

        Raises:
            StoreUnavailable: The store gave no answer within twice the request timeout.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
        """
        within = 2 * self._runtime.settings.request_timeout_s
        self._runtime.run(open_session(), self._runtime.call(None, within, fail_fast=True))
        return self

    def close(self) -> None:
        """Release everything and end the session; returns within 5 s, with the store dead too.

        Calls in progress raise `ClientClosed`. Closing twice is fine. A client that is open when
        the process exits is closed then, within 2 s; if it holds something, a `ResourceWarning`
        names it. Dropping the last reference to a client closes nothing: it renews on, an
        `AsyncClient` as long as its loop lives.
        """
        self._runtime.close()

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()  # nobody else will: the body, and its end, are never reached
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_BaseClient):
    """Same as `Client`, but for asyncio; it belongs to the loop of its first use."""

    _runtime: AsyncRuntime

    def __init__(self, engine: Engine, settings: Settings) -> None:
        from recipes._run.tasks import AsyncRuntime  # noqa: PLC0415 - asyncio is slow to import

        self._runtime = (engine.asyncio_driver or AsyncRuntime)(engine, settings)
        self._runtime.face = self

    def lock(
        self, name: str, *, max_hold: float | None = None, on_lost: Literal["cancel", "tell"] = "cancel"
    ) -> AsyncLock:
        """Same as `Client.lock`.

        Args:
            name: The lock's name.
            max_hold: As for `Client.lock`.
            on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
                only "tell" by ``grant.lost``.
        """
        return AsyncLock(self._runtime, name, max_hold=max_hold, on_lost=on_lost)

    def rlock(
        self, name: str, *, max_hold: float | None = None, on_lost: Literal["cancel", "tell"] = "cancel"
    ) -> AsyncRLock:
        """Same as `Client.rlock`.

        Args:
            name: The lock's name.
            max_hold: As for `Client.lock`.
            on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
                only "tell" by ``grant.lost``.
        """
        return AsyncRLock(self._runtime, name, max_hold=max_hold, on_lost=on_lost)

    def rwlock(
        self, name: str, *, max_hold: float | None = None, on_lost: Literal["cancel", "tell"] = "cancel"
    ) -> AsyncReadWriteLock:
        """Same as `Client.rwlock`.

        Args:
            name: The lock's name.
            max_hold: As for `Client.lock`.
            on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
                only "tell" by ``grant.lost``.
        """
        return AsyncReadWriteLock(self._runtime, name, max_hold=max_hold, on_lost=on_lost)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        max_hold: float | None = None,
        on_lost: Literal["cancel", "tell"] = "cancel",
    ) -> AsyncSemaphore:
        """Same as `Client.semaphore`.

        Args:
            name: The semaphore's name.
            limit: How many permits there are.
            max_hold: As for `Client.lock`.
            on_lost: As for `lock`.
        """
        return AsyncSemaphore(self._runtime, name, limit, max_hold=max_hold, on_lost=on_lost)

    async def locks(self, *, limit: int = 100) -> dict[str, list[ContenderInfo]]:
        """Same as `Client.locks`, but awaits."""
        return await self._runtime.run(self._locks(limit), self._looking())

    @property
    def grants(self) -> list[AsyncGrant]:
        """The grants this client holds."""
        return [grant for hold in self._runtime.holds for grant in hold.faces]

    async def open(self) -> Self:
        """Same as `Client.open`, but awaits."""
        within = 2 * self._runtime.settings.request_timeout_s
        await self._runtime.run(open_session(), self._runtime.call(None, within, fail_fast=True))
        return self

    async def close(self) -> None:
        """Same as `Client.close`, but awaits."""
        await self._runtime.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            await self.close()  # nobody else will: the body, and its end, are never reached
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
