"""Every public method, called by a signal handler amid every other: what a test has to know of each.

A call is a function of a `Party`: it makes the call, and checks what it can. It may end in one of
`FINE`, for the handler may have closed the client, or released what the call is about.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

import recipes
from integration.servers import eventually
from tests.run.striking import Handled

__all__ = ["CALLS", "CELL_CALLS", "Party", "Storm"]

SOON_S = 10
SHORT_S = 0.2
FINE = (
    recipes.ReentrantCall,
    recipes.ClientClosed,
    recipes.LockLost,
    recipes.LockTimeout,
    recipes.SessionLost,
    recipes.WouldDeadlock,
    recipes.OutcomeUnknown,
)
NAMES = ("held", "again", "read", "written", "free", "with", "other")


class Party:
    """A client that holds something of each kind, and another that sees whether it lets go.

    Args:
        connect: Makes a client, which is not open.
        other: Another client of the store.
        queues: Whether the store keeps queues, and so has the other recipes.
    """

    def __init__(
        self, connect: Callable[[], recipes.Client], other: recipes.Client, *, queues: bool = True
    ) -> None:
        self._connect = connect
        self._other = other
        self._queues = queues
        self._busy = other.lock("busy").acquire(timeout=SOON_S)
        self.client = connect().open()

    def hold(self) -> None:
        """Hold something of each kind, in this thread."""
        client = self.client
        if client._runtime.state.closed is not None:
            client = self.client = self._connect().open()
        self.held = client.lock("held").acquire(timeout=SOON_S)
        self.again = client.rlock("again").acquire(timeout=SOON_S)
        if not self._queues:
            return
        self.read = client.rwlock("read").reader.acquire(timeout=SOON_S)
        self.written = client.rwlock("written").writer.acquire(timeout=SOON_S)

    def let_go(self, after: str) -> None:
        """Let go of all, and see that nothing is left."""
        for grant in self.client.grants:
            grant.release()
        assert self.client.grants == [], after
        assert eventually(lambda: self.client.pending_cleanups == 0, SOON_S), after
        for name in NAMES:
            grant = self._other.lock(name).acquire(timeout=SOON_S)
            assert grant.release(), after


def acquire(party: Party) -> None:
    grant = party.client.lock("free").acquire(timeout=SHORT_S)
    assert grant.release() or not grant.held


def wait_in_vain(party: Party) -> None:
    try:
        party.client.lock("busy").acquire(timeout=0.01)
    except recipes.LockTimeout:
        return
    raise AssertionError("another client holds it")


def try_acquire(party: Party) -> None:
    grant = party.client.lock("free").try_acquire()
    assert grant is None or grant.release() or not grant.held


def with_lock(party: Party) -> None:
    with party.client.lock("with") as grant:
        assert grant.token


def with_grant(party: Party) -> None:
    with party.client.lock("with").acquire(timeout=SHORT_S) as grant:
        assert grant.token


def release(party: Party) -> None:
    party.held.release()
    assert not party.held.held


def release_behind(party: Party) -> None:
    party.held.release(wait=False)
    assert not party.held.held


def verify(party: Party) -> None:
    before = party.held.lost.is_set()  # what strikes as it returns may lose it after the store's word
    assert not (party.held.verify() and before)


def look_at_grant(party: Party) -> None:
    grant = party.held
    assert grant.held or grant.remaining == 0
    assert not grant.lost.is_set() or grant.lost_reason is not None
    grant.lost.add_callback(lambda _: None)
    grant.lost.wait(0.001)
    repr(grant)


def progress(party: Party) -> None:
    party.held.progress()
    party.held.check()


def downgrade(party: Party) -> None:
    party.written.downgrade()


def enter_again(party: Party) -> None:
    with party.client.rlock("again"):
        pass


def leave_again(party: Party) -> None:
    party.again.release()


def read(party: Party) -> None:
    party.client.rwlock("free").reader.acquire(timeout=SHORT_S).release()


def write(party: Party) -> None:
    party.client.rwlock("free").writer.acquire(timeout=SHORT_S).release()


def contenders(party: Party) -> None:
    for one in party.client.lock("held").contenders():
        assert one.holds


def holders_and_waiters(party: Party) -> None:
    lock = party.client.lock("held")
    lock.holders()
    lock.waiters()


def locks(party: Party) -> None:
    party.client.locks(limit=10)


def evict(party: Party) -> None:
    party.client.lock("free").evict(1)


def look_at_client(party: Party) -> None:
    client = party.client
    len(client.grants)
    client.session.state, client.session.timeout, client.session.id  # noqa: B018 - they are asked for
    client.guarantees, client.pending_cleanups  # noqa: B018 - they are asked for
    repr(client)


def open_(party: Party) -> None:
    party.client.open()


def close(party: Party) -> None:
    began = time.monotonic()
    party.client.close()
    assert time.monotonic() - began < SOON_S / 2
    assert party.client.session.state == "closed"


def semaphore(party: Party) -> None:
    permits = party.client.semaphore("permits", 3)
    with permits.acquire(timeout=SHORT_S, weight=2):
        grant = permits.of(1).try_acquire()
        assert grant is None or grant.release() or not grant.held


def multilock(party: Party) -> None:
    client = party.client
    client.multilock(client.lock("free"), client.semaphore("permits", 3)).acquire(timeout=SHORT_S).release()


def lead(party: Party) -> None:
    candidates = party.client.election("leader")
    with candidates.campaign("me", timeout=SHORT_S) as leadership:
        leadership.proclaim("changed")
    candidates.leader()


def observe(party: Party) -> None:
    with party.client.election("leader").observe() as leaders:
        leaders.next(SHORT_S)


def join(party: Party) -> None:
    members = party.client.group("members")
    with members.join(b"data") as membership:
        membership.update(b"changed")
        members.members()


def watch_members(party: Party) -> None:
    with party.client.group("members").watch() as seen:
        seen.next(SHORT_S)


def share(party: Party) -> None:
    released = contextlib.suppress(recipes.Closed)  # the membership may be by then
    with party.client.group("sharing").join() as member, member.partitions(["a", "b"]) as items, released:
        items.next(SHORT_S)


def value(party: Party) -> None:
    one = party.client.value("value")
    one.set(b"set")
    stored = one.get()
    assert stored is None or not one.set_if(b"never", stored.version - 1)
    one.delete()


def watch_value(party: Party) -> None:
    with party.client.value("watched").changes() as seen:
        seen.next(SHORT_S)


def counter(party: Party) -> None:
    one = party.client.counter("counter")
    assert one.add(1) <= one.get()


def latch(party: Party) -> None:
    one = party.client.latch("latch", 1_000_000)
    assert one.count_down() >= one.left()


def barrier(party: Party) -> None:
    party.client.barrier("barrier", 1).wait(SHORT_S)


CELL_CALLS: tuple[Callable[[Party], None], ...] = (
    acquire,
    try_acquire,
    with_lock,
    with_grant,
    release,
    release_behind,
    verify,
    look_at_grant,
    progress,
    enter_again,
    leave_again,
    look_at_client,
    open_,
    close,
    wait_in_vain,
)
"""Those that there are where a store keeps the holder of a name alone."""

CALLS: tuple[Callable[[Party], None], ...] = (
    *CELL_CALLS,
    downgrade,
    read,
    write,
    contenders,
    holders_and_waiters,
    locks,
    evict,
    semaphore,
    multilock,
    lead,
    observe,
    join,
    watch_members,
    share,
    value,
    watch_value,
    counter,
    latch,
    barrier,
)


class Storm:
    """Has each call struck by the others, place by place.

    Args:
        party: Makes the calls.
        stride: Strike at every so many places, by the next of the other calls.
        calls: The others.
    """

    def __init__(self, party: Party, stride: int, calls: Sequence[Callable[[Party], None]] = CALLS) -> None:
        self._party = party
        self._stride = stride
        self.doing = ""
        self.since = time.monotonic()
        self.struck = 0
        self.refused = 0
        self._inner = itertools.cycle(calls)

    def strike(self, outer: Callable[[Party], None]) -> None:
        """Make a call again and again, each time struck a place later."""
        for at in itertools.count(1, self._stride):
            if not self._once(outer, next(self._inner), at):
                return

    def _once(self, outer: Callable[[Party], None], inner: Callable[[Party], None], at: int) -> bool:
        """Whether it was struck."""
        party = self._party
        handled = Handled(at, lambda: self._handle(inner))
        self.doing, self.since = f"{inner.__name__}, amid {outer.__name__}, at {at}", time.monotonic()
        try:
            with handled:
                outer(party)
        except recipes.ReentrantCall:
            raise
        except FINE:
            pass
        self.doing += f", {handled.where}"
        if handled.where:
            self.struck += 1
        party.let_go(self.doing)
        party.hold()
        return bool(handled.where)

    def _handle(self, inner: Callable[[Party], None]) -> None:
        try:
            inner(self._party)
        except recipes.ReentrantCall:
            self.refused += 1
        except FINE:
            pass

    def over(self, outers: Iterator[Callable[[Party], None]], hangs_after_s: float = 30) -> None:
        """Strike all of them in a thread; raises what it raises, or if a call takes too long."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self._party.hold()  # its owner is this thread
                for outer in outers:
                    self.strike(outer)
            except BaseException as error:
                error.add_note(self.doing)
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.5)
            if time.monotonic() - self.since > hangs_after_s and thread.is_alive():
                frame = sys._current_frames().get(thread.ident or 0)
                stack = "".join(traceback.format_stack(frame))
                raise AssertionError(f"it hangs: {self.doing}\n{stack}")
        if failed:
            raise failed[0]
