"""Where a check happens: clients of one package on one server, and an operator's hands on what they made."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from integration import servers
from integration.harness.wire import Match, Request
from integration.peers.subjects import SUBJECTS, TTL_S, Etcd3gw, Handle, Kazoo, Subject, Tooz, _Ours
from integration.proxy import Proxy
from integration.stores import ServerStore, ZooKeeperStore, store_on
from tests.pace import Pace

__all__ = ["PATIENCE_S", "Broken", "DoesNotApply", "Doing", "Stage", "primed"]

PATIENCE_S = 30
KEYS = {Etcd3gw: "/locks/", Tooz: "/tooz/locks/"}


class Broken(Exception):
    """The check failed: what was seen, in words that are the same each time."""


class DoesNotApply(Exception):
    """The check cannot be made of this package: why."""


class Doing:
    """A call under way in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._ended = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="doing", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # whatever a peer raises is judged by the check
            self.error = error
        self._ended.set()

    def ends(self, within_s: float) -> bool:
        """Wait for its end, for so long and for what the machine is late by meanwhile; whether it came."""
        with Pace() as pace:
            while (left_s := within_s + pace.late_s() - pace.seconds) > 0:
                if self._ended.wait(left_s):
                    return True
        return self._ended.is_set()


class Stage:
    """One check on one package.

    Args:
        server: Where.
        name: Which of the subjects.
        kind: What makes its clients, if it is none of those.
        prefix: The directory to work in, if it has to be a certain one.
    """

    def __init__(
        self, server: servers.Server, name: str, kind: type[Subject] | None = None, prefix: str = ""
    ) -> None:
        self.name = name
        self.kind = kind or SUBJECTS[name]
        self.server = server
        self.prefix = prefix or f"t-{uuid.uuid4().hex[:12]}"
        self.proxy = Proxy.of(server)
        self.store: ServerStore = store_on(server, self.prefix)
        self._open = contextlib.ExitStack()
        self._doing: list[Doing] = []

    def __enter__(self) -> Self:
        self._open.enter_context(self.proxy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy.heal()
        self._open.close()
        for doing in self._doing:
            doing.ends(PATIENCE_S)
        self.store.close()

    # Clients.

    def client(self, *, frail: bool = False, ttl_s: float = TTL_S) -> Any:
        """Return a client; a ``frail`` one goes through the proxy."""
        address = self.proxy.address if frail else f"{self.server.host}:{self.server.port}"
        one = self.kind(address, self.prefix, ttl_s)
        self._open.callback(_quietly, one.close)
        return one

    def doing(self, call: Callable[[], Any]) -> Doing:
        """Do something beside the check."""
        one = Doing(call)
        self._doing.append(one)
        return one

    def held(self, name: str = "x") -> Handle:
        """Return a lock object that holds."""
        handle: Handle = self.client().lock(name)
        assert handle.acquire(PATIENCE_S), f"{self.name} should get a free lock"
        return handle

    def waiting(self, handle: Handle, timeout: float | None = PATIENCE_S, name: str = "x") -> Doing:
        """Have it wait for the lock, and return when it does."""
        if not self.kind.waits:
            raise DoesNotApply("cannot wait")
        before = len(self.contenders(name))
        one = self.doing(lambda: handle.acquire(timeout))
        if self.kind.queues:
            assert servers.eventually(lambda: len(self.contenders(name)) > before, PATIENCE_S)
        one.ends(0.3)  # until it waits for who is ahead
        return one

    def takes(self, handle: Handle, within_s: float) -> bool:
        """Whether it gets the lock in that time, asking again and again."""
        return servers.eventually(handle.try_acquire, within_s)

    # The store.

    def contenders(self, name: str = "x") -> list[str]:
        """Return what stands for holders and waiters."""
        for kind, base in KEYS.items():
            if self.kind is kind:
                assert isinstance(self.server, servers.Etcd)
                return self.server.keys(f"{base}{self.prefix}/{name}")
        return self.store.contenders(name)

    def leases(self) -> set[str]:
        """Return the sessions there are on the server."""
        return servers.sessions(self.server)

    def end(self, client: Any, handle: Any) -> None:
        """End what keeps a holder's lock alive, as when its time is up."""
        if isinstance(self.server, servers.Etcd):
            session = (
                int(client.client.session.id, 16) if isinstance(client, _Ours) else (handle or client).lease
            )
            self.server.revoke(str(session))
            return
        own = (
            client.client._runtime.state.session.connection._session._client
            if isinstance(client, _Ours)
            else None
        )
        assert isinstance(self.store, ZooKeeperStore)
        self.store.expire(own or client.client)

    def plant(self, kind: str) -> str:
        """Put into the queue of "x" what is ``foreign``, an ``orphan``, or ``malformed``."""
        if not self.kind.queues:
            raise DoesNotApply("has no queue")
        if not isinstance(self.store, ZooKeeperStore) or self.kind is not Kazoo or kind == "malformed":
            return self.store.plant("x", kind)
        return self.plant_on_zookeeper(f"_c_{uuid.uuid4()}-lock-" if kind == "foreign" else None)

    def plant_on_zookeeper(self, name: str | None) -> str:
        """Add a node of Curator's layout to kazoo's queue, or one of kazoo's own."""
        assert isinstance(self.store, ZooKeeperStore)
        own = name or f"{uuid.uuid4().hex}__lock__"
        node = f"/{self.prefix}/x/{own}"
        return str(self.store.operator.create(node, b"", sequence=True, makepath=True))

    # What passes.

    def acquires(self, request: Request) -> bool:
        """Whether a request is the one that takes the lock."""
        return request.label in ("create", "create2") if self._zookeeper else self._txn(request)

    def releases(self, request: Request) -> bool:
        """Whether a request is the one that gives it back."""
        return request.label.endswith("delete" if self._zookeeper else ("kv/txn", "kv/deleterange"))

    def writes(self, request: Request) -> bool:
        """Whether a request is the one that writes data."""
        return request.label in ("set", "multi") if self._zookeeper else self._txn(request)

    def lose_reply(self, match: Match) -> threading.Event:
        """Lose the reply to the next such request."""
        return self.proxy.drop_reply(match=match).sprung

    @property
    def _zookeeper(self) -> bool:
        return self.kind.backend == "ZooKeeper"

    @staticmethod
    def _txn(request: Request) -> bool:
        return request.label.endswith("kv/txn")


def primed(handle: Handle) -> None:
    """Take the lock and give it back, so that what a first use makes is there."""
    assert handle.acquire(5)
    handle.release()


def _quietly(close: Callable[[], None]) -> None:
    """Close a client that may have been broken on purpose."""
    Doing(close).ends(PATIENCE_S)
