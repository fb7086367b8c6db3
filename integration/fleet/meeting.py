"""Two contenders of different kinds meet: who waits for whom; and many of them, on one counter."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

import recipes
from integration import servers
from integration.faults.actors import BlockingActor
from integration.fleet.kinds import ELECTION, Kind, start
from integration.fleet.peers import PATIENCE_S, Peer
from integration.stores import store_on
from tests.contract.stores import ELECTIONS, queue_of

__all__ = ["Candidate", "Ground", "Meeting", "contend", "meet", "place", "stays_out"]

SHORT_S = 0.2


@dataclass(frozen=True)
class Meeting:
    """Who waited for whom."""

    ours_waited: bool
    theirs_waited: bool


class Candidate:
    """An election of ours, acquired as a lock is."""

    def __init__(self, election: Any) -> None:
        self._election = election

    def acquire(self, timeout: float) -> Any:
        """Campaign."""
        return self._election.campaign("ours", timeout=timeout)

    def try_acquire(self) -> Any:
        """Campaign for a moment."""
        with contextlib.suppress(recipes.LockTimeout):
            return self.acquire(SHORT_S)
        return None


class Ground:
    """A prefix on one server, two clients of ours, and those of others, used again and again."""

    def __init__(self, server: servers.Server) -> None:
        self.server = server
        self.store = store_on(server, f"t-{uuid.uuid4().hex[:12]}")
        self.actors = [BlockingActor(self.store.url()) for _ in range(2)]
        self._idle: dict[str, list[Peer]] = {}

    def path(self, name: str) -> str:
        """Return what other clients call the lock ``name``, or what ``~<recipe>/<name>`` is."""
        slash = "/" if isinstance(self.server, servers.ZooKeeper) else ""
        return f"{slash}{self.store.prefix}/{queue_of(name)}"

    def ours(self, which: str, name: str, actor: int = 0) -> Any:
        """Return a lock of ours, or a side of one, or a candidate."""
        client = self.actors[actor].client
        if which == "Lock":
            return client.lock(name)
        if which == ELECTION:
            return Candidate(client.election(name.removeprefix(ELECTIONS)))
        return getattr(client.rwlock(name), which)

    @contextlib.contextmanager
    def peer(self, kind: Kind, name: str) -> Iterator[Peer]:
        """Yield a contender of theirs; one that ends well is used again."""
        idle = self._idle.setdefault(kind.program, [])
        one = idle.pop() if idle else start(kind.program, self.server)
        try:
            one.use(kind.kind, self.path(name), kind.value)
            yield one
        except BaseException:
            one.close()
            raise
        idle.append(one)

    def queued(self, name: str, count: int) -> None:
        """Wait until there are so many contenders."""
        right = servers.eventually(
            lambda: len(self.store.contenders(name)) == count, PATIENCE_S, every_s=0.01
        )
        assert right, f"{count} contenders should stand: {self.store.contenders(name)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peers in self._idle.values():
            for one in peers:
                one.close()
        for actor in self.actors:
            actor.close()
        try:
            left = servers.settle(self.server, self.store.prefix)
            assert not left, f"left behind: {left.contenders}"
        finally:
            self.store.close()


def place(ours: str, *parts: object) -> str:
    """Return a name that nothing else has, for a lock or an election."""
    name = "/".join((*map(str, parts), uuid.uuid4().hex[:6]))
    return f"{ELECTIONS}{name}" if ours == ELECTION else name


def meet(ground: Ground, kind: Kind, ours: str) -> Meeting:
    """Let either hold while the other comes; whoever waits gets the lock when it is released."""
    name = place(ours, kind, ours)
    with ground.peer(kind, name) as theirs:
        meeting = Meeting(_they_hold(ground, theirs, ours, name), _we_hold(ground, kind, theirs, ours, name))
        ground.queued(name, 0)
    return meeting


def _they_hold(ground: Ground, theirs: Peer, ours: str, name: str) -> bool:
    """Whether ours waited."""
    token = theirs.try_acquire()
    assert token is not None, "a free lock should be had at once"
    lock = ground.ours(ours, name)
    if (grant := lock.try_acquire()) is not None:
        assert grant.verify()
        theirs.release()
        assert grant.release()
        return False
    with pytest.raises(recipes.LockTimeout):
        lock.acquire(timeout=SHORT_S)
    waiting = ground.actors[0].start(lock.acquire, timeout=PATIENCE_S)
    ground.queued(name, 2)
    assert not waiting.done()
    theirs.release()
    grant = waiting.result(PATIENCE_S)
    assert grant.token > token
    assert grant.release()
    return True


def _we_hold(ground: Ground, kind: Kind, theirs: Peer, ours: str, name: str) -> bool:
    """Whether theirs waited."""
    grant = ground.ours(ours, name).acquire(timeout=PATIENCE_S)
    if theirs.try_acquire() is not None:
        assert grant.verify()
        theirs.release()
        assert grant.release()
        return False
    theirs.use(kind.kind, ground.path(name), kind.value)
    theirs.start_acquire()
    ground.queued(name, 2)
    assert theirs.held(SHORT_S) is None
    assert grant.verify()
    assert grant.release()
    token = theirs.held()
    assert token is not None
    assert token > grant.token
    theirs.release()
    return True


def stays_out(ground: Ground, kind: Kind) -> None:
    """See that a writer of ours is one to others also when it has downgraded."""
    name = f"downgraded/{kind}/{uuid.uuid4().hex[:6]}"
    with ground.peer(kind, name) as theirs, ground.ours("writer", name) as grant:
        grant.downgrade()
        assert ground.ours("reader", name, actor=1).try_acquire().release()
        assert theirs.try_acquire() is None
        assert grant.verify()


def contend(
    ground: Ground,
    kinds: tuple[Kind, ...],
    file: Path,
    times: int,
    counters: tuple[str, str] = ("Lock", "writer"),
) -> None:
    """Have two of each kind and one of each of ours count, while readers of ours, if of locks, look on."""
    name = place(counters[0], "many")
    file.write_text("0")
    with contextlib.ExitStack() as stack:
        theirs = [stack.enter_context(ground.peer(kind, name)) for kind in kinds for _ in range(2)]
        running = [
            ground.actors[number].start(_count, ground.ours(which, name, number), file, times)
            for number, which in enumerate(counters)
        ]
        looking = [
            actor.start(_look, ground.ours("reader", name, number), file, times)
            for number, actor in enumerate(ground.actors)
            if ELECTION not in counters
        ]
        for one in theirs:
            one.start_count(file, times)
        for one in theirs:
            one.counted()
        for future in (*running, *looking):
            future.result(2 * PATIENCE_S)
        assert int(file.read_text()) == (len(theirs) + len(counters)) * times
        ground.queued(name, 0)


def _count(lock: Any, file: Path, times: int) -> None:
    """Add one to the number in the file, times over; only the lock protects it."""
    for _ in range(times):
        with lock.acquire(timeout=2 * PATIENCE_S):
            number = int(file.read_text())
            time.sleep(0.001)  # wide enough for another to fall in between
            file.write_text(str(number + 1))


def _look(lock: Any, file: Path, times: int) -> None:
    """See that the number stays as it is while a reader holds."""
    for _ in range(times):
        with lock.acquire(timeout=2 * PATIENCE_S):
            number = int(file.read_text())
            time.sleep(0.001)
            assert int(file.read_text()) == number
