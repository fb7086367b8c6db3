"""Flaws of small programs beside ours: they harm their own kind, and not ours."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from integration.faults.actors import PATIENCE_S
from integration.faults.workers import Worker
from integration.sharing.meeting import Ground, fresh, start
from integration.sharing.others import EmptyMulti, Other, SetnxThenExpire

Dead = TypeVar("Dead")
Begun = tuple[str, Other, Dead]
"""The name, one that is to wait, and the dead holder."""

SESSION_S = 5.0
LONGER_S = 5.0  # its key is put off before it has expired
LONG_BEFORE_S = 30.0
"""The key of the dead one has 60 s left, or is put off again."""
TRIES = 3


@contextlib.contextmanager
def prolonging(
    begin: Callable[[contextlib.ExitStack], Begun[Dead]],
) -> Iterator[tuple[str, Other, Dead, Future[bool]]]:
    """Have one wait that has put the end of a dead holder's key off, and yield all of them.

    A machine that stands still for half a second may let the key end before; then all begins anew.
    """
    for _ in range(TRIES):
        with contextlib.ExitStack() as stack:
            name, one, dead = begin(stack)
            waiting, prolonged = waits(one)
            if prolonged:
                yield name, one, dead, waiting
                return
            assert waiting.result()
            assert one.release()
    raise AssertionError("it never put off what was about to end")


def waits(one: Other) -> tuple[Future[bool], bool]:
    """Have one wait, until it has put the end of the key off, or holds; whether it has put that off."""
    assert isinstance(one, SetnxThenExpire)
    prolonged, either = threading.Event(), threading.Event()

    def note() -> None:
        prolonged.set()
        either.set()

    one.prolonged = note
    waiting = start(one.acquire, PATIENCE_S)
    waiting.add_done_callback(lambda _: either.set())
    assert either.wait(PATIENCE_S), "it should have waited or held"
    return waiting, prolonged.is_set()


def test_waiters_that_put_the_expiry_off_do_not_keep_a_dead_holder_of_ours_alive(ground: Ground) -> None:
    """TTL is 0 in the last half second of the dead holder's key, and they then EXPIRE it anew."""
    ours = ground.actor("lock:")

    def begin(stack: contextlib.ExitStack) -> Begun[Any]:
        name = fresh("dead")
        theirs = stack.enter_context(ground.other(SetnxThenExpire, name, 60))
        with Worker("sharing.holder", ground.server.url(), name, "Lock", SESSION_S) as holder:
            (dead,) = ours.call(ours.client.lock(name).holders)
            holder.kill()
        return name, theirs, dead

    with prolonging(begin) as (name, theirs, dead, waiting):
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
    ours = ground.actor("lock:")

    def begin(stack: contextlib.ExitStack) -> Begun[Other]:
        name = fresh("their dead")
        late = stack.enter_context(ground.other(SetnxThenExpire, name, 60))
        dead = stack.enter_context(ground.other(SetnxThenExpire, name, 1))
        assert dead.acquire(0)
        return name, late, dead

    with prolonging(begin) as (name, late, dead, theirs):
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
