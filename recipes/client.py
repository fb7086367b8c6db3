"""The client: one session with a store, and the recipes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Self

from recipes._api.clients import BaseClient, StoreClient, checked
from recipes._api.signatures import Recipe, like, like_function
from recipes._programs.queueing import open_session
from recipes._run.blocking import BlockingRuntime
from recipes.barrier import AsyncBarrier, Barrier
from recipes.counter import AsyncCounter, Counter
from recipes.election import AsyncElection, Election
from recipes.group import AsyncGroup, Group
from recipes.guarantees import Need
from recipes.latch import AsyncLatch, Latch
from recipes.lock import AsyncLock, Lock
from recipes.multilock import AsyncMultiLock, MultiLock
from recipes.rlock import AsyncRLock, RLock
from recipes.rwlock import AsyncReadWriteLock, ReadWriteLock
from recipes.semaphore import AsyncSemaphore, Semaphore
from recipes.stores.credentials import apart
from recipes.value import AsyncValue, Value

if TYPE_CHECKING:
    import ssl
    from os import PathLike
    from types import TracebackType

    from tenacity.stop import stop_base
    from tenacity.wait import wait_base

    from recipes._contract.backend import Backend
    from recipes._run.runtime import Settings
    from recipes._run.tasks import AsyncRuntime
    from recipes.grant import AsyncGrant, Grant
    from recipes.inspection import ContenderInfo

__all__ = ["AsyncClient", "Client", "connect", "connect_async"]


def connect(
    url: str | StoreClient,
    *,
    session_timeout: float = 15,
    request_timeout: float = 5,
    require: Need | Iterable[Need] = (),
    owner: str | None = None,
    retry: wait_base | stop_base | tuple[wait_base, stop_base] | None = None,
    username: str | None = None,
    password: str | Callable[[], str] | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_cert: str | PathLike[str] | None = None,
    tls_key: str | PathLike[str] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    sasl: Literal["DIGEST-MD5"] | None = None,
    acl: Sequence[Any] | None = None,
    prefix: str | None = None,
    restart_grace: float | None = None,
    replicas: int | None = None,
    tables: str | None = None,
    create_tables: bool | None = None,
    root: str | None = None,
    layout: str | None = None,
    **unknown: Never,
) -> Client:
    """Return a client of the store at ``url``; validates, and does no I/O.

    Enter it (or call its ``open``) to start the session and fail fast; otherwise the
    first use starts it.

    Args:
        url: ``zookeeper://host:port,host:port/root``, ``etcd://host:port,.../prefix`` (``etcd+grpc``: gRPC),
            ``redis://host:port/db/prefix``, ``redis+sentinel://host:port,.../master/db/prefix``,
            ``redlock://host:port,.../db/prefix``, ``memcached://host:port/prefix``,
            ``redis+cluster://host:port,.../prefix`` (``zookeepers``, ``etcds``, ``rediss``,
            ``rediss+sentinel`` and ``rediss+cluster`` for TLS), ``postgresql://host:port/database/root``,
            ``mysql://...`` (also ``mariadb``, and with ``+driver``), ``sqlite:///path/to/file`` (the
            processes of one machine), ``memory://`` (private) or ``memory://name`` (shared in the process).
            The path keeps this application's locks apart from others'. Instead of a URL, a client of
            redis-py: blocking for `connect`, asyncio for `connect_async`; of one server, of Sentinel
            (``master_for``) or of a cluster. Its servers, user and TLS are taken from it; connections are
            made anew, and the client is never closed. Or an engine of SQLAlchemy for PostgreSQL, MySQL or
            MariaDB: an ``Engine`` for `connect`, an ``AsyncEngine`` for `connect_async`. Its pool is used,
            and it is never disposed of.
        session_timeout: Seconds after which the store frees what this client holds, if it
            gets no renewal; what is asked for (`Session.timeout` is what was granted). At
            least 2.
        request_timeout: Seconds for one request, hence for `Lock.try_acquire`,
            `Grant.release` and `Grant.verify`.
        require: What the store has to give, one or several of "fencing", "linearizable", "durable",
            "many_processes", "many_machines", "fair", "shared", "proven" and "values" (see
            `Guarantees`). What can be known of that only once the store has answered is checked again as the
            session starts.
        owner: A label that `Lock.holders` and the like show to those who look, with the name of this
            machine, the process's number, and when it joined: 1 to 200 characters, stored beside
            each contender. None: nothing of that is stored.
        retry: How to ask again where an answer was lost: a wait of tenacity for the pauses between tries
            (``tenacity.wait_fixed(0.5)``), a stop to give up earlier (``tenacity.stop_after_attempt(3)``), or
            a tuple of both. Each call still has one deadline, its timeout: no pause goes past it, and a stop
            can only end it sooner, with `StoreUnavailable` (`OutcomeUnknown` for a write that may have been
            done). Tries and seconds are counted for each operation that a call asks, and waiting for the
            turn in a queue is none. Renewing, cleaning up and observing never stop so. None: exponential
            pauses with full jitter, of at most 1 s, until the deadline.
        username: Whom to log in as, on a store on a network; with ``password``. Both may also be in
            the URL, as ``user:password@``.
        password: Text, or a callable that returns it. It runs in a thread of its own, one at a time,
            and is waited for as long as a request may take.
        tls_ca: With TLS, the path of a PEM file with the CAs to trust instead of the system's.
        tls_cert: With TLS, the path of a PEM file with the own certificate.
        tls_key: The path of a PEM file with its key, if that is not in the same file.
        ssl_context: With TLS, a context instead of the three paths. Other code may use it as well. A
            client of etcd sets its protocols (``set_alpn_protocols``) for each connection, and clears them.
        sasl: For ZooKeeper, log in by SASL; otherwise by the scheme ``digest``.
        acl: For ZooKeeper, a list of ``kazoo.security.ACL`` for all that is made. None:
            ``CREATOR_ALL_ACL`` with credentials, and open without.
        prefix: For Redis, Redlock and Memcached, what each key begins with: the lock ``reports`` is the key
            ``lock:reports`` by default, and ``app:reports`` with ``redis://host/0/app``. Another program that
            locks the same key excludes, and is excluded.
        restart_grace: For Redis, Redlock and Memcached, the seconds for which nothing is granted after a
            restart or a failover (for SQL: a failover), so that no second holder gets in; at least the
            longest session timeout, and the same for every client. None: 20; 0 turns it off (Memcached: 2 s).
        replicas: For Redis, how many replicas the master has (each master, of a cluster); a renewal, or a
            grant, counts only if all of them acknowledge it. Required for Sentinel and clusters; None: 0.
        tables: For SQL, what the names of the tables begin with. None: ``recipes_``.
        create_tables: For SQL, whether tables that are missing are made; else that is `StoreRefused`.
        root: For an engine of SQLAlchemy, what a URL has behind the database: it keeps this application's
            names apart from others'.
        layout: For ZooKeeper, "name": each lock is one ephemeral node ``<root>/<name>/lock``, as other
            programs make it, instead of a queue. For SQL, "shedlock": each lock is a row of ShedLock's table,
            and its name has at most 64 characters. With both, grants come in no order, and there are locks
            only. What locks one name by another layout is not excluded. None: the layout of this package.
        unknown: There are no other options.

    Raises:
        TooWeak: The store does not give what is required; a ValueError too.
        ValueError: An unknown scheme, an option that is unknown, missing or not for this store, a URL or
            a duration that does not fit.
        TypeError: A value of the wrong type, or a client that is for the other API.
        ImportError: For Redis, redis-py is not installed (``coordination-recipes[redis]``); for SQL,
            SQLAlchemy or a driver (``[postgresql]``, ``[mysql]``).
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
            "prefix": prefix,
            "restart_grace": restart_grace,
            "replicas": replicas,
            "tables": tables,
            "create_tables": create_tables,
            "root": root,
            "layout": layout,
            **unknown,
        },
    )
    del password, unknown  # first of all: no traceback shows a password from here on
    timeouts = {"session_timeout": session_timeout, "request_timeout": request_timeout}
    general: dict[str, Any] = {"require": require, "owner": owner, "retry": retry, **timeouts}
    return Client(*checked(url, asynchronous=False, **general, **options))


@like_function(connect)
def connect_async(url: str | StoreClient, **options: Any) -> AsyncClient:
    url, options = apart(url, options)  # first of all, as there
    return AsyncClient(*checked(url, asynchronous=True, **options))


class Client(BaseClient):
    """A client of one store: one session, shared by all threads that use it.

    Made by `connect`. After a fork the child's client starts a session of its own on first
    use, and holds none of the parent's grants.
    """

    _runtime: BlockingRuntime

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self._runtime = (backend.blocking_driver or BlockingRuntime)(backend, settings)
        self._runtime.client = self

    lock = Recipe(Lock)
    rlock = Recipe(RLock)
    rwlock = Recipe(ReadWriteLock)
    semaphore = Recipe(Semaphore)
    election = Recipe(Election)
    group = Recipe(Group)
    multilock = Recipe(MultiLock)
    barrier = Recipe(Barrier)
    value = Recipe(Value)
    counter = Recipe(Counter)
    latch = Recipe(Latch)

    def locks(self, *, limit: int = 100, contenders: int | None = None) -> dict[str, list[ContenderInfo]]:
        """Return the locks that are held or awaited, with the heads of their queues, by name.

        Reads one queue after the other, each within the request timeout: not one moment of all.

        Args:
            limit: How many locks; 1 to 10 000.
            contenders: How many of each lock, up to 10 000; None: as many. 0 reads the names alone, at once;
                there may be locks among them that nobody holds or awaits any more.

        Raises:
            StoreUnavailable: A read was not answered in time.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            TooWeak: The store has no queue; nothing was sent.
            ValueError: The limit does not fit; nothing was sent.
        """
        return self._described(self._runtime.run(*self._locks(limit, contenders)), contenders)

    @property
    def grants(self) -> list[Grant]:
        """The grants this client holds."""
        self._runtime.sweep()
        return [grant for hold in self._runtime.holds for grant in hold.grants]

    def open(self) -> Self:
        """Start the session now; fails fast.

        Raises:
            StoreUnavailable: The store gave no answer within twice the request timeout.
            StoreRefused: The store said no.
            TooWeak: The store turned out not to give what is required of it.
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


class AsyncClient(BaseClient):
    """A client of one store for asyncio: one session, shared by the tasks of the loop of its first use.

    Made by `connect_async`. After a fork the child's client starts a session of its own on first
    use, and holds none of the parent's grants.
    """

    _runtime: AsyncRuntime

    def __init__(self, backend: Backend, settings: Settings) -> None:
        from recipes._run.tasks import AsyncRuntime  # noqa: PLC0415 - asyncio is slow to import

        self._runtime = (backend.asyncio_driver or AsyncRuntime)(backend, settings)
        self._runtime.client = self

    lock = Recipe(AsyncLock)
    rlock = Recipe(AsyncRLock)
    rwlock = Recipe(AsyncReadWriteLock)
    semaphore = Recipe(AsyncSemaphore)
    election = Recipe(AsyncElection)
    group = Recipe(AsyncGroup)
    multilock = Recipe(AsyncMultiLock)
    barrier = Recipe(AsyncBarrier)
    value = Recipe(AsyncValue)
    counter = Recipe(AsyncCounter)
    latch = Recipe(AsyncLatch)

    @like(Client.locks)
    async def locks(
        self, *, limit: int = 100, contenders: int | None = None
    ) -> dict[str, list[ContenderInfo]]:
        return self._described(await self._runtime.run(*self._locks(limit, contenders)), contenders)

    @property
    def grants(self) -> list[AsyncGrant]:
        """The grants this client holds."""
        return [grant for hold in self._runtime.holds for grant in hold.grants]

    @like(Client.open)
    async def open(self) -> Self:
        within = 2 * self._runtime.settings.request_timeout_s
        await self._runtime.run(open_session(), self._runtime.call(None, within, fail_fast=True))
        return self

    @like(Client.close)
    async def close(self) -> None:
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
