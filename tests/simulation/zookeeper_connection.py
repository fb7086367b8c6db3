"""One session of one simulated client with the model of ZooKeeper."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Changed, Disturbed
from recipes.errors import StoreUnavailable
from recipes.stores.zookeeper.requests import (
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    NoNode,
    SessionExpired,
    SetData,
    Sync,
)
from tests.simulation.moving import Asked, Gate, Pipe

if TYPE_CHECKING:
    from tests.simulation.world import World
    from tests.simulation.zookeeper_model import ZooKeeperStore
    from tests.simulation.zookeeper_server import Server

__all__ = ["Part", "ZooKeeperConnection"]

Watching: TypeAlias = tuple[Any, str]  # a mailbox, and the queue if it watches a listing
BROKEN = "the connection broke"
READS = (Children, Get, Exists)
KINDS = {
    kind: 20 + at for at, kind in enumerate((Connect, Close, Create, Delete, SetData, Sync, *READS, Multi))
}


class Part:
    """One request on its way to a server, perhaps on to the leader, and back."""

    __slots__ = ("answer", "asked", "fate", "position", "request", "zxid")

    def __init__(self, asked: Asked, position: int, request: Any, fate: str | None) -> None:
        self.asked = asked
        self.position = position
        self.request = request
        self.fate = fate
        self.answer: Any = None
        self.zxid = 0


class ZooKeeperConnection:
    """One session of one client: what kazoo and its connection are to the package."""

    def __init__(self, store: ZooKeeperStore, client: Any, on_end: Any) -> None:
        self.store = store
        self.client = client
        self.world: World = client.world
        self.on_end = on_end
        self.server: Server = store.pick_server(0)
        self.session = 0
        self.moves = 0
        self.connected = True
        self.cut = self.half_cut = False
        self.ended = False  # as a server has confirmed
        self.over = False
        self.closed = False
        self.says, self.hears, self.dials = Gate(), Gate(), Gate()
        self.up = Pipe(self.world, self.says, self._arrives)
        self.down = Pipe(self.world, self.hears, self._heard)
        self.dial = Pipe(self.world, self.dials, _call)
        self.queue: deque[Part] = deque()
        self.busy = False
        self.outstanding: dict[Part, None] = {}
        self.mailboxes: dict[str, list[Watching]] = {}
        self.seen = 0
        self.set_gates()

    def set_gates(self) -> None:
        """Say what may move, after anything changed that it depends on."""
        goes = not (self.cut or self.client.paused)
        self.says.open = goes and self.connected
        self.hears.open = goes and not self.half_cut
        self.dials.open = goes

    def set_cut(self, cut: bool) -> None:
        self.cut = cut
        self.set_gates()

    def set_half_cut(self, half_cut: bool) -> None:
        self.half_cut = half_cut
        self.set_gates()

    @property
    def healthy(self) -> bool:
        return self.connected and not (self.cut or self.over or self.closed)

    # The client's side.

    def send(self, task: Any, request: Any) -> Asked:
        if type(request) is Batch:
            parts = request.parts
            asked = Asked(self.world, task, len(parts))
            for position, part in enumerate(parts):
                self._send(asked, position, part)
        else:
            asked = Asked(self.world, task)
            self._send(asked, 0, request)
        return asked

    def _send(self, asked: Asked, position: int, request: Any) -> None:
        world, kind = self.world, type(request)
        world.requests += 1
        world.mark(KINDS[kind], asked.task.number)
        if world.trace is not None:
            world.note(asked.task.name, kind.__name__, getattr(request, "path", ""))
        if self.over or (self.closed and kind is not Close):
            refused = self.ended if kind is Close else SessionExpired(unsent=True)
            self.dial.push(partial(asked.answer, position, refused))
            return
        store = self.store
        fate = store.fate() if store.fated and store.strikes(asked, request) else None
        part = Part(asked, position, request, fate)
        self.outstanding[part] = None
        if kind in READS:
            if request.mailbox is not None:
                self._add_mailbox(request)
        elif kind is Close:
            self._end()
        self.up.push(part)

    def _end(self) -> None:
        """Take no more requests, and tell whoever watches: the session is being closed from here."""
        self.over = True
        told, self.mailboxes = self.mailboxes, {}
        _disturb(told)

    def _add_mailbox(self, request: Children | Get | Exists) -> None:
        """Watch for a mailbox; as a part of a listing only while that is watched."""
        watching = (request.mailbox, request.queue)
        joins = type(request) is Get and request.queue
        if not joins or any(watching in there for there in self.mailboxes.values()):
            self._drop(watching, [request.path])
            self.mailboxes.setdefault(request.path, []).append(watching)

    def _drop(self, watching: Watching, paths: list[str]) -> None:
        for path in paths:
            kept = [other for other in self.mailboxes.get(path, ()) if other != watching]
            if kept:
                self.mailboxes[path] = kept
            else:
                self.mailboxes.pop(path, None)

    def reply(self, part: Part, answer: Any, zxid: int) -> None:
        """Send a reply on its way back."""
        if part.fate == "lost reply":
            self.break_()
        elif self.connected:
            part.answer = answer
            part.zxid = zxid
            self.down.push(part)

    def _heard(self, message: Any) -> None:
        """A reply or something else from the server arrives."""
        if type(message) is not Part:
            message()
            return
        self.outstanding.pop(message, None)
        self.seen = max(self.seen, message.zxid)
        answer = message.answer
        request = message.request
        if type(request) is Close:
            answer = self.ended = True
        watched = type(request) in READS and request.mailbox is not None
        if watched and type(answer) is NoNode and not message.asked.abandoned:
            self._drop((request.mailbox, request.queue), [request.path])
        message.asked.answer(message.position, answer)

    def tell(self, path: str, event: Any) -> None:
        """Send a watch event on its way: one a session, for whoever watches when it comes."""
        if self.connected:
            self.down.push(partial(self._told, path, event))

    def _told(self, path: str, event: Any) -> None:
        told = self.mailboxes.pop(path, [])
        for mailbox, queue in told:
            if queue:  # the first event ends the listing
                self._drop((mailbox, queue), list(self.mailboxes))
        for mailbox, queue in told:
            mailbox.post(Changed(queue) if queue else event)

    def break_(self) -> None:
        """The connection breaks: what is under way is lost, watches are dropped, kazoo dials again.

        No server takes what arrives later from a connection that a session has left; real ones are
        asked by ``integration/faults/test_late_creates.py`` and its twin on clusters.
        """
        if not self.connected:
            return
        self.connected = False
        self.set_gates()
        self.up.clear()
        self.down.clear()
        self.queue.clear()
        self.busy = False
        self._drop_watches()
        failed, self.outstanding = self.outstanding, {}
        if not (self.over or self.closed):
            self.dial.push(self.reconnect)
        told, self.mailboxes = self.mailboxes, {}
        for part in failed:
            part.asked.answer(part.position, StoreUnavailable("model", BROKEN))
        _disturb(told)

    def _drop_watches(self) -> None:
        for watches in (self.server.watches, self.server.child_watches):
            for path, watching in list(watches.items()):
                left = [connection for connection in watching if connection is not self]
                if left:
                    watches[path] = left
                else:
                    del watches[path]

    def reconnect(self) -> None:
        """Attach to a server that is not behind what was seen; the session goes on, or is over."""
        if self.over or self.closed or self.connected:
            return
        before, self.server = self.server, self.store.pick_server(self.seen)
        self.moves += self.server is not before
        self.connected = True
        self.set_gates()
        if self.session and self.session not in self.store.sessions:
            self.expired()
        elif self.session:
            self.store.touch(self.session, self.server)

    def expired(self) -> None:
        """The server says that the session is over."""
        if self.over:
            return
        self.over = self.ended = True
        self.up.clear()
        failed, self.outstanding = self.outstanding, {}
        self._drop_watches()
        told, self.mailboxes = self.mailboxes, {}
        self.on_end("the session has expired")
        for part in failed:
            part.asked.answer(part.position, SessionExpired())
        _disturb(told)

    def forget(self, mailbox: Any) -> None:
        if not self.mailboxes:
            return
        for path, there in list(self.mailboxes.items()):
            for watching in there:
                if watching[0] is mailbox:
                    self._drop(watching, [path])

    def close(self) -> None:
        self.closed = True
        self.mailboxes.clear()
        self.break_()

    # The server's side.

    def _arrives(self, part: Part) -> None:
        """A request arrives at the server."""
        if part.fate == "lost request":
            self.break_()
            return
        self.queue.append(part)
        if not self.busy:
            self.work()

    def work(self) -> None:
        """Serve this session's requests one after the other."""
        queue, store = self.queue, self.store
        while queue and not self.busy:
            part = queue.popleft()
            store.touch(self.session, self.server)
            if type(part.request) in READS:
                server = self.server
                self.reply(part, server.read(self, part.request), server.applied)
            else:
                self.busy = True
                self.server.forward(self, part)


def _call(message: Any) -> None:
    message()


def _disturb(told: dict[str, list[Watching]]) -> None:
    """Notify each mailbox once, however many nodes it watches."""
    for mailbox in {id(one): one for there in told.values() for one, _ in there}.values():
        mailbox.post(Disturbed())
