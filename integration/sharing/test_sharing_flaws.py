"""Flaws of small programs beside ours: they harm their own kind, and not ours."""

from __future__ import annotations

import threading

from integration.faults.actors import PATIENCE_S
from integration.faults.workers import Worker
from integration.sharing.meeting import Ground, fresh, start
from integration.sharing.others import EmptyMulti, SetnxThenExpire

SESSION_S = 2.0
LONGER_S = 5.0  # its key is put off before it has expired
LONG_BEFORE_S = 30.0
"""The key of the dead one has 60 s left, or is put off again."""


def test_waiters_that_put_the_expiry_off_do_not_keep_a_dead_holder_of_ours_alive(ground: Ground) -> None:
    """TTL is 0 in the last half second of the dead holder's key, and they then EXPIRE it anew."""
    name = fresh("dead")
    ours = ground.actor("lock:")
    with ground.other(SetnxThenExpire, name, 60) as theirs:
        assert isinstance(theirs, SetnxThenExpire)
        prolonged = threading.Event()
        theirs.prolonged = prolonged.set
        with Worker("sharing.holder", ground.server.url(), name, "Lock", SESSION_S) as holder:
            (dead,) = ours.call(ours.client.lock(name).holders)
            holder.kill()
        waiting = start(theirs.acquire, PATIENCE_S)
        assert prolonged.wait(PATIENCE_S)
        assert ground.operator.pttl(theirs.key) > SESSION_S * 1000
        grant = ground.acquire(ours, name, within_s=LONG_BEFORE_S)
        assert grant.token > dead.token
        assert not waiting.done()
        assert grant.release()
        assert waiting.result(PATIENCE_S)
        assert theirs.release()


def test_nor_a_dead_reader(ground: Ground) -> None:
    name = fresh("dead reader")
    ours = ground.actor("lock:")
    with Worker("sharing.holder", ground.server.url(), name, "reader", LONGER_S) as holder:
        holder.kill()
        assert ground.operator.pexpire(f"lock:{name}", 60_000)  # as those waiters do
    grant = ground.acquire(ours, name, within_s=LONG_BEFORE_S)
    assert grant.verify()
    assert grant.release()


def test_their_own_dead_holder_is_kept_alive_by_their_waiters_and_ours_waits(ground: Ground) -> None:
    """As their own do: nobody can tell a value that is put off from one that is renewed."""
    name = fresh("their dead")
    ours = ground.actor("lock:")
    with ground.other(SetnxThenExpire, name, 1) as dead, ground.other(SetnxThenExpire, name, 60) as late:
        assert dead.acquire(0)
        assert isinstance(late, SetnxThenExpire)
        prolonged = threading.Event()
        late.prolonged = prolonged.set
        theirs = start(late.acquire, PATIENCE_S)
        assert prolonged.wait(PATIENCE_S)
        assert ground.try_acquire(ours, name) is None
        assert dead.release()
        assert theirs.result(PATIENCE_S)
        assert ground.try_acquire(ours, name) is None
        assert late.release()


def test_an_empty_transaction_excludes_nobody_and_does_ours_no_harm(ground: Ground) -> None:
    name = fresh("empty")
    ours = ground.actor("lock:")
    with ground.other(EmptyMulti, name) as one, ground.other(EmptyMulti, name) as another:
        with_ours = ground.acquire(ours, name)
        assert one.acquire(0)
        assert another.acquire(0)  # nor does it exclude its own kind
        assert with_ours.verify()
        waiting = ground.queue(ground.actor("lock:", 1), name, behind=1)
        assert one.release()
        assert with_ours.release()
        next_one = waiting.granted()
        assert next_one.token > with_ours.token
        assert next_one.release()
