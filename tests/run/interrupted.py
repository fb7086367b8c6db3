"""Calls of every noun that an interrupt may strike, and what has to hold then: for tests, on every store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import recipes
from integration.servers import eventually
from tests.run.striking import StrikeAnywhere

__all__ = ["CALLS", "Pair", "interrupted_at"]

SOON_S = 10
IN_VAIN_S = 0.01


class Pair:
    """A client that is interrupted, and another that holds what the first awaits in vain.

    Args:
        connect: Makes a client, which is not open, with whose session nothing can go wrong.
    """

    def __init__(self, connect: Callable[[], recipes.Client]) -> None:
        self.connect = connect
        self.client, self.other = connect().open(), connect().open()
        self._busy = self.other.lock("busy").acquire(timeout=SOON_S)
        self._permits = self.other.semaphore("busy permits", 1).acquire(timeout=SOON_S)
        self._shared = self.other.rwlock("read").reader.acquire(timeout=SOON_S)
        self.added = 0
        self.made: list[recipes.Client] = []

    def see_nothing_left(self, where: str) -> None:
        """Whatever was interrupted is over, and its names are free; one call later, for an end of a block."""
        client = self.client
        if "leaving.py" in where:  # before a grant was entered: until then it is like any other
            for grant in client.grants:
                grant.release()
        client.lock("after").acquire(timeout=SOON_S).release()
        # What a member shares is given back behind the scenes.
        assert eventually(lambda: client.grants == [], SOON_S, every_s=0.002), (where, client.grants)
        assert eventually(lambda: client.pending_cleanups == 0, SOON_S, every_s=0.002), where
        assert not client._runtime.reentries, where
        for one in self.made:
            one.close()
            assert one.session.state == "closed", where
        self.made.clear()

    def see_all_free(self) -> None:
        """See by the other client that nothing is in any queue but what it holds itself."""
        left = {
            name: [one for one in found if one.token not in self._tokens]
            for name, found in self.other.locks().items()
        }
        assert not any(left.values()), left

    @property
    def _tokens(self) -> set[int | None]:
        return {grant.token for grant in self.other.grants}

    def close(self) -> None:
        """Close both."""
        self.client.close()
        self.other.close()


def lock(pair: Pair) -> None:
    with pair.client.lock("free") as grant:
        grant.check()
        grant.progress()
        assert grant.verify()


def lock_in_time(pair: Pair) -> None:
    with pair.client.lock("free").acquire(timeout=SOON_S):
        pass


def lock_in_vain(pair: Pair) -> None:
    try:
        pair.client.lock("busy").acquire(timeout=IN_VAIN_S)
    except recipes.LockTimeout:
        return
    raise AssertionError("the other holds it")


def lock_at_once(pair: Pair) -> None:
    assert pair.client.lock("busy").try_acquire() is None
    grant = pair.client.lock("free").try_acquire()
    assert grant is None or grant.release(wait=False)


def rlock(pair: Pair) -> None:
    again = pair.client.rlock("again")
    with again, again:
        pass


def reader(pair: Pair) -> None:
    with pair.client.rwlock("read").reader:
        pass


def writer(pair: Pair) -> None:
    with pair.client.rwlock("write").writer.acquire(timeout=SOON_S) as grant:
        grant.downgrade()


def writer_in_vain(pair: Pair) -> None:
    try:
        pair.client.rwlock("read").writer.acquire(timeout=IN_VAIN_S)
    except recipes.LockTimeout:
        return
    raise AssertionError("the other reads")


def semaphore(pair: Pair) -> None:
    permits = pair.client.semaphore("permits", 3)
    with permits.acquire(weight=2), permits.of(1):
        pass


def semaphore_in_vain(pair: Pair) -> None:
    try:
        pair.client.semaphore("busy permits", 1).acquire(timeout=IN_VAIN_S)
    except recipes.LockTimeout:
        return
    raise AssertionError("the other holds the permit")


def multilock(pair: Pair) -> None:
    client = pair.client
    with client.multilock(client.lock("free"), client.rlock("again"), client.semaphore("permits", 3)):
        pass


def election(pair: Pair) -> None:
    candidates = pair.client.election("leader")
    with candidates.campaign("me") as leadership:
        leadership.proclaim("changed")
        leader = candidates.leader()
        assert leader is not None
        assert leader.value == "changed"


def election_run(pair: Pair) -> None:
    assert pair.client.election("leader").run(lambda leadership: leadership.held)


def observe(pair: Pair) -> None:
    with pair.client.election("leader").observe() as leaders:
        leaders.next(SOON_S)
        leaders.next(IN_VAIN_S)


def group(pair: Pair) -> None:
    members = pair.client.group("members")
    with members.join(b"data") as membership:
        membership.update(b"changed")
        assert members.members()
        with members.watch() as seen:
            assert seen.next(SOON_S)


def partitions(pair: Pair) -> None:
    with pair.client.group("sharing").join() as membership, membership.partitions(["a", "b"]) as items:
        assert items.next(SOON_S) is not None


def value(pair: Pair) -> None:
    one = pair.client.value("value")
    one.set(b"set")
    stored = one.get()
    assert stored is not None
    assert stored.data == b"set"
    assert one.set_if(b"replaced", stored.version)
    assert one.delete()


def changes(pair: Pair) -> None:
    with pair.client.value("watched").changes() as seen:
        seen.next(SOON_S)
        seen.next(IN_VAIN_S)


def counter(pair: Pair) -> None:
    one = pair.client.counter("counter")
    found = one.get()
    assert pair.added <= found <= pair.added + 1, "the last, which was interrupted, counts at most once"
    pair.added = found
    pair.added = one.add(1)
    assert pair.added == found + 1
    assert not one.set_if(0, -1)


def latch(pair: Pair) -> None:
    one = pair.client.latch("latch", 1_000_000)
    before = one.left()
    assert one.count_down() == before - 1
    assert not one.wait(IN_VAIN_S)


def barrier(pair: Pair) -> None:
    pair.client.barrier("barrier", 1).wait(SOON_S)


def barrier_in_vain(pair: Pair) -> None:
    try:
        pair.client.barrier("vain", 2).wait(IN_VAIN_S)
    except (recipes.BarrierBroken, recipes.LockTimeout, TimeoutError):
        return
    raise AssertionError("there is one party of two")


def look(pair: Pair) -> None:
    busy = pair.client.lock("busy")
    assert len(busy.contenders()) == len(busy.holders()) == 1
    assert busy.waiters() == []
    pair.client.locks(limit=3)
    pair.client.lock("free").evict(1)


def open_and_close(pair: Pair) -> None:
    made = pair.connect()
    pair.made.append(made)
    with made as client:
        client.lock("held until it closes").acquire(timeout=SOON_S)


# Not `enter` and `leave` of a barrier: CPython 3.11.7 crashes, or runs for ever, where a trace function
# raises within the generator expressions that read its record.
CALLS: tuple[Callable[[Pair], None], ...] = (
    lock,
    lock_in_time,
    lock_in_vain,
    lock_at_once,
    rlock,
    reader,
    writer,
    writer_in_vain,
    semaphore,
    semaphore_in_vain,
    multilock,
    election,
    election_run,
    observe,
    group,
    partitions,
    value,
    changes,
    counter,
    latch,
    barrier,
    barrier_in_vain,
    look,
    open_and_close,
)
SOLE = ("lock", "lock_in_time", "lock_in_vain", "lock_at_once", "rlock", "open_and_close")
"""Those that a store has which has no queues and no values."""


def interrupted_at(pair: Pair, call: Callable[[Pair], None], places: Iterator[int]) -> int:
    """Make a call again and again, each time interrupted at another place, until none is left."""
    for at in places:
        strike = StrikeAnywhere(at)
        try:
            with strike:
                call(pair)
        except KeyboardInterrupt:
            pass
        pair.see_nothing_left(f"{at}: {strike.where}")
        if strike.left > 0:  # it was not struck; one that nobody was notified of is not the last
            return at
    raise AssertionError("there should be an end")


def every(stride: int) -> Iterator[int]:
    """Return every so many places."""
    return itertools.count(1 + stride // 2, stride)
