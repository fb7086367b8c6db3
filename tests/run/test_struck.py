"""An interrupt wherever Python hears of one, at each place once: nothing is left behind.

Signals are heard between any two instructions, so a storm of them finds a gap of a few microseconds once in
a thousand runs; this finds it each time.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration.servers import eventually
from recipes.events import Transition
from tests.heap import INTERRUPTED
from tests.run.striking import Handled, Strike, StrikeAtTheEnd, StrikeWithin

SOON_S = 20


pytestmark = INTERRUPTED


@pytest.fixture(params=["memory", "sqlite"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[recipes.Client]:
    """Yield an open client, with whose session nothing can go wrong."""
    url = "memory://" if request.param == "memory" else f"sqlite://{tmp_path}/locks"
    with recipes.connect(url, session_timeout=60) as one:
        yield one


def struck(call: Callable[[], object], at: int) -> str:
    """Return where ``call`` was interrupted; "" if it was not."""
    strike = Strike(at)
    try:
        with strike:
            call()
    except KeyboardInterrupt:
        return strike.where
    return ""


def test_a_release_interrupted_anywhere_is_done_all_the_same(client: recipes.Client) -> None:
    lock = client.lock("x")
    for at in itertools.count(1):
        grant = lock.acquire(timeout=SOON_S)
        where = struck(grant.release, at)
        assert client.grants == [], where
        assert not grant.held, where
        if not where:
            break
    assert at > 20
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


EMITTING = (
    "of loss_to_report in",
    "of emit in",
    "of _tell in",
    "/events.py:",
    "/_printable.py:",
    "/_section.py:",
    "/callbacks.py:",
    "of in_turn in",
)
"""Where an event is on its way to its subscribers: an interrupt there may take it away."""


@pytest.mark.parametrize(("kind", "parts"), [("lock", 0), ("rlock", 0), ("multilock", 3)])
def test_a_loss_that_a_release_notices_is_reported_once_wherever_it_is_interrupted(
    kind: str, parts: int
) -> None:
    notified: list[list[object]] = []
    seen: list[Transition] = []
    places: list[str] = []

    def note(transition: Transition) -> None:
        if transition.what == "lost" and transition.event != "session.lost":  # that may be reported as well
            seen.append(transition)

    stop = recipes.events.subscribe(note)
    for at in itertools.count(1):
        strike = Strike(at)
        with recipes.connect(f"memory://{kind}{at}", session_timeout=60) as client:
            lock = together(client) if parts else getattr(client, kind)("x")
            grant = lock.acquire(timeout=SOON_S)
            notified.append([])
            grant.lost.add_callback(notified[-1].append)
            grant._hold.session.clock.deadline = 0.0
            with contextlib.suppress(KeyboardInterrupt), strike:
                grant.release()
            places.append(strike.where)
            assert eventually(lambda: notified[-1], SOON_S, every_s=0.002), strike.where
        if strike.left > 0:  # one that nobody was notified of is not the last
            break
    last = f"memory://{kind}{at}"
    assert eventually(lambda: len([t for t in seen if t.store == last]) == parts + 1, SOON_S)
    stop()
    assert [len(told) for told in notified] == [1] * len(notified)
    reported = Counter((t.store, t.event, t.name) for t in seen)
    assert set(reported.values()) == {1}
    for number, where in enumerate(places, 1):
        if not any(part in where for part in EMITTING):
            found = [one for one in reported if one[0] == f"memory://{kind}{number}"]
            assert len(found) == parts + 1, (where, found)
    assert at > 50


def test_an_acquire_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    lock = client.lock("x")
    for at in itertools.count(1):
        where = struck(lambda: lock.acquire(timeout=SOON_S), at)
        if not where:
            break
        assert client.grants == [], where
        assert lock.acquire(timeout=SOON_S).release(), where
    assert at > 50
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_leading_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    election = client.election("x")
    for at in itertools.count(1):
        where = struck(lambda: election.run(lambda leadership: leadership.check()), at)
        if not where:
            break
        assert client.grants == [], where
        assert election.campaign(timeout=SOON_S).release(), where
    assert at > 100
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)
    assert election.contenders() == []


def test_a_proclamation_interrupted_anywhere_is_replaced_by_the_next(client: recipes.Client) -> None:
    election = client.election("x")
    with election.campaign() as leadership:
        for at in itertools.count(1):
            where = struck(lambda: leadership.proclaim("struck"), at)
            leadership.proclaim(f"after {at}")
            assert election.leader() == recipes.Leader(f"after {at}", leadership.token), where
            assert leadership.held, where
            if not where:
                break
    assert at > 20


def together(client: recipes.Client) -> recipes.MultiLock:
    """Return a multi-lock of an `RLock`, the lock ``x``, and two permits, in this order."""
    return client.multilock(client.semaphore("s", 2).of(2), client.lock("x"), client.rlock("r"))


def free(client: recipes.Client) -> bool:
    """Whether all parts of it can be had, and nothing of them is held."""
    released = together(client).acquire(timeout=SOON_S).release()
    # What was released before may still have to be deleted: a try would find that.
    settled = eventually(lambda: client.pending_cleanups == 0, SOON_S, every_s=0.002)
    return settled and released and client.grants == [] and not client._runtime.reentries


@pytest.mark.parametrize("call", ["acquire", "try_acquire"])
def test_an_acquire_of_several_interrupted_anywhere_leaves_nothing(client: recipes.Client, call: str) -> None:
    lock = together(client)
    for at in itertools.count(1):
        where = struck(lambda: getattr(lock, call)(timeout=SOON_S), at)
        if not where:
            break
        assert client.grants == [], where
        assert free(client), where
    assert at > 100
    assert len(client.grants) == 3


def test_a_release_of_several_interrupted_anywhere_is_done_all_the_same(client: recipes.Client) -> None:
    lock = together(client)
    for at in itertools.count(1):
        grant = lock.acquire(timeout=SOON_S)
        where = struck(grant.release, at)
        assert client.grants == [], where
        assert not grant.held, where
        assert free(client), where
        if not where:
            break
    assert at > 50
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_a_wait_for_one_of_several_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    lock, other = together(client), client.lock("x")
    for at in itertools.count(1):
        held = took(other)
        where = struck(lambda: wait_in_vain(lock), at)
        assert client.grants == [held], where
        assert held.release(), where
        assert free(client), where
        if not where:
            break
    assert at > 200
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_a_try_that_finds_one_of_several_held_interrupted_anywhere_leaves_nothing(
    client: recipes.Client,
) -> None:
    lock, other = together(client), client.lock("x")
    for at in itertools.count(1):
        held = took(other)
        where = struck(lock.try_acquire, at)
        assert client.grants == [held], where
        assert held.release(), where
        assert free(client), where
        if not where:
            break
    assert at > 100
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_entering_again_with_others_interrupted_anywhere_leaves_only_what_was_there(
    client: recipes.Client,
) -> None:
    lock, rlock = together(client), client.rlock("r")

    def again() -> None:
        lock.acquire(timeout=SOON_S).release()

    for at in itertools.count(1):
        outer = rlock.acquire(timeout=SOON_S)
        where = struck(again, at)
        assert outer.held, where
        left = [grant for grant in client.grants if grant is not outer]
        assert outer.release(), where
        assert not left, where
        assert free(client), where
        if not where:
            break
    assert at > 100
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def took(lock: recipes.Lock) -> recipes.Grant:
    """Take it in a thread that is over then, so that this one would wait for another's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lock.acquire, timeout=SOON_S).result()


def wait_in_vain(lock: recipes.Lock | recipes.MultiLock) -> None:
    with pytest.raises(recipes.LockTimeout):
        lock.acquire(timeout=0.01)


def test_a_wait_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    lock = client.lock("x")
    for at in itertools.count(1):
        held = took(lock)
        where = struck(lambda: wait_in_vain(lock), at)
        assert held.release(), where
        assert lock.acquire(timeout=SOON_S).release(), where
        assert eventually(lambda: client.pending_cleanups == 0, SOON_S), where
        if not where:
            break
    assert at > 100
    assert lock.contenders() == []


def test_what_the_cleaner_is_to_do_is_done_wherever_it_is_told(client: recipes.Client) -> None:
    """A wait that is over tells it, at no fixed place: some wake up more often than others."""
    lock = client.lock("x")
    for at in itertools.count(1):
        held = took(lock)
        strike = StrikeWithin(at, "abandon", "schedule", "_remember", "clean_up")
        with contextlib.suppress(KeyboardInterrupt), strike:
            wait_in_vain(lock)
        assert held.release(), strike.where
        assert lock.acquire(timeout=SOON_S).release(), strike.where
        assert eventually(lambda: client.pending_cleanups == 0, SOON_S), strike.where
        if not strike.where:
            break
    assert at > 5
    assert lock.contenders() == []


def enter(lock: Any) -> None:
    with lock:
        pass


def enter_within(lock: Any) -> None:
    with lock, contextlib.suppress(ValueError):
        raise ValueError


def enter_and_raise(lock: Any) -> None:
    with contextlib.suppress(ValueError), lock:
        raise ValueError


@pytest.mark.parametrize("body", [enter, enter_within, enter_and_raise])
@pytest.mark.parametrize("kind", ["lock", "rlock", "multilock"])
def test_a_with_block_interrupted_anywhere_leaves_nothing(
    client: recipes.Client, kind: str, body: Callable[[Any], None]
) -> None:
    lock = together(client) if kind == "multilock" else getattr(client, kind)("x")
    for at in itertools.count(1):
        where = struck(lambda: body(lock), at)
        if not where:
            break
        assert lock.acquire(timeout=SOON_S).release(), where
        assert lock._entered == {}, where
        assert client.grants == [], where
    assert at > 50
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_the_with_block_of_a_grant_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    """Once it was entered: until then it is a grant like any other."""
    lock = client.lock("x")

    def enter_and_leave() -> None:
        with grant:
            pass

    for at in itertools.count(1):
        grant = lock.acquire(timeout=SOON_S)
        where = struck(enter_and_leave, at)
        if not where:
            break
        if "leaving.py" in where and grant.held:  # before it was entered
            grant.release()
        assert lock.acquire(timeout=SOON_S).release(), where
        assert client.grants == [], where
    assert at > 20


def strike_at_the_end(lock: recipes.Lock) -> None:
    """Enter a block of which an interrupt strikes the first instruction of its end."""
    strike = StrikeAtTheEnd()
    with pytest.raises(KeyboardInterrupt), strike:
        enter(lock)
    assert "__exit__" in strike.where


def test_close_releases_what_an_interrupt_left_as_a_block_ended(
    client: recipes.Client, tmp_path: Path
) -> None:
    lock = client.lock("x")
    strike_at_the_end(lock)
    assert [grant.held for grant in client._runtime.holds[0].grants] == [True]
    client.close()
    assert client._runtime.holds == []


def test_a_renewal_releases_what_an_interrupt_left_as_a_block_ended(client: recipes.Client) -> None:
    lock = client.lock("x")
    strike_at_the_end(lock)
    (hold,) = client._runtime.holds
    state = client._runtime.state
    assert hold.remaining(client._runtime.now()) > 0
    assert state.session is not None
    assert state.session.clock is not None
    state.session.clock.due = 0.0
    state.wake_keepalive()
    assert eventually(lambda: hold.ended, SOON_S)


def test_a_block_that_has_not_ended_is_left_alone(client: recipes.Client) -> None:
    """Whoever looks at ``__exit__``, and however it is entered; a generator that waits in it, too."""
    lock = client.lock("x")

    def wait_inside() -> Iterator[recipes.Grant]:
        with lock as grant:
            yield grant

    waiting = wait_inside()
    grant = next(waiting)
    client.lock("y").acquire(timeout=SOON_S).release()
    assert grant.held
    waiting.close()
    assert not grant.held

    with contextlib.ExitStack() as stack:
        grant = stack.enter_context(client.lock("x"))
        client.lock("y").acquire(timeout=SOON_S).release()
        assert grant.held
    assert not grant.held

    grant = client.lock("x").acquire(timeout=SOON_S)
    assert hasattr(grant, "__exit__")
    assert grant.__enter__() is grant
    client.lock("y").acquire(timeout=SOON_S).release()
    assert grant.held
    grant.__exit__(None, None, None)
    assert not grant.held


def entered_for_the_caller(manager: Any) -> Any:
    """Enter it as a helper does that first asks whether it can be entered, and keeps the answer."""
    leave = getattr(manager, "__exit__", None)
    if leave is None:
        raise TypeError
    return manager.__enter__()


@pytest.mark.parametrize("what", ["lock", "rlock", "grant"])
def test_what_a_helper_entered_is_held_until_it_is_left(client: recipes.Client, what: str) -> None:
    """What the helper looked up ends with the helper, and the block does not."""
    manager: Any = client.lock("x").acquire(timeout=SOON_S) if what == "grant" else getattr(client, what)("x")
    grant = entered_for_the_caller(manager)
    client.lock("y").acquire(timeout=SOON_S).release()
    client._runtime.sweep()
    assert grant.held
    manager.__exit__(None, None, None)
    assert not grant.held
    assert client.grants == []


def test_a_block_within_a_helper_that_looked_too_is_seen_to_end(client: recipes.Client) -> None:
    lock = client.lock("x")

    def look_and_enter() -> None:
        leave = lock.__exit__
        enter(lock)
        del leave

    strike = StrikeAtTheEnd()
    with pytest.raises(KeyboardInterrupt), strike:
        look_and_enter()
    assert lock.acquire(timeout=SOON_S).release()
    assert client.grants == []


@pytest.mark.parametrize("kind", ["rlock", "reader"])
def test_each_end_takes_away_what_was_entered_there(client: recipes.Client, kind: str) -> None:
    """Also where what was entered within a block outlives it."""
    lock: Any = client.rlock("x") if kind == "rlock" else client.rwlock("x").reader
    stack = contextlib.ExitStack()
    with lock as outer:
        inner = stack.enter_context(lock)
    client.lock("y").acquire(timeout=SOON_S).release()
    client._runtime.sweep()
    assert (outer.held, inner.held) == (False, True)

    with lock as outer:
        stack.close()
        assert (outer.held, inner.held) == (True, False)
    assert client.grants == []
    assert lock._entered == {}


@pytest.mark.parametrize("kind", ["rlock", "reader"])
def test_what_a_handler_entered_as_a_block_began_outlives_it(client: recipes.Client, kind: str) -> None:
    """Wherever until then it was called; what it cannot have there it does not enter."""
    lock: Any = client.rlock("x") if kind == "rlock" else client.rwlock("x").reader
    entered = 0
    for at in itertools.count(1):
        stack = contextlib.ExitStack()
        got: list[recipes.Grant] = []

        def handle(stack: contextlib.ExitStack = stack, got: list[recipes.Grant] = got) -> None:
            with contextlib.suppress(recipes.RecipesError):
                got.append(stack.enter_context(lock))

        # What the handler holds now can be more than the statement expects.
        handled = Handled(at, handle)
        with contextlib.suppress(recipes.WouldDeadlock), handled, lock:
            sys.setprofile(None)
        client.lock("y").acquire(timeout=SOON_S).release()
        client._runtime.sweep()
        assert all(grant.held for grant in got), handled.where
        assert client.grants == got, handled.where
        stack.close()
        assert client.grants == [], handled.where
        entered += len(got)
        if not handled.where:
            break
    assert at > 50
    assert entered > 20


def test_an_acquire_again_interrupted_anywhere_leaves_only_what_was_there(client: recipes.Client) -> None:
    lock = client.rlock("x")

    def again() -> None:
        lock.acquire(timeout=SOON_S).release()

    for at in itertools.count(1):
        outer = lock.acquire(timeout=SOON_S)
        where = struck(again, at)
        assert outer.held, where
        left = [grant for grant in client.grants if grant is not outer]
        assert outer.release(), where
        assert not left, where
        assert client.lock("x").try_acquire().release(), where  # type: ignore[union-attr]
        if not where:
            break
    assert at > 20
