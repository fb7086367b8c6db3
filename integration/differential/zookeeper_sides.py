"""ZooKeeper as scripts see it: the model, and a real server through the package's own connection."""

from __future__ import annotations

import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

from integration.differential.model_world import InOrder
from integration.differential.script import Box, Forget, Outcome, Script, Told
from integration.differential.zookeeper_scripts import CONNECTIONS
from integration.servers import ZooKeeper
from recipes._contract.connection import Batch
from recipes.errors import StoreError
from recipes.stores.zookeeper.blocking import KazooConnection
from recipes.stores.zookeeper.requests import (
    Children,
    Close,
    Create,
    Exists,
    Multi,
    MultiFailed,
    SessionExpired,
    SessionInfo,
    Stat,
    ZooKeeperError,
)
from tests.simulation.zookeeper_model import ZooKeeperStore

__all__ = ["RealZooKeeper", "ZooKeeperModel"]

REQUEST_S = 10.0


class ZooKeeperSide(ABC):
    """What both sides share: names in, names out.

    The event of what happened before a request comes before the reply, on every session: so
    what a connection's mailboxes were told is compared at each reply. An event under way meets what
    the connection itself does at once (a close, a mailbox added or forgotten), so a reply is awaited
    before those.
    """

    def begin(self, script: Script) -> None:
        self.root = f"/diff-{script.seed}-{secrets.token_hex(6)}"
        self.made: dict[str, str] = {}
        self.sessions: dict[int, str] = {0: "nobody"}
        self.logs: list[list[Told]] = [[] for _ in range(CONNECTIONS)]
        self.boxes: dict[tuple[int, str], Box] = {}
        self.zxids: set[int] = set()
        self.step = 0
        self.connections: list[Any] = []
        self.open(script)

    def ask(self, step: int, connection: int, request: Any) -> Outcome:
        self.step = step
        parts = request.parts if isinstance(request, Batch) else (request,)
        if any(isinstance(part, Close | Forget) or getattr(part, "mailbox", None) for part in parts):
            self.settle(connection)
        if isinstance(request, Forget):
            self.connections[connection].forget(self.box(connection, request.mailbox))
            return Outcome(None)
        try:
            reply = self.send(connection, self.real(connection, request))
        except Exception as error:
            reply = error
        several = isinstance(request, Batch) and isinstance(reply, tuple)
        plain = []
        for number, (part, one) in enumerate(zip(parts, reply if several else (reply,), strict=several)):
            if isinstance(part, Create) and isinstance(one, tuple):
                self.made[f"#{step}.{number}" if several else f"#{step}"] = one[0]
            plain.append(self.plain(connection, part, one))
        return Outcome(plain if several else plain[0], self.told(connection))

    def end(self, outcomes: list[Outcome]) -> list[Outcome]:
        for connection in range(CONNECTIONS):
            self.settle(connection)
            if outcomes:
                outcomes[-1].told += self.told(connection)
        self.close()
        ranks = {zxid: rank for rank, zxid in enumerate(sorted(self.zxids))}
        for outcome in outcomes:
            outcome.reply = _ranked(outcome.reply, ranks)
        return outcomes

    @abstractmethod
    def open(self, script: Script) -> None:
        """Make the connections."""

    @abstractmethod
    def send(self, connection: int, request: Any) -> Any:
        """Ask over a connection."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; the nodes that stay are below a root that no other script looks at."""

    def settle(self, connection: int) -> None:
        """Have a reply, and with it all events up to now."""
        try:
            self.send(connection, Exists("/"))
        except (SessionExpired, StoreError):
            return

    def on_end(self, connection: int, reason: str) -> None:
        """Be told by a connection that its session has ended."""
        self.logs[connection].append(Told(self.step, "the link", "end"))

    def told(self, connection: int) -> list[Told]:
        found = [replace(one, event=self.without_root(str(one.event))) for one in self.logs[connection]]
        self.logs[connection].clear()
        return found

    # Names in.

    def box(self, connection: int, name: str) -> Box:
        if (connection, name) not in self.boxes:
            self.boxes[connection, name] = Box(name, self.logs[connection], lambda: self.step)
        return self.boxes[connection, name]

    def real(self, connection: int, request: Any) -> Any:
        if isinstance(request, Batch):
            return Batch(tuple(self.real(connection, part) for part in request.parts))
        if isinstance(request, Multi):
            return Multi(tuple(self.real(connection, part) for part in request.parts))
        names = {one.name for one in fields(request)}
        changes: dict[str, Any] = {}
        if "path" in names:
            path = request.path
            missing = f"{self.root}/missing"
            changes["path"] = self.made.get(path, missing) if path.startswith("#") else self.root + path
        if getattr(request, "mailbox", None) is not None:
            changes["mailbox"] = self.box(connection, request.mailbox)
        return replace(request, **changes)

    # Names out.

    def plain(self, connection: int, request: Any, reply: Any) -> Any:
        if isinstance(reply, Exception):
            return _failure(reply)
        if isinstance(reply, SessionInfo):
            self.sessions[reply.id] = f"link {connection}"
            return f"granted {reply.timeout_s:g} s"
        if isinstance(request, Children):
            return sorted(reply)
        if isinstance(reply, tuple):
            parts = request.parts if isinstance(request, Multi) else (request,) * len(reply)
            return [self.plain(connection, *one) for one in zip(parts, reply, strict=True)]
        if isinstance(reply, str):
            return self.without_root(reply)
        return self.stat(reply) if isinstance(reply, Stat) else reply

    def stat(self, stat: Stat) -> dict[str, Any]:
        self.zxids.add(stat.czxid)
        owner = self.sessions.get(stat.owner, "a stranger")
        return {"czxid": _Zxid(stat.czxid), "owner": owner, "version": stat.version}

    def without_root(self, text: str) -> str:
        return text.replace(self.root, "")


def _failure(error: Exception) -> str:
    if isinstance(error, MultiFailed):
        return f"part {error.part}: error {error.code}"
    return f"error {error.code}" if isinstance(error, ZooKeeperError) else type(error).__name__


class _Zxid(int):
    """A zxid in a reply, until all of a script are known and it can be told which comes before which."""


def _ranked(reply: Any, ranks: dict[int, int]) -> Any:
    if isinstance(reply, list):
        return [_ranked(one, ranks) for one in reply]
    if isinstance(reply, dict):
        return {name: _ranked(value, ranks) for name, value in reply.items()}
    return f"no. {ranks[reply]}" if isinstance(reply, _Zxid) else reply


class ZooKeeperModel(ZooKeeperSide):
    """The model of the simulation, each connection on some server of it; ``make`` may make a broken one."""

    def __init__(self, make: Callable[..., ZooKeeperStore] = ZooKeeperStore) -> None:
        self._make = make

    def open(self, script: Script) -> None:
        self.world = InOrder(random.Random(script.seed).random)
        store = self._make(self.world)
        for connection in range(CONNECTIONS):
            self.connections.append(store.connection(self.world.client, partial(self.on_end, connection)))

    def send(self, connection: int, request: Any) -> Any:
        return self.world.ask(self.connections[connection], request)

    def close(self) -> None:
        """There is nothing that another script could meet."""


class RealZooKeeper(ZooKeeperSide):
    """A real server; a connection is a session, so each script has its own."""

    def __init__(self, server: ZooKeeper) -> None:
        self._hosts = f"{server.host}:{server.port}"

    def open(self, script: Script) -> None:
        for connection in range(CONNECTIONS):
            self.connections.append(KazooConnection(self._hosts, on_end=partial(self.on_end, connection)))

    def send(self, connection: int, request: Any) -> Any:
        return self.connections[connection].ask(request, REQUEST_S)

    def close(self) -> None:
        for connection in self.connections:
            connection.ask(Close(), REQUEST_S)
            connection.close()
