"""Bugs to plant in what contenders say to others, and in how that is read and observed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any
from unittest import mock

from recipes._api.observing import _Observing
from recipes._contract.connection import Batch
from recipes._contract.contents import pack
from recipes._contract.deadline import Deadline, Expired
from recipes._contract.operations import List, Listing, Program, Rewrite
from recipes._contract.wakeups import Disturbed
from recipes._programs import observing, queueing, rewriting
from recipes._programs.hold import HeldState
from recipes._programs.observing import Observer, Shown, Topic
from recipes._programs.steps import Wait
from recipes._run.hub import Hub
from recipes.errors import SessionLost
from recipes.stores.etcd import codec
from recipes.stores.etcd import protocol as etcd
from recipes.stores.etcd.protocol import EtcdProtocol, key_of
from recipes.stores.zookeeper import protocol as zookeeper
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Create, Delete, Get, Sync
from tests.simulation.bugs import swap


def driven(program: Program[Any], act: Callable[[Any], Generator[Any, Any, Any]]) -> Program[Any]:
    """Run a program; each of its steps is done by ``act``, in its own way."""
    reply: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = program.send(reply) if error is None else program.throw(error)
        except StopIteration as stop:
            return stop.value
        reply = error = None
        try:
            reply = yield from act(step)
        except BaseException as raised:
            error = raised


def _saying(rewrite: Callable[..., Program[bool]]) -> list[Any]:
    return [mock.patch("tests.simulation.observers.rewrite", rewrite)]


# Saying something.


def no_version_compared() -> list[Any]:
    return swap(rewriting, "Rewrite", lambda entry, mark, data, version: Rewrite(entry, mark, data))


def lost_answer_is_a_loss() -> list[Any]:
    """Nothing is read when a write was not confirmed."""

    def own(hold: Any, most: int) -> Program[None]:
        yield from ()

    return swap(rewriting, "_own", own)


def refused_counts_as_written() -> list[Any]:
    def act(op: Any) -> Program[Any]:
        reply = yield op
        return (op.version or 0) + 1 if isinstance(op, Rewrite) and reply is None else reply

    original = rewriting.rewrite
    return _saying(lambda hold, mark, data, most: driven(original(hold, mark, data, most), act))


def said_before_confirmed() -> list[Any]:
    def rewrite(hold: HeldState, mark: str, data: bytes, most: int) -> Program[bool]:
        hold.data = data
        return (yield from original(hold, mark, data, most))

    original = rewriting.rewrite
    return _saying(rewrite)


def gone_is_still_held() -> list[Any]:
    """One whose contender is gone is told that nothing was written, and goes on."""

    def own(hold: Any, most: int) -> Program[Any]:
        found = yield from original(hold, most)
        if found is None:
            raise SessionLost("it says nothing any more")
        return found

    original = rewriting._own
    return swap(rewriting, "_own", own)


def queues_again_without_data() -> list[Any]:
    def next_ticket(self: Any) -> Any:
        ticket = original(self)
        return ticket if self.number == 1 else replace(ticket, data=b"")

    original = queueing.Attempt.next_ticket
    return swap(queueing.Attempt, "next_ticket", next_ticket)


def etcd_writes_whatever_is_there() -> list[Any]:
    """Put without comparing: what was released comes back."""

    def rewrite(self: Any, op: Rewrite, context: Any) -> Generator[Any, Any, int]:
        ticket = op.entry.ticket
        value = pack(ticket.queue, op.mark, ticket.owner, op.data)
        yield from self._txn(then=[codec.put(key_of(op.entry), value, self._lease)])
        return (op.version or 0) + 1

    return swap(EtcdProtocol, "rewrite", rewrite)


def etcd_writes_without_a_lease() -> list[Any]:
    original = codec.put_again
    return swap(codec, "put_again", lambda key, value, lease: original(key, value, 0))


def etcd_by_delete_and_put() -> list[Any]:
    """Delete the key, and put it again: it is the last in line then."""

    def rewrite(self: Any, op: Rewrite, context: Any) -> Generator[Any, Any, int | None]:
        ticket, key = op.entry.ticket, key_of(op.entry)
        value = pack(ticket.queue, op.mark, ticket.owner, op.data)
        reply = yield from self._txn([etcd.compare_stands(op.entry)], then=[codec.delete(key)])
        if not reply.get("succeeded"):
            return None
        yield from self._txn(then=[codec.put(key, value, self._lease)])
        return (op.version or 0) + 1

    return swap(EtcdProtocol, "rewrite", rewrite)


def zookeeper_by_delete_and_create() -> list[Any]:
    def rewrite(self: Any, op: Rewrite, context: Any) -> Generator[Any, Any, int]:
        ticket = op.entry.ticket
        value = pack(ticket.queue, op.mark, ticket.owner, op.data)
        yield from self._one(Delete(op.entry.ref))
        yield from self._one(Create(op.entry.ref[:-10], value, ephemeral=True, sequence=True))
        return (op.version or 0) + 1

    return swap(ZooKeeperProtocol, "rewrite", rewrite)


def zookeeper_nodes_that_stay() -> list[Any]:
    """What is created does not end with its session."""

    def create(path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Create:
        return Create(path, data, ephemeral=False, sequence=sequence)

    return swap(zookeeper, "Create", create)


# Looking and observing.


def lists_without_a_watch() -> list[Any]:
    return swap(observing, "List", lambda queue, most, watch=False, **more: List(queue, most, **more))


def never_notified_again() -> list[Any]:
    """An observer that was notified once counts as notified for ever."""

    def notify(self: Any) -> None:
        if not getattr(self, "_ever", False):
            self._ever = True
            self._mailbox.post(Shown())

    with_room = type("Observer", (Observer,), {"notify": notify})
    return [mock.patch("recipes._run.hub.Observer", with_room)]


def _observing(act: Callable[[Any], Program[Any]]) -> list[Any]:
    original = observing.observe
    return [mock.patch("recipes._run.hub.observe", lambda *given: driven(original(*given), act))]


def ends_with_the_session() -> list[Any]:
    def act(op: Any) -> Program[Any]:
        try:
            return (yield op)
        except SessionLost:
            raise Expired from None

    return _observing(act)


def disturbances_unheard() -> list[Any]:
    """The watch is gone, and nothing is read."""

    def act(op: Any) -> Program[Any]:
        reply = yield op
        while isinstance(op, Wait) and isinstance(reply, Disturbed):
            reply = yield op
        return reply

    return _observing(act)


def first_to_leave_ends_the_watch() -> list[Any]:
    def leave(self: Any, observed: Any, observer: Any) -> None:
        observer.topic.remove(observer)
        _, call = self._watched.pop(observed, (None, None))
        if call is not None:
            call.deadline = Deadline(self._runtime.now())
            call.mailbox.post(Shown())

    return swap(Hub, "leave", leave)


def watch_that_ended_is_joined() -> list[Any]:
    """When nobody observes any more the watch ends, and the next to come joins it all the same."""

    def wanted(self: Any, observed: Any, topic: Any) -> bool:
        return bool(topic.observers) and topic.error is None

    return swap(Hub, "_wanted", wanted)


def shows_who_and_not_what() -> list[Any]:
    """What one says anew is not shown."""

    def show(self: Any, contenders: Any) -> None:
        if not self.shown[0] or [one.ref for one in contenders] != [one.ref for one in self.shown[1]]:
            original_show(self, contenders)

    original_show = Topic.show
    return swap(Topic, "show", show)


def nothing_is_shown_twice() -> list[Any]:
    """What was seen before is never shown again, though other things were in between."""

    def another(self: Any, observer: Any) -> Program[Any]:
        known = vars(self).setdefault("known", [])
        number = self._last[0]
        while True:
            number, shown = yield from observer.next(number)
            seen = self._shown(shown)
            if seen not in known:
                known.append(seen)
                return number, seen

    return swap(_Observing, "_another", another)


def shows_what_was_before() -> list[Any]:
    """An observer that is slow is shown all that it missed, one a time, and lags for ever."""

    def show(self: Any, contenders: Any) -> None:
        before = self.shown[1]
        original_show(self, contenders)
        self.shown = self.shown[0], before

    original_show = Topic.show
    return swap(Topic, "show", show)


def zookeeper_lists_without_sync() -> list[Any]:
    """A follower that lags shows what was."""

    def act(request: Any) -> Generator[Any, Any, Any]:
        if type(request.parts[0]) is Sync:
            return (None, *(yield Batch(request.parts[1:])))
        return (yield request)

    original = ZooKeeperProtocol.listing
    return swap(ZooKeeperProtocol, "listing", lambda *given: driven(original(*given), act))


def zookeeper_lists_twice_at_most() -> list[Any]:
    """What was there once: what went in between is left out, and so is what came before that."""

    def listing(self: Any, op: List, context: Any) -> Any:
        head: Any = ()
        for _ in range(2):
            head = yield from self._list(op, (context.mailbox, op.queue) if op.watch else (), {})
            if None not in head:
                break
        return Listing(tuple(one for one in head if one is not None))

    return swap(ZooKeeperProtocol, "listing", listing)


def zookeeper_watches_names_alone() -> list[Any]:
    return swap(zookeeper, "Get", lambda path, *watching: Get(path, *(() if len(watching) > 1 else watching)))


def etcd_watches_no_writes() -> list[Any]:
    """Of a queue that is observed, only what goes is notified."""

    def watch(key: bytes, mailbox: Any, **more: Any) -> Any:
        return original_watch(key, mailbox, **{**more, "changes": False})

    original_watch = etcd.WatchKey
    return swap(etcd, "WatchKey", watch)


def etcd_what_comes_before_the_watch_is_missed() -> list[Any]:
    def listing(self: Any, op: List, context: Any) -> Any:
        if not op.watch:
            return (yield from listed(self, op, context))
        found = yield from listed(self, replace(op, watch=False), context)
        yield from listed(self, op, context)
        return found

    listed = EtcdProtocol.listing
    return swap(EtcdProtocol, "listing", listing)
