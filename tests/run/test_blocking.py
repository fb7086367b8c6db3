"""The blocking API and its driver on a store in memory, with faults where they hurt."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Never
from unittest.mock import Mock

import pytest

from integration.harness.process import eventually
from recipes._contract.operations import Ticket
from recipes._contract.wakeups import Event
from recipes._programs.cleaner import Job
from recipes._programs.hold import HeldState
from recipes._run.blocking import BlockingRuntime, ThreadMailbox
from recipes._run.retries import Retries
from recipes.client import Client
from recipes.errors import (
    ClientClosed,
    LockLost,
    LockTimeout,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    WouldDeadlock,
)
from recipes.events import subscribe
from tests.run.doubles import FAST, SETTINGS, FaultyBackend
from tests.threads import until_ended

SOON_S = 30.0


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend()


@pytest.fixture
def client(backend: FaultyBackend) -> Iterator[Client]:
    made = Client(backend, SETTINGS)
    yield made
    backend.before = backend.after = lambda request: None
    made.close()


def cleaned(client: Client) -> None:
    """Wait until the cleaner has done all it was given."""
    runtime = client._runtime
    assert eventually(lambda: not runtime.cleaning, SOON_S, every_s=0.002), "the cleaner is not done"


def on(kind: str, error: Callable[[], BaseException], times: int = 1) -> Callable[[Any], None]:
    """A fault at requests of one kind."""
    left = [times]

    def fault(request: Any) -> None:
        if type(request.op).__name__ == kind and left[0] > 0:
            left[0] -= 1
            raise error()

    return fault


def cut() -> StoreUnavailable:
    return StoreUnavailable("memory://", "cut")


def once_interrupted(call: Callable[..., Any]) -> Callable[..., Any]:
    """Do as ``call``, but for an interrupt at first."""
    struck: list[bool] = []

    def interrupted(*args: Any, **options: Any) -> Any:
        if not struck:
            struck.append(True)
            raise KeyboardInterrupt
        return call(*args, **options)

    return interrupted


class Waiter(threading.Thread):
    """A call in a thread of its own, with what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def outcome(self) -> Any:
        self.join(SOON_S)
        assert not self.is_alive(), "it is stuck"
        if self.error is not None:
            raise self.error
        return self.result


def refusing(name: str, withdrawn: list[str]) -> Callable[[Any], None]:
    """Refuses withdrawals of one lock until another's was asked for; the other's is refused once."""
    refused: list[str] = []

    def fault(request: Any) -> None:
        if type(request.op).__name__ != "Withdraw":
            return
        queue = request.op.ticket.queue
        if name in queue and withdrawn == []:
            raise StoreRefused("memory://", "no")
        if name not in queue and not refused:
            refused.append(queue)
            raise StoreRefused("memory://", "no")
        withdrawn.append(queue)

    return fault


def queued(backend: FaultyBackend, client: Client, name: str = "x") -> Waiter:
    """A waiter that has got as far as waiting."""
    waiting = threading.Event()
    runtime = client._runtime
    period = runtime.reread_period

    def noted(session: Any) -> float:
        waiting.set()
        return period(session)

    runtime.reread_period = noted  # type: ignore[method-assign]
    waiter = Waiter(lambda: client.lock(name).acquire())
    assert waiting.wait(SOON_S)
    return waiter


# The plain life of a lock.


def test_acquire_and_release(backend: FaultyBackend, client: Client) -> None:
    lock = client.lock("x")
    grant = lock.acquire()
    assert grant.held
    assert grant.token > 0
    assert client.grants == [grant]
    assert grant.release()
    assert not grant.held
    assert not grant.release(), "a second release does nothing"
    assert client.grants == []
    assert backend.server.contenders() == []
    assert lock.acquire().token > grant.token


def test_a_call_that_has_ended_hears_of_nothing(backend: FaultyBackend, client: Client) -> None:
    client.lock("x").acquire()
    with Client(backend, SETTINGS) as beside:
        with pytest.raises(LockTimeout):
            beside.lock("x").acquire(timeout=0.05)
        cleaned(beside)
        assert list(beside._runtime.state.calls) == []


def test_uncontended_is_one_request_each(backend: FaultyBackend, client: Client) -> None:
    client.open()
    backend.asked.clear()
    client.lock("x").acquire().release()
    assert backend.asked == ["Enqueue", "Withdraw"]


def test_locks_of_one_name_exclude_each_other_and_others_do_not(client: Client) -> None:
    with client.lock("x"):
        assert client.lock("x").try_acquire() is None
        other = client.lock("y").try_acquire()
        assert other is not None
        other.release()


def test_a_waiter_gets_it_in_order(backend: FaultyBackend, client: Client) -> None:
    grant = client.lock("x").acquire()
    others = [Client(backend, SETTINGS) for _ in range(3)]
    waiters = [queued(backend, other) for other in others]
    tokens = [grant.token]
    for waiter in waiters:
        assert waiter.is_alive()
        grant.release()
        grant = waiter.outcome()
        tokens.append(grant.token)
    assert tokens == sorted(tokens)
    grant.release()
    for other in others:
        other.close()


def test_a_waiter_of_the_same_client_is_woken_without_a_watch(backend: FaultyBackend, client: Client) -> None:
    grant = client.lock("x").acquire()
    waiter = queued(backend, client)
    assert not backend.server.watches
    grant.release()
    assert waiter.outcome().release()


def test_the_session_is_shared_by_all(client: Client) -> None:
    assert (client.session.state, client.session.id, client.session.timeout) == ("none", None, None)
    assert client.session.remaining == 0.0
    client.open()
    assert (client.session.state, client.session.timeout) == ("held", 15.0)
    assert 0 < client.session.remaining <= 13.5
    assert client.session.id in repr(client.session)
    assert repr(client) == "<Client of memory://: session held>"


# Timeouts.


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), True, False, "1", 10**400])
def test_bad_timeouts_raise_before_any_request(backend: FaultyBackend, client: Client, bad: Any) -> None:
    lock = client.lock("x")
    with pytest.raises((ValueError, TypeError), match="timeout"):
        lock.acquire(timeout=bad)
    assert backend.asked == []
    assert client.session.state == "none"


def test_a_bad_name_raises_before_any_request(backend: FaultyBackend, client: Client) -> None:
    with pytest.raises(ValueError, match="at least one"):
        client.lock("")
    assert backend.asked == []


@pytest.mark.parametrize("timeout", [0, 0.0, 1.0])
def test_a_timeout_leaves_nothing_behind(backend: FaultyBackend, client: Client, timeout: Any) -> None:
    other = Client(backend, SETTINGS)
    client.lock("y").acquire().release()  # to begin a session may take all of that time on a busy machine
    with other.lock("x") as grant:
        with pytest.raises(LockTimeout) as raised:
            client.lock("x").acquire(timeout=timeout)
        assert raised.value.timeout_s == timeout
        assert raised.value.position == 1
        assert isinstance(raised.value, TimeoutError)
        cleaned(client)
        assert [c.ref for c in backend.server.contenders()] == [grant._hold.entry.ref]
    other.close()


@pytest.mark.parametrize("timeout", [0, 1.0, None])
def test_free_is_granted_with_any_timeout(client: Client, timeout: Any) -> None:
    if timeout is not None:  # to begin a session may take all of that time on a busy machine
        client.open()
    with client.lock("x").acquire(timeout=timeout) as grant:
        assert grant.held


def test_a_timeout_through_an_outage_says_what_was_wrong(backend: FaultyBackend, client: Client) -> None:
    backend.before = on("Open", cut, times=10**9)
    with pytest.raises(LockTimeout, match="no answer from memory") as raised:
        client.lock("x").acquire(timeout=0.5)  # long enough to be notified of the first failure
    assert isinstance(raised.value.__cause__, StoreUnavailable)


# Deadlock.


def test_waiting_for_oneself_is_refused(backend: FaultyBackend, client: Client) -> None:
    lock = client.lock("x")
    with lock as grant:
        with pytest.raises(WouldDeadlock) as raised:
            client.lock("x").acquire(timeout=5)
        assert raised.value.token == grant.token
        assert lock.try_acquire() is None, "trying never waits"
        client.lock("y").acquire().release()
        waiter = queued(backend, client)
    assert waiter.outcome().release(), "another thread may wait"


def test_the_same_thread_may_use_another_client(backend: FaultyBackend, client: Client) -> None:
    other = Client(backend, SETTINGS)
    with client.lock("x"), pytest.raises(LockTimeout):
        other.lock("x").acquire(timeout=0.02)
    other.close()


# Lost answers.


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", ["Open", "Enqueue", "Withdraw", "Watch", "Check"])
def test_a_lost_answer_is_no_lost_lock(backend: FaultyBackend, client: Client, kind: str, where: str) -> None:
    other = Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    setattr(backend, where, on(kind, cut, times=2))
    waiter = queued(backend, client)
    holder.release()
    grant = waiter.outcome()
    assert grant.verify()
    assert grant.release()
    cleaned(client)
    assert backend.server.contenders() == []
    other.close()


@pytest.mark.parametrize("where", ["before", "after"])
def test_try_asks_twice_and_gives_up(backend: FaultyBackend, client: Client, where: str) -> None:
    client.open()
    backend.asked.clear()
    setattr(backend, where, on("Probe", cut, times=2))
    with pytest.raises(StoreUnavailable):
        client.lock("x").try_acquire()
    cleaned(client)
    assert backend.asked[:2] == ["Probe", "Probe"]
    assert backend.server.contenders() == []


@pytest.mark.parametrize("error", [StoreRefused, StoreFull])
@pytest.mark.parametrize("kind", ["Open", "Enqueue"])
def test_a_refusal_is_raised_at_once(backend: FaultyBackend, client: Client, kind: str, error: Any) -> None:
    backend.before = on(kind, lambda: error("memory://", "no"), times=10**9)
    with pytest.raises(error):
        client.lock("x").acquire(timeout=SOON_S)
    assert backend.asked.count(kind) <= 2, "and makes no storm"
    backend.before = lambda request: None
    client.lock("x").acquire(timeout=SOON_S).release()


def test_open_fails_fast(backend: FaultyBackend, client: Client) -> None:
    backend.before = on("Open", cut, times=10**9)
    with pytest.raises(StoreUnavailable):
        client.open()


def test_open_that_hangs_raises_an_error_of_the_package(backend: FaultyBackend) -> None:
    """Each try may take the request timeout; all of them together twice that."""
    client = Client(backend, FAST)
    release = threading.Event()
    backend.before = lambda request: release.wait(SOON_S)
    with pytest.raises(StoreUnavailable):
        client.open()
    release.set()
    client.close()


def test_verify_and_release_in_an_outage(backend: FaultyBackend) -> None:
    client = Client(backend, FAST)
    grant = client.lock("x").acquire()
    backend.before = on("Check", cut, times=10**9)
    with pytest.raises(StoreUnavailable):
        grant.verify()
    backend.before = on("Withdraw", cut, times=10**9)
    assert grant.release(), "it was held; what is left is cleaned up behind"
    assert client.pending_cleanups == 1
    backend.before = lambda request: None
    cleaned(client)
    assert backend.server.contenders() == []
    client.close()


def test_an_outage_leaves_no_backlog_of_sessions_that_never_began(
    backend: FaultyBackend, client: Client
) -> None:
    """Or else what is interrupted afterwards would wait behind it to be withdrawn."""
    gone = threading.Event()
    tries = 200

    def outage(request: Any) -> None:
        if not gone.is_set():
            if backend.asked.count("Open") > tries:
                gone.set()
            raise cut()

    runtime = client._runtime
    runtime.retries = lambda: Retries(lambda _state: 0.0005, None, 0.0)  # type: ignore[method-assign]
    backend.before = outage
    client.lock("x").acquire(timeout=SOON_S).release()
    assert client.pending_cleanups < tries / 2
    cleaned(client)


# Interrupts.


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", ["Enqueue", "Watch", "Check"])
def test_an_interrupt_at_any_request_of_acquire_leaves_no_contender(
    backend: FaultyBackend, client: Client, kind: str, where: str
) -> None:
    other = Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    client.open()
    raised = threading.Event()

    def interrupt() -> KeyboardInterrupt:
        raised.set()
        return KeyboardInterrupt()

    fault = on(kind, interrupt)
    setattr(backend, where, fault)
    if kind == "Check":
        waiter = queued(backend, client)
        holder.release()
    else:
        waiter = Waiter(lambda: client.lock("x").acquire())
    with pytest.raises(KeyboardInterrupt):
        waiter.outcome()
    assert raised.is_set()
    holder.release()
    cleaned(client)
    assert backend.server.contenders() == []
    assert client.grants == []
    other.close()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", ["Probe", "Withdraw"])
def test_an_interrupt_of_try_and_release(
    backend: FaultyBackend, client: Client, kind: str, where: str
) -> None:
    client.open()
    setattr(backend, where, on(kind, KeyboardInterrupt))

    def both() -> None:
        grant = client.lock("x").try_acquire()
        assert grant is not None
        grant.release()

    with pytest.raises(KeyboardInterrupt):
        both()
    cleaned(client)
    assert backend.server.contenders() == []
    assert client.grants == []


@contextlib.contextmanager
def reported() -> Iterator[list[tuple[str, Any]]]:
    """Note the releases that are reported meanwhile, each with its token."""
    seen: list[tuple[str, Any]] = []
    stop = subscribe(lambda t: seen.append((t.event, t.token)) if t.event.endswith("released") else None)
    try:
        yield seen
    finally:
        stop()


@pytest.mark.parametrize("kind", ["Withdraw", "before"])
def test_a_release_that_is_interrupted_is_reported_once(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was not, or (of a re-entrant lock) where the lock was held on; spans of it never ended."""
    grant = client.lock("x").acquire()
    with reported() as seen:
        if kind == "Withdraw":
            backend.before = on("Withdraw", KeyboardInterrupt)
        else:
            monkeypatch.setattr(grant, "_withdrawal", once_interrupted(grant._withdrawal))
        with pytest.raises(KeyboardInterrupt):
            grant.release()
        assert not grant.release()
        client.close()
    assert seen == [("lock.released", grant.token)]


@pytest.mark.parametrize("behind", [False, True])
def test_of_a_multi_lock_each_part_and_the_whole_are_reported_once(
    backend: FaultyBackend, client: Client, behind: bool
) -> None:
    part, other = client.lock("x"), client.lock("y")
    grant = client.multilock(part, other).acquire()
    tokens = [grant[one].token for one in (other, part)]
    with reported() as seen:
        if behind:
            grant._release_behind()
        else:
            backend.before = on("Withdraw", KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                grant.release()
        client.close()
    assert seen == [*(("lock.released", token) for token in tokens), ("multilock.released", None)]


def test_an_entry_that_is_left_behind_reports_no_release_while_the_lock_is_held(client: Client) -> None:
    lock = client.rlock("x")
    outer = lock.acquire()
    inner = lock.acquire()
    with reported() as seen:
        inner._release_behind()
        assert (seen, outer.held, inner.held) == ([], True, False)
        outer._release_behind()
        outer._release_behind()
        client.close()
    assert seen == [("lock.released", outer.token)]


def test_an_interrupt_while_waiting(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    client.open()
    runtime = client._runtime
    make = runtime.call

    def call(*args: Any, **options: Any) -> Any:
        made = make(*args, **options)

        class Interrupted:
            def post(self, event: Event) -> None:
                pass

            def receive(self, at_most_s: float | None) -> Event | None:
                raise KeyboardInterrupt

        made.mailbox = Interrupted()
        return made

    monkeypatch.setattr(runtime, "call", call)
    with pytest.raises(KeyboardInterrupt):
        client.lock("x").acquire()
    monkeypatch.undo()
    cleaned(client)
    assert len(backend.server.contenders()) == 1
    holder.release()
    other.close()


def test_an_interrupt_before_the_grant_is_made(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the program's end and the caller: nobody would own it."""

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recipes.Lock._grant", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.lock("x").acquire()
    with pytest.raises(KeyboardInterrupt):
        client.lock("y").try_acquire()
    cleaned(client)
    assert backend.server.contenders() == []
    assert client.grants == []


def test_an_interrupt_before_the_grant_is_made_leaves_nothing_entered(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    with client.rlock("x") as outer:
        monkeypatch.setattr("recipes.RLock._grant", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.rlock("x").acquire()
        with pytest.raises(KeyboardInterrupt):
            client.rlock("y").acquire()
        monkeypatch.undo()
        assert client.grants == [outer]
        monkeypatch.setattr("recipes.rlock.Reentries.enter", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.rlock("z").acquire()
        monkeypatch.undo()
    assert client.grants == []
    cleaned(client)
    assert backend.server.contenders() == []
    for name in "xyz":
        client.rlock(name).acquire(timeout=1).release()


def test_who_ends_without_leaving_what_was_lost_is_forgotten(backend: FaultyBackend, client: Client) -> None:
    thread = threading.Thread(target=client.rlock("x").acquire)
    thread.start()
    thread.join()
    (grant,) = client.grants
    assert grant.held
    client.rlock("y").acquire().release()
    backend.server.remove(backend.server.contenders()[0].ref)
    assert not grant.verify()
    assert client._runtime.reentries
    with client.rlock("y") as other:
        assert [reentries.grants for reentries in client._runtime.reentries.values()] == [[other]]
    assert not client._runtime.reentries


def test_an_interrupt_that_the_program_never_saw(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It strikes in the interpreter itself, while the program stands still."""
    client.open()

    def struck(program: Any, call: Any) -> Any:
        op = program.send(None)
        del op
        call.session = client._runtime.state.session
        call.session.waiters.stand("id-1")
        call.ticket = Ticket("x", "lock", "id-1")
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("recipes._run.blocking.interpret", struck)
    with pytest.raises(KeyboardInterrupt):
        client.lock("x").acquire()
    monkeypatch.undo()
    cleaned(client)
    assert "Withdraw" in backend.asked


# Loss.


def lose(client: Client, reason: str = "revoked") -> None:
    """The store says that the session has ended, and the keepalive loop has told everybody."""
    client._runtime.session_gone(client._runtime.state.session, reason)  # type: ignore[arg-type]


def test_a_loss_is_told_by_event_callback_and_property(client: Client) -> None:
    grant = client.lock("x").acquire()
    told: list[Any] = []
    called = threading.Event()
    grant.lost.add_callback(lambda lost: (told.append(lost), called.set()))
    assert not grant.lost.is_set()
    lose(client)
    assert grant.lost.wait(SOON_S)
    assert (grant.held, grant.remaining, grant.lost_reason) == (False, 0.0, "revoked")
    assert called.wait(SOON_S)
    assert told == [grant]
    again = threading.Event()
    grant.lost.add_callback(lambda lost: again.set())
    assert again.wait(SOON_S), "at once if it is lost already"
    assert not grant.release()
    assert not grant.verify()
    with pytest.raises(LockLost, match="revoked"):
        grant.check()
    assert repr(grant) == f"<Grant of lock 'x' (token {grant.token}): lost>"


def test_a_callback_runs_in_a_thread_of_its_own_and_may_fail(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    grant = client.lock("x").acquire()
    names: list[str] = []
    done = threading.Event()

    def note(lost: Any) -> None:
        names.append(threading.current_thread().name)
        done.set()

    def broken(lost: Any) -> None:
        raise ZeroDivisionError

    grant.lost.add_callback(broken)
    grant.lost.add_callback(note)
    lose(client)
    assert done.wait(SOON_S)
    assert names == ["recipes-callbacks"]
    until_ended("recipes-callbacks", SOON_S)
    assert "a callback failed" in caplog.text


def test_a_release_is_no_loss(client: Client) -> None:
    grant = client.lock("x").acquire()
    told: list[Any] = []
    grant.lost.add_callback(told.append)
    waiter = Waiter(grant.lost.wait)
    grant.release()
    assert waiter.outcome() is False
    assert (grant.lost.is_set(), grant.lost_reason, told) == (False, None, [])
    with pytest.raises(LockLost, match="it was released"):
        grant.check()
    assert repr(grant) == f"<Grant of lock 'x' (token {grant.token}): released>"


def test_a_release_of_a_part_ends_the_wait_for_the_end_of_the_whole(backend: FaultyBackend) -> None:
    """It slept on for as long as the whole had been proven before."""
    with Client(backend, replace(SETTINGS, session_timeout_s=1000.0)) as client:
        part = client.lock("x")
        grant = client.multilock(part, client.lock("y")).acquire()
        waiter = Waiter(grant.lost.wait)
        assert eventually(lambda: bool(grant.lost._waiting), SOON_S)
        grant[part].release()
        assert waiter.outcome() is False
        grant.release()


def test_lost_wait_is_bounded(client: Client) -> None:
    grant = client.lock("x").acquire()
    assert grant.lost.wait(0.01) is False
    assert grant.lost.wait(0) is False
    for bad in (-1, True, float("nan")):
        with pytest.raises((ValueError, TypeError)):
            grant.lost.wait(bad)
    assert repr(grant).endswith("held>")


def test_lost_by_the_clock_before_anybody_tells(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped and goes on: no help from any thread."""
    grant = client.lock("x").acquire()
    now = client._runtime.now()
    monkeypatch.setattr(client._runtime, "now", lambda: now + 14.0)
    assert not grant.held
    assert grant.lost.is_set()
    assert grant.lost.wait()
    assert grant.lost_reason == "the session was not renewed in time"
    assert client.session.state == "lost"
    assert not grant.release()


REMOVALS = [("removed", "its contender was removed from the store"), ("session", "session")]


def remove(backend: FaultyBackend, client: Client, grant: Any, how: str) -> None:
    """The store has dropped it, and this client does not know yet."""
    if how == "removed":
        backend.server.remove(grant._hold.entry.ref)
    else:
        backend.server.end(client.session.id)


def test_with_a_clean_body_and_a_loss(client: Client) -> None:
    with pytest.raises(LockLost, match="revoked"), client.lock("x") as grant:  # noqa: PT012
        lose(client)
        assert grant.lost.wait(SOON_S)


def test_with_a_body_that_failed_and_a_loss(client: Client) -> Never:
    with pytest.raises(ZeroDivisionError) as raised, client.lock("x") as grant:  # noqa: PT012
        lose(client)
        grant.lost.wait(SOON_S)
        raise ZeroDivisionError
    assert raised.value.__notes__ == [f"lock 'x' (token {grant.token}) was lost before this: revoked"]


def test_with_a_body_that_failed(backend: FaultyBackend, client: Client) -> Never:
    with pytest.raises(ZeroDivisionError) as raised, client.lock("x"):
        raise ZeroDivisionError
    assert not hasattr(raised.value, "__notes__")
    assert backend.server.contenders() == []


def test_with_a_body_that_released(client: Client) -> None:
    with client.lock("x") as grant:
        grant.release()
    with client.lock("x").acquire(timeout=1) as grant:
        assert grant.release()


def test_with_is_a_stack_for_each_thread(backend: FaultyBackend, client: Client) -> None:
    lock = client.lock("x")
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            leave.wait(SOON_S)

    waiter = Waiter(hold)
    assert inside.wait(SOON_S)
    leave.set()
    with lock as grant:
        assert grant.held
        lock_of_another = client.lock("y")
        with lock_of_another, client.lock("z"):
            assert len(client.grants) == 3
    waiter.outcome()
    assert lock._entered == {}
    assert backend.server.contenders() == []


@pytest.mark.parametrize(("how", "reason"), REMOVALS)
def test_a_release_that_finds_it_gone_was_a_loss(
    backend: FaultyBackend, client: Client, how: str, reason: str
) -> None:
    grant = client.lock("x").acquire()
    told: list[Any] = []
    called = threading.Event()
    grant.lost.add_callback(lambda lost: (told.append(lost), called.set()))
    seen: list[str] = []
    leave = subscribe(lambda t: seen.append(t.event))
    remove(backend, client, grant, how)
    assert not grant.release()
    leave()
    assert (grant.held, grant.lost.is_set()) == (False, True)
    assert reason in (grant.lost_reason or "")
    assert called.wait(SOON_S)
    assert told == [grant]
    assert "lock.lost" in seen
    assert "lock.released" not in seen
    assert not grant.release()


@pytest.mark.parametrize(("how", "reason"), REMOVALS)
def test_with_a_clean_body_and_a_loss_that_shows_at_its_end(
    backend: FaultyBackend, client: Client, how: str, reason: str
) -> None:
    with pytest.raises(LockLost, match=reason), client.lock("x") as grant:
        remove(backend, client, grant, how)
    with pytest.raises(LockLost, match=reason), client.lock("x").acquire() as grant:  # noqa: PT012
        remove(backend, client, grant, how)
        assert not grant.release(), "by the body itself"


def test_lost_between_the_grant_and_the_body(client: Client, monkeypatch: pytest.MonkeyPatch) -> Never:
    lock = client.lock("x")
    acquire = lock._acquire

    def late(options: Any) -> Any:
        grant = acquire(options)
        lose(client)
        return grant

    monkeypatch.setattr(lock, "_acquire", late)
    with pytest.raises(LockLost, match="revoked"), lock:
        raise AssertionError("the body was entered")
    assert lock._entered == {}


def test_an_interrupt_as_the_body_is_entered_releases(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> Never:
    lock = client.lock("x")

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "_enter", interrupted)
    with pytest.raises(KeyboardInterrupt), lock:
        raise AssertionError("the body was entered")
    assert backend.server.contenders() == []


def entered(seats: Any) -> Iterator[Any]:
    with seats as grant:
        yield grant


def test_a_block_may_be_left_by_another_thread(backend: FaultyBackend, client: Client) -> None:
    lock = client.lock("x")
    begun = entered(lock)
    grant = next(begun)
    Waiter(begun.close).outcome()
    assert not grant.held
    assert backend.server.contenders() == []
    assert lock._entered == {}


def test_of_the_blocks_of_several_others_the_one_that_is_left_ends(client: Client) -> None:
    seats = client.semaphore("x", 2)
    begun = [entered(seats), entered(seats)]
    grants = [Waiter(partial(next, one)).outcome() for one in begun]
    for closed in (0, 1):
        begun[closed].close()
        assert [grant.held for grant in grants] == [False, not closed]
    assert seats._entered == {}


def adding(function: Callable[..., Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def called(grant: Any) -> Any:
        return function(grant, "more")

    return called


def test_a_block_of_another_that_is_left_amid_an_own_one_ends_alone(client: Client) -> None:
    seats = client.semaphore("x", 3)
    for stacked in (False, True):
        begun = entered_by_a_stack(seats) if stacked else entered(seats)
        theirs = Waiter(partial(next, begun)).outcome()
        with seats as mine:
            begun.close()
            assert (theirs.held, mine.held) == (False, True)
        assert not mine.held
    assert seats._entered == {}


def entered_by_a_stack(seats: Any) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(seats)


def test_only_a_block_that_was_entered_is_left(client: Client) -> None:
    seats = client.semaphore("x", 2)
    with pytest.raises(RuntimeError, match="semaphore 'x' was not entered by this thread or task"):
        seats.__exit__(None, None, None)
    begun = [entered(seats), entered(seats)]
    grants = [Waiter(partial(next, one)).outcome() for one in begun]
    with pytest.raises(RuntimeError, match="semaphore 'x' was not entered by this thread or task"):
        seats.__exit__(None, None, None)  # of which of the two?
    assert all(grant.held for grant in grants)
    for one in begun:
        one.close()


def test_between_two_sessions_the_last_one_is_lost(backend: FaultyBackend, client: Client) -> None:
    grant = client.lock("x").acquire()
    backend.before = on("Open", cut, times=10**9)
    leave_word = threading.Event()
    leave = subscribe(lambda t: leave_word.set() if t.event == "session.lost" else None)
    lose(client)
    assert grant.lost.wait(SOON_S)
    assert leave_word.wait(SOON_S)
    leave()
    assert (client.session.state, client.session.remaining) == ("lost", 0.0)
    backend.before = lambda request: None
    client.lock("x").acquire().release()
    assert client.session.state == "held"


def test_a_waiter_queues_again_when_the_session_is_lost(backend: FaultyBackend, client: Client) -> None:
    other = Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    waiter = queued(backend, client)
    again = threading.Event()
    leave = subscribe(lambda t: again.set() if (t.event, t.attempt) == ("lock.queued", 2) else None)
    lose(client)
    assert again.wait(SOON_S)
    leave()
    cleaned(client)
    assert len(backend.server.contenders()) == 2, "the one of the lost session is ended"
    holder.release()
    assert waiter.outcome().release()
    cleaned(client)
    assert backend.server.contenders() == []
    other.close()


def test_try_in_a_session_that_turns_out_to_have_ended(backend: FaultyBackend, client: Client) -> None:
    client.open()
    backend.server.end(client.session.id)
    grant = client.lock("x").try_acquire()  # on the next session
    assert grant is not None
    assert grant.held
    grant.release()


def test_verify(backend: FaultyBackend, client: Client) -> None:
    grant = client.lock("x").acquire()
    assert grant.verify()
    backend.server.remove(grant._hold.entry.ref)
    assert not grant.verify()
    assert not grant.held
    assert grant.lost_reason == "its contender was removed from the store"
    cleaned(client)


# What fits nothing.


@pytest.mark.parametrize("wrong", [None, 5, "work.terminate()"])
def test_what_cannot_be_called_back_is_refused_at_once(client: Client, wrong: Any) -> None:
    """It ended the session as a loss was to be told."""
    with client.lock("x") as grant:
        with pytest.raises(TypeError, match="a callback is a function"):
            grant.lost.add_callback(wrong)
        if wrong is not None:
            for option in ("on_queued", "on_position"):
                with pytest.raises(TypeError, match=f"{option} is a function"):
                    client.lock("y").acquire(**{option: wrong})
    assert client.session.state == "held"


def test_a_callback_that_nobody_would_await_is_refused(client: Client) -> None:
    async def stop(grant: Any) -> None:
        raise AssertionError

    with client.lock("x") as grant:
        with pytest.raises(TypeError, match="stop is a coroutine function"):
            grant.lost.add_callback(stop)
        with pytest.raises(TypeError, match=r"a callback is called with the grant, and .*missing a required"):
            grant.lost.add_callback(lambda grant, more: None)  # type: ignore[arg-type, misc]
        with pytest.raises(TypeError, match=r"on_position is called with the number .*too many"):
            client.lock("y").acquire(on_position=lambda: None)  # type: ignore[arg-type, misc]
        with pytest.raises(TypeError, match="stop is a coroutine function"):
            client.lock("y").acquire(on_queued=stop)
        for fits in (print, Mock(), Mock(spec=adding), adding(lambda grant, more: None), [].append):
            grant.lost.add_callback(fits)
    with pytest.raises(TypeError, match="stop is a coroutine function"):
        client.election("x").run(stop)
    with pytest.raises(TypeError, match="what a leader does is a function"):
        client.election("x").run(None)  # type: ignore[type-var]
    with pytest.raises(TypeError, match=r"what a leader does is called with the leadership, and .*too many"):
        client.election("x").run(lambda: None)  # type: ignore[arg-type, misc]
    assert client.election("x").leader() is None


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("how", ["with lock", "with grant"])
def test_a_grant_is_entered_once(client: Client, how: str, together: bool) -> None:
    """The end of the inner block gave it away inside the outer one."""
    lock: Any = client.multilock(client.lock("x"), client.lock("y")) if together else client.lock("x")
    with lock if how == "with lock" else lock.acquire() as grant:
        with pytest.raises(RuntimeError, match=r"lock 'x.* is entered already"), grant:
            raise AssertionError
        assert grant.held
    assert not grant.held


def test_of_two_threads_that_enter_a_grant_at_once_one_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant, refused = client.lock("x").acquire(), []
    enter = grant._enter

    def overtaken(owner: object) -> None:
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            refused.append(pool.submit(grant.__enter__).exception())
        enter(owner)

    monkeypatch.setattr(grant, "_enter", overtaken)
    with grant:
        assert grant.held
        assert "is entered already" in str(refused[0])
    assert not grant.held


def test_what_its_owner_acquires_again_as_another_thread_leaves_stays_known(client: Client) -> None:
    lock = client.rlock("x")
    grant = lock.acquire()
    runtime = client._runtime
    ((key, left),) = runtime.reentries.items()
    other = Mock()

    class Overtaken(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            found = super().get(key, default)
            self[key] = other
            return found

    runtime.reentries = Overtaken({key: left})
    lock._left(left)
    assert runtime.reentries == {key: other}
    runtime.reentries = {}
    assert grant.release()


# Closing.


def test_close_releases_ends_the_session_and_can_be_repeated(backend: FaultyBackend) -> None:
    client = Client(backend, SETTINGS)
    grant = client.lock("x").acquire()
    client.close()
    client.close()
    assert not grant.held
    assert (grant.lost.is_set(), grant.release()) == (False, False)
    assert backend.server.sessions == {}
    assert (client.session.state, client.grants) == ("closed", [])
    for use in (client.open, client.lock("x").acquire, client.lock("x").try_acquire):
        with pytest.raises(ClientClosed):
            use()


def test_close_before_anything_was_used(backend: FaultyBackend) -> None:
    Client(backend, SETTINGS).close()
    assert backend.asked == []


def test_close_is_within_its_time_with_the_store_dead(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._run.blocking.CLOSE_WITHIN_S", 0.05)
    client = Client(backend, SETTINGS)
    client.lock("x").acquire()
    backend.before = on("End", cut, times=10**9)
    client.close()
    assert backend.closed_connections == 1


def test_what_was_held_is_reported_before_the_session_is_ended_on_the_store(backend: FaultyBackend) -> None:
    """At exit a store that is silent has no more time than that takes."""
    client = Client(backend, SETTINGS)
    grant = client.lock("x").acquire()
    with reported() as seen:
        by_then: list[Any] = []
        backend.before = lambda request: by_then.extend(seen) if type(request.op).__name__ == "End" else None
        client._runtime.leave()
    assert by_then == seen == [("lock.released", grant.token)]


def but_that_of(struck: HeldState) -> Callable[..., bool]:
    """Do as ``HeldState.release``, but for an interrupt amid that of one."""
    release = HeldState.release

    def released(hold: HeldState, *args: Any) -> bool:
        if hold is struck:
            raise KeyboardInterrupt
        return release(hold, *args)

    return released


RELEASED_AND_LOST = {
    "as the session is ended": (2, 0),
    "as what is held is released": (0, 2),
    "as the second is released": (1, 1),
    "as it begins": (0, 2),
    "before it asks": (2, 0),
}


@pytest.mark.parametrize("at", RELEASED_AND_LOST)
def test_a_close_that_is_interrupted_ends_the_session_behind(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    client = Client(backend, SETTINGS)
    grants = [client.lock(name).acquire() for name in "xy"]
    struck = Mock(side_effect=KeyboardInterrupt)
    seen: list[str] = []
    stop = subscribe(lambda t: seen.append(t.event))
    with monkeypatch.context() as patch:
        match at:
            case "as the session is ended":
                backend.before = on("End", KeyboardInterrupt)
            case "as what is held is released":
                patch.setattr(HeldState, "release", struck)
            case "as the second is released":
                patch.setattr(HeldState, "release", but_that_of(grants[1]._hold))
            case "as it begins":
                patch.setattr(BlockingRuntime, "holds", property(struck))
            case "before it asks":
                patch.setattr(client._runtime, "call", once_interrupted(client._runtime.call))
        with pytest.raises(KeyboardInterrupt):
            client.close()
    assert [grant.held for grant in grants] == [False, False]
    assert client._runtime.state.session is None
    client._runtime.leave()
    cleaned(client)
    client.close()
    stop()
    assert (seen.count("lock.released"), seen.count("lock.lost")) == RELEASED_AND_LOST[at]
    assert (backend.server.sessions, backend.server.contenders()) == ({}, [])
    assert eventually(lambda: backend.closed_connections == 1, SOON_S)


def test_the_exit_ends_what_an_interrupt_kept_close_from_ending(backend: FaultyBackend) -> None:
    client = Client(backend, replace(SETTINGS, session_timeout_s=100 * SOON_S))  # nor does it renew by then
    client.lock("x").acquire().release(wait=False)
    cleaned(client)
    client.lock("x").acquire()
    client._runtime.state.closed = "closed"
    client.close()
    threads = (client._runtime._keepalive, client._runtime._cleaner)
    client._runtime.leave()
    assert backend.server.sessions == {}
    for thread in threads:
        assert thread is not None
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_only_close_ends_the_session_that_it_ends(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that renews ends then too, and took the session for one that had begun too late."""
    client = Client(backend, SETTINGS)
    grants = [client.lock(name).acquire() for name in "xy"]
    losses: list[Any] = []
    for grant in grants:
        grant.lost.add_callback(losses.append)
    runtime, release = client._runtime, HeldState.release

    def slowly(hold: HeldState, *args: Any) -> bool:
        runtime.state.wake_keepalive()
        assert runtime._keepalive is not None
        runtime._keepalive.join(SOON_S)
        return release(hold, *args)

    monkeypatch.setattr(HeldState, "release", slowly)
    client.close()
    assert backend.asked.count("End") == 1
    assert [grant.lost_reason for grant in grants] == [None, None]
    assert losses == []


def test_close_ends_who_waits_in_the_queue(backend: FaultyBackend, client: Client) -> None:
    other = Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    waiter = queued(backend, client)
    client.close()
    with pytest.raises(ClientClosed):
        waiter.outcome()
    holder.release()
    other.close()
    assert backend.server.contenders() == []


ASKED_BY_WAITERS = ("Watch", "Look", "Check")


@pytest.mark.parametrize("on_session_lost", ["requeue", "fail"])
def test_close_ends_who_asks_the_store_as_it_waits(backend: FaultyBackend, on_session_lost: Any) -> None:
    client, other = Client(backend, SETTINGS), Client(backend, SETTINGS)
    holder = other.lock("x").acquire()
    waits, asks, go_on = threading.Event(), threading.Event(), threading.Event()

    def look(request: Any) -> None:
        if type(request.op).__name__ in ASKED_BY_WAITERS:
            asks.set()
            go_on.wait(SOON_S)

    seen: list[str] = []
    stop = subscribe(lambda t: seen.append(t.event))
    lock = client.lock("x")
    waiter = Waiter(lambda: lock.acquire(on_session_lost=on_session_lost, on_queued=lambda _: waits.set()))
    assert waits.wait(SOON_S)
    backend.before = look
    holder.release()
    assert asks.wait(SOON_S)
    client.close()
    go_on.set()
    with pytest.raises(ClientClosed):
        waiter.outcome()
    stop()
    other.close()
    assert [one for one in seen if one in ("lock.requeued", "lock.cancelled")] == ["lock.cancelled"]


def test_close_ends_who_waits_for_a_session(backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store hangs, and whoever waits for it must not hang for ever."""
    client = Client(backend, SETTINGS)
    opening, go_on = threading.Event(), threading.Event()

    def hang(request: Any) -> None:
        if type(request.op).__name__ == "Open":
            opening.set()
            go_on.wait(SOON_S)

    backend.before = hang
    waiter = Waiter(client.lock("x").acquire)
    assert opening.wait(SOON_S)
    with client._runtime._starting:
        keepalive = client._runtime._keepalive
    assert keepalive is not None
    with monkeypatch.context() as patch:
        patch.setattr("recipes._run.blocking.CLOSE_WITHIN_S", 0.02)
        client.close()
    with pytest.raises(ClientClosed):
        waiter.outcome()
    go_on.set()
    keepalive.join(SOON_S)
    assert not keepalive.is_alive(), "the keepalive loop ends with its client"
    assert backend.server.sessions == {}, "and so does a session that began too late"
    assert backend.closed_connections >= 1


def test_close_stops_a_keepalive_loop_that_tries_in_vain(backend: FaultyBackend) -> None:
    client = Client(backend, SETTINGS)
    backend.before = on("Open", cut, times=10**9)
    with pytest.raises(StoreUnavailable):
        client.open()
    keepalive = client._runtime._keepalive
    client.close()
    assert keepalive is not None
    keepalive.join(SOON_S)
    assert not keepalive.is_alive()


def test_jobs_that_come_after_closing_are_done_too(backend: FaultyBackend) -> None:
    client = Client(backend, SETTINGS)
    client.open()
    runtime = client._runtime
    session = runtime.state.session
    assert session is not None
    client.close()
    for _ in range(3):
        runtime.schedule(Job(session, None, within_s=1.0))
        cleaned(client)
        assert client.pending_cleanups == 0


def test_a_job_that_cannot_be_done_is_logged_and_dropped(
    backend: FaultyBackend, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    grant = client.lock("x").acquire()
    backend.before = on("Withdraw", ZeroDivisionError, times=2)
    with pytest.raises(ZeroDivisionError):
        grant.release()
    cleaned(client)
    assert "could not be withdrawn" in caplog.text


def test_a_session_that_cannot_be_ended_holds_up_no_withdrawal(
    backend: FaultyBackend, client: Client
) -> None:
    client.open()
    ending, go_on, withdrawn = threading.Event(), threading.Event(), threading.Event()

    def hang(request: Any) -> None:
        if type(request.op).__name__ == "End":
            ending.set()
            go_on.wait(3 * SOON_S)

    interrupt = on("Enqueue", KeyboardInterrupt)

    def after(request: Any) -> None:
        if type(request.op).__name__ == "Withdraw":
            withdrawn.set()
        interrupt(request)

    backend.before, backend.after = hang, after
    lose(client)
    assert ending.wait(SOON_S)
    with pytest.raises(KeyboardInterrupt):
        client.lock("x").acquire()
    in_time = withdrawn.wait(SOON_S)
    go_on.set()
    assert in_time, "it waits behind the session's end"
    cleaned(client)


def test_a_ticket_that_is_refused_goes_behind_the_others(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._programs.cleaner.REFUSED_PAUSE_S", 0.005)
    first, second = client.lock("x").acquire(), client.lock("y").acquire()
    withdrawn: list[str] = []
    backend.before = refusing("x", withdrawn)
    assert first.release()
    assert second.release()
    cleaned(client)
    assert withdrawn[-1] == "x", "asked until it was done"
    assert "y" in withdrawn
    assert backend.server.contenders() == []


def test_what_is_refused_keeps_no_other_job_waiting(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._programs.cleaner.REFUSED_PAUSE_S", 3600.0)
    grants = [client.lock(name).acquire() for name in "abcx"]

    def refuse(request: Any) -> None:
        if type(request.op).__name__ == "Withdraw" and "x" not in request.op.ticket.queue:
            raise StoreRefused("memory://", "no")

    backend.before = refuse
    for grant in grants[:3]:
        assert grant.release()
    assert eventually(lambda: len(client._runtime.refused) == 3, SOON_S)
    assert grants[3].release(wait=False)
    assert eventually(lambda: len(backend.server.contenders()) == 3, SOON_S)
    backend.before = lambda request: None
    lose(client)
    cleaned(client)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_cleaner_that_somebody_ends_is_replaced(backend: FaultyBackend, client: Client) -> None:
    backend.before = on("Withdraw", SystemExit)
    assert client.lock("x").acquire().release(wait=False)
    assert eventually(lambda: not client._runtime._cleans(), SOON_S)
    assert len(backend.server.contenders()) == 1
    assert client.lock("y").acquire().release(wait=False)
    cleaned(client)
    assert backend.server.contenders() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_cleaner_that_somebody_ends_amid_its_only_job_is_replaced_as_the_session_is_renewed(
    backend: FaultyBackend, client: Client
) -> None:
    backend.before = on("Withdraw", SystemExit)
    assert client.lock("x").acquire().release(wait=False)
    assert eventually(lambda: not client._runtime._cleans(), SOON_S)
    client._runtime.renewing()
    cleaned(client)
    assert backend.server.contenders() == []


def test_the_exit_ends_a_session_for_which_no_thread_could_be_started(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(backend, SETTINGS)
    client.lock("x").acquire()
    backend.before = on("End", KeyboardInterrupt)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(KeyboardInterrupt):
            client.close()
    assert len(backend.server.sessions) == 1
    client._runtime.leave()
    assert backend.server.sessions == {}


def test_where_no_thread_can_be_started_a_call_says_its_own_error_and_the_cleaner_comes_later(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        if thread.name == "recipes-cleaner":
            raise RuntimeError("can't start new thread")
        really(thread)

    other, really = Client(backend, SETTINGS), threading.Thread.start
    holder = other.lock("x").acquire()
    client.open()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(LockTimeout):
            client.lock("x").acquire(timeout=0.5)
    assert len(backend.server.contenders()) == 2
    client._runtime.renewing()
    cleaned(client)
    assert len(backend.server.contenders()) == 1
    assert holder.release()
    other.close()


def test_a_refused_ticket_does_not_keep_the_cleaner_of_a_closed_client(backend: FaultyBackend) -> None:
    client = Client(backend, SETTINGS)
    runtime = client._runtime
    grant = client.lock("x").acquire()
    settling, told = threading.Event(), threading.Event()
    settle, stop = runtime._settle, runtime._stop_threads

    def refused(job: Job) -> bool:
        if settling.is_set():
            return settle(job)
        settling.set()
        told.wait(SOON_S)  # until the cleaner's queue holds the word that it may go
        return False

    def stop_in_the_middle(*, waits: bool) -> None:
        assert waits
        runtime._jobs.put(None)
        told.set()

    runtime._settle = refused  # type: ignore[method-assign]
    runtime._stop_threads = stop_in_the_middle  # type: ignore[method-assign]
    backend.before = on("Withdraw", lambda: StoreRefused("memory://", "no"))
    assert grant.release()
    assert settling.wait(SOON_S)
    cleaner = runtime._cleaner
    assert cleaner is not None
    client.close()
    cleaner.join(SOON_S)
    assert not cleaner.is_alive()
    assert client.pending_cleanups == 0
    stop(waits=True)


def test_no_thread_stays_behind(backend: FaultyBackend) -> None:
    before = set(threading.enumerate())
    client = Client(backend, SETTINGS)
    grant = client.lock("x").acquire()
    grant.lost.add_callback(lambda lost: None)
    lose(client)
    assert grant.lost.wait(SOON_S)
    client.close()
    assert eventually(lambda: set(threading.enumerate()) <= before, SOON_S), threading.enumerate()


def test_the_connection_may_tell_of_the_end_from_any_thread(backend: FaultyBackend, client: Client) -> None:
    grant = client.lock("x").acquire()
    teller = threading.Thread(target=backend.on_ends[0], args=("expired, said the server",))
    teller.start()
    teller.join()
    assert not grant.held
    assert grant.lost.wait(SOON_S)
    assert grant.lost_reason == "expired, said the server"
    backend.on_ends[0]("and again")
    assert grant.lost_reason == "expired, said the server"


# A keepalive loop that fails.


def test_a_keepalive_loop_that_fails_gives_the_session_up_and_is_replaced(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = client.lock("x").acquire()
    first = client.session.id

    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise ArithmeticError("a mistake of ours")

    monkeypatch.setattr("recipes._programs.lease.SessionClock.on_missed", broken)
    monkeypatch.setattr("recipes._run.blocking.KEEPALIVE_PAUSE_S", 0.005)
    backend.before = on("Renew", cut, times=1)
    client._runtime.state.session.clock.due = 0.0
    client._runtime.state.wake_keepalive()
    assert grant.lost.wait(SOON_S)
    assert "ArithmeticError" in (grant.lost_reason or "")
    assert not grant.held
    with client.lock("x").acquire(timeout=SOON_S) as again:
        assert again.token > grant.token
    assert client.session.id != first


def test_a_mistake_in_opening_a_session_is_told_and_tried_again(
    backend: FaultyBackend, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("recipes._run.blocking.KEEPALIVE_PAUSE_S", 0.005)
    backend.before = on("Open", ZeroDivisionError, times=10**9)
    with pytest.raises(StoreUnavailable, match="renewing failed: ZeroDivisionError"):
        client.open()
    with pytest.raises(LockTimeout) as raised:
        client.lock("x").acquire(timeout=0.5)  # long enough to be notified of the first failure
    assert isinstance(raised.value.__cause__, StoreUnavailable)
    waiter = Waiter(lambda: client.lock("x").acquire(timeout=None))
    backend.before = on("Open", ZeroDivisionError, times=3)
    assert waiter.outcome().release()
    assert "the keepalive loop of the session failed" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_keepalive_loop_that_somebody_ended_gives_the_session_up_and_the_next_call_starts_another(
    backend: FaultyBackend, client: Client
) -> None:
    grant = client.lock("x").acquire()
    first, keepalive = client.session.id, client._runtime._keepalive
    backend.before = on("Renew", SystemExit)
    client._runtime.state.session.clock.due = 0.0
    client._runtime.state.wake_keepalive()
    assert grant.lost.wait(SOON_S)
    assert grant.lost_reason == "the thread that renews was ended"
    keepalive.join(SOON_S)
    again = client.lock("x").acquire(timeout=SOON_S)
    assert client.session.id != first
    assert client._runtime._keepalive is not keepalive
    assert again.release()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_waits_as_the_keepalive_loop_is_ended_queues_again_under_another(
    backend: FaultyBackend, client: Client
) -> None:
    client.lock("x").acquire()
    waiter, keepalive = queued(backend, client), client._runtime._keepalive
    backend.before = on("Renew", SystemExit)
    client._runtime.state.session.clock.due = 0.0
    client._runtime.state.wake_keepalive()
    assert waiter.outcome().release()
    keepalive.join(SOON_S)  # its end is this test's, and not told amid the next


def test_close_does_not_wait_for_a_keepalive_loop_that_pauses(backend: FaultyBackend, client: Client) -> None:
    backend.before = on("Open", ZeroDivisionError, times=10**9)
    with pytest.raises(StoreUnavailable):
        client.open()
    keepalive = client._runtime._keepalive
    assert keepalive is not None
    client.close()
    keepalive.join(SOON_S)
    assert not keepalive.is_alive()


def test_a_signal_handler_may_close_the_client_while_a_thread_is_started(client: Client) -> None:
    """It runs in the thread that it struck, within whatever that was doing."""

    def struck() -> None:
        with client._runtime._starting:
            client.close()

    Waiter(struck).outcome()
    assert client.session.state == "closed"


def test_a_mailbox_gives_every_event_in_order() -> None:
    box, first, second, third = ThreadMailbox(), Event(), Event(), Event()
    assert box.receive(0.0) is None
    box.post(first)
    box.post(second)
    assert box.receive(0.0) is first
    assert box.receive(0.0) is second, "one ring was for both"
    assert box.receive(0.0) is None
    box.post(third)
    assert box.receive(0.0) is third


# In a running event loop.


def test_use_in_a_running_event_loop_is_warned_of_once_at_the_users_line() -> None:
    async def use(client: Client) -> int:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            lock = client.lock("x")
            with lock as grant:
                line = inspect.currentframe()
                assert line is not None
                number = line.f_lineno - 3
                assert grant.held
            with lock:
                pass
        (warned,) = seen
        assert warned.category is RuntimeWarning
        assert "connect_async" in str(warned.message)
        assert (Path(warned.filename).name, warned.lineno) == ("test_blocking.py", number)
        return 1

    client = Client(FaultyBackend(), SETTINGS)
    assert asyncio.run(use(client)) == 1
    client.close()


def test_use_in_a_thread_beside_a_running_event_loop_is_not_warned_of() -> None:
    async def use(client: Client) -> None:
        grant = await asyncio.to_thread(client.lock("x").acquire)
        assert grant.held
        await asyncio.to_thread(client.close)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use(Client(FaultyBackend(), SETTINGS)))
