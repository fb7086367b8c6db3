from __future__ import annotations

import copy
import inspect
import json
import pickle
import traceback
from typing import Any

import pytest

from recipes import errors
from recipes.errors import (
    AlreadyJoined,
    BarrierBroken,
    BarrierMismatch,
    ClientClosed,
    Closed,
    LatchMismatch,
    LockError,
    LockLost,
    LockTimeout,
    OutcomeUnknown,
    QueueFull,
    RecipesError,
    ReentrantCall,
    SessionLost,
    StaleToken,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
    StoreUntrusted,
    TooWeak,
    UpgradeError,
    WouldDeadlock,
)

EXAMPLES: list[tuple[RecipesError, str]] = [
    (
        LockTimeout("a/b", 2.5),
        (
            "lock 'a/b' was not acquired within 2.5 s (the store had not answered yet); "
            "allow more time, or look at who holds it"
        ),
    ),
    (
        LockTimeout("a/b", 2.5, 3),
        (
            "lock 'a/b' was not acquired within 2.5 s (at least 3 ahead when last looked); "
            "allow more time, or look at who holds it"
        ),
    ),
    (
        AlreadyJoined("workers", "a", 2.5, 1),
        (
            "group 'workers' has a member 'a', which did not leave within 2.5 s; a crashed one goes with its "
            "session, so allow more than the session timeout, or join under another id"
        ),
    ),
    (
        BarrierBroken("start", 3, "a party that waited has gone"),
        (
            "generation 3 of barrier 'start' is broken: a party that waited has gone; "
            "all parties have to come again"
        ),
    ),
    (
        BarrierMismatch("start", 4, 8),
        (
            "barrier 'start' is used for 8 parties, and not for 4; "
            "name the same number everywhere, or change it while nothing uses the barrier"
        ),
    ),
    (
        LockLost("x", 7, "revoked"),
        (
            "lock 'x' (token 7) is no longer held: revoked; "
            "another client may hold it now, so stop, and acquire it again"
        ),
    ),
    (
        LockTimeout("x", 2.5, 3, recipe="election"),
        (
            "election 'x' was not won within 2.5 s (at least 3 ahead when last looked); "
            "allow more time, or look at who holds it"
        ),
    ),
    (
        LockLost("x", None, "revoked", recipe="semaphore"),
        (
            "semaphore 'x' is no longer held: revoked; "
            "another client may hold it now, so stop, and acquire it again"
        ),
    ),
    (
        LatchMismatch("ready", 3, 4),
        (
            "latch 'ready' was made to be counted down 4 times, not 3; "
            "name the same count everywhere, or take another name"
        ),
    ),
    (
        OutcomeUnknown("etcd://h:1", "no answer", recipe="counter", name="orders"),
        (
            "it is not known whether counter 'orders' was written on etcd://h:1: no answer; "
            "read it before you write it again"
        ),
    ),
    (
        LockLost("x", 7, "revoked", recipe="election"),
        (
            "election 'x' (token 7) is no longer held: revoked; "
            "another client may hold it now, so stop, and campaign again"
        ),
    ),
    (
        WouldDeadlock("x", 7),
        (
            "this thread or task already holds lock 'x' (token 7) and would wait for itself; "
            "release that grant first, use try_acquire(), or acquire it by client.rlock() both times"
        ),
    ),
    (
        WouldDeadlock("x", 7, recipe="rwlock"),
        (
            "this thread or task already holds lock 'x' (token 7) and would wait for itself; "
            "release that grant first, or use try_acquire()"
        ),
    ),
    (
        WouldDeadlock("x", None, recipe="semaphore"),
        (
            "this thread or task already holds semaphore 'x' and would wait for itself; "
            "release that grant first, or have each thread or task acquire what it uses, "
            "or do not wait (timeout=0)"
        ),
    ),
    (
        UpgradeError("x", 7),
        (
            "this thread or task holds lock 'x' shared (token 7) and would wait for itself to hold it "
            "exclusively; release that grant first, then read again what you decided by"
        ),
    ),
    (
        QueueFull("x", 2, 3),
        (
            "lock 'x' has no room for one more waiter: 3 ahead, and max_waiters is 2; "
            "nothing was left in the queue, so try again later"
        ),
    ),
    (
        QueueFull("x", 2, 3, recipe="group"),
        (
            "group 'x' has no room for one more waiter: 3 ahead, and max_waiters is 2; "
            "nothing was left in the queue, so try again later"
        ),
    ),
    (
        SessionLost("revoked", "x", recipe="group"),
        "the place in the queue of group 'x' is gone: revoked; join again",
    ),
    (SessionLost("revoked", "x"), "the place in the queue of lock 'x' is gone: revoked; acquire it again"),
    (SessionLost("revoked"), "the session with the store has ended: revoked; the next call opens another"),
    (Closed(), "what is asked for the next was closed, so there is nothing more; begin anew"),
    (ClientClosed(), "this client is closed; make another with connect() or connect_async()"),
    (
        ReentrantCall(),
        (
            "a signal handler or finalizer made this call amid a call that it interrupted; "
            "set a flag there, or make the call in another thread"
        ),
    ),
    (
        TooWeak("sqlite://", ("many_machines",), ("zookeeper://", "etcd://")),
        "sqlite:// does not give many_machines; use zookeeper:// or etcd://",
    ),
    (
        StaleToken("reports", 5, 7),
        (
            "'reports' refused token 5: it has seen 7, of a later holder; "
            "stop, acquire the lock again, and read again what you decided by"
        ),
    ),
    (StoreError("h:1", "odd"), "h:1: odd"),
    (StoreUnavailable("h:1", "cut"), "no answer from h:1: cut; check that it runs and can be reached"),
    (
        StoreTimeout("x", 2.5, 3, silent=StoreUnavailable("h:1", "cut"), recipe="semaphore"),
        (
            "semaphore 'x' was not acquired within 2.5 s: no answer from h:1 (cut); "
            "check that the store runs and can be reached"
        ),
    ),
    (StoreRefused("h:1", "no"), "h:1 refused: no; asking again will not help"),
    (
        StoreUntrusted("h:1", "expired"),
        "no TLS with h:1: expired; check the certificates, tls_ca= and the host in the URL",
    ),
    (
        StoreDenied("h:1", "who?"),
        "h:1 denied access: who?; check username, password and what they permit",
    ),
    (StoreFull("h:1", "disk"), "h:1 is full: disk; free space there, then try again"),
]
each = pytest.mark.parametrize(("error", "message"), EXAMPLES, ids=lambda x: type(x).__name__)


def test_every_error_has_an_example() -> None:
    concrete = {getattr(errors, name) for name in errors.__all__} - {RecipesError, LockError}
    assert {type(error) for error, _ in EXAMPLES} == concrete


@each
def test_messages_say_what_to_do_next(error: Any, message: str) -> None:
    assert str(error) == message
    assert repr(error) == f"{type(error).__name__}({message!r})"


@each
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_can_be_pickled(error: Any, message: str, protocol: Any) -> None:
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert str(back) == message
    assert str(copy.copy(error)) == str(copy.deepcopy(error)) == message


@each
def test_the_message_survives_where_only_args_are_kept(error: Any, message: str) -> None:
    """As in the results of Celery in JSON: it makes an error of these, or says which could not be made."""
    assert error.args == (message,)
    assert all(message in copied.args for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)))
    kept = json.loads(json.dumps(error.args))
    try:
        back = type(error)(*kept)
    except TypeError:
        back = Exception(f"{type(error)}({kept})")
    assert message in str(back)
    if not vars(error):
        assert type(back) is type(error)
        assert str(back) == message


def test_bases_have_what_they_are_given() -> None:
    for kind in (RecipesError, LockError):
        assert kind().args == ("",)
        error = pickle.loads(pickle.dumps(kind("mine")))
        assert (str(error), error.args) == ("mine", ("mine",))


def test_args_can_be_replaced() -> None:
    for error, message in EXAMPLES:
        other = copy.copy(error)
        other.args = ("mine", 7)
        assert other.args == ("mine", 7)
        assert str(other) == message
        assert error.args == (message,)


@each
def test_notes_can_be_pickled(error: Any, message: str) -> None:
    noted = pickle.loads(pickle.dumps(error))
    noted.add_note("mine")
    back = pickle.loads(pickle.dumps(noted))
    assert back.__notes__ == copy.copy(noted).__notes__ == ["mine"]
    name = f"recipes.errors.{type(error).__name__}"
    assert traceback.format_exception_only(back) == [f"{name}: {message}\n", "mine\n"]


def test_the_tree_is_the_one_that_is_drawn() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        bare = line.lstrip(" │├└─")
        name = bare.split(" ")[0]
        if name in errors.__all__:
            drawn.append((len(line) - len(bare), name))
    assert sorted(name for _, name in drawn) == sorted(errors.__all__)
    above: list[tuple[int, str]] = []
    for depth, name in drawn:
        while above and above[-1][0] >= depth:
            above.pop()
        if above:
            assert getattr(errors, above[-1][1]) in getattr(errors, name).__bases__
        above.append((depth, name))


def test_an_error_of_an_earlier_version_is_of_a_lock() -> None:
    """It was pickled without saying of what it is."""
    error = LockLost("x", 7, "revoked")
    del error.__dict__["recipe"]
    back = pickle.loads(pickle.dumps(error))
    assert back.recipe == "lock"
    assert str(back).startswith("lock 'x' (token 7)")


def test_they_are_what_callers_of_the_standard_library_expect() -> None:
    assert issubclass(LockTimeout, TimeoutError)
    assert issubclass(StoreUnavailable, ConnectionError)
    assert issubclass(StoreTimeout, LockTimeout)
    assert issubclass(StoreTimeout, StoreUnavailable)
    assert not issubclass(LockTimeout, StoreUnavailable)
    assert not issubclass(StoreRefused, ConnectionError)
    assert not issubclass(SessionLost, StoreError)


@each
def test_facts_are_declared_attributes(error: Any, message: str) -> None:
    facts = {name for name in vars(error) if not name.startswith("__")}
    declared = {name for kind in type(error).__mro__ for name in inspect.get_annotations(kind)}
    assert facts <= declared
