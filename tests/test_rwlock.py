"""The faces of the read-write lock: who is refused at once, and what its objects say."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import recipes
from recipes import LockLost, LockTimeout, UpgradeError, WouldDeadlock
from tests.contract.faces import FACES, Face
from tests.run.test_blocking import SOON_S

SIDES = {
    "reader": lambda client: client.rwlock("x").reader,
    "writer": lambda client: client.rwlock("x").writer,
    "lock": lambda client: client.lock("x"),
}
REFUSED = [
    (["reader"], "reader", None),
    (["reader"], "writer", UpgradeError),
    (["reader"], "lock", UpgradeError),
    (["reader", "reader"], "writer", UpgradeError),
    (["reader", "reader"], "reader", None),
    (["writer"], "reader", WouldDeadlock),
    (["writer"], "writer", WouldDeadlock),
    (["writer"], "lock", WouldDeadlock),
    (["lock"], "reader", WouldDeadlock),
    (["lock"], "writer", WouldDeadlock),
    (["downgraded"], "reader", None),
    (["downgraded"], "writer", UpgradeError),
    (["downgraded"], "lock", UpgradeError),
    (["downgraded", "reader"], "writer", UpgradeError),
    (["downgraded", "reader"], "reader", None),
]


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest) -> Any:
    one = FACES[request.param]()
    yield one
    one.close()


@pytest.fixture
def client(face: Face) -> Any:
    one = face.connect("memory://")
    yield one
    face.do(one.close)


def hold(face: Face, client: Any, what: str) -> Any:
    lock = SIDES["writer" if what == "downgraded" else what](client)
    grant = face.do(lambda: lock.acquire(timeout=SOON_S))
    if what == "downgraded":
        face.do(grant.downgrade)
    return grant


@pytest.mark.parametrize(("held", "wanted", "refused"), REFUSED)
def test_who_would_wait_for_itself_is_told_so_at_once(
    face: Face, client: Any, held: list[str], wanted: str, refused: Any
) -> None:
    grants = [hold(face, client, what) for what in held]
    lock = SIDES[wanted](client)
    if refused is None:
        assert face.do(lambda: lock.acquire(timeout=SOON_S)).held
        return
    with pytest.raises(refused) as told:
        face.do(lock.acquire)  # it would wait for ever
    assert type(told.value) is refused
    assert (told.value.lock, told.value.token) == ("x", grants[-1].token)
    assert face.do(lock.try_acquire) is None, "what never waits is never refused"
    assert all(grant.held for grant in grants)
    for grant in grants:
        assert face.do(grant.release)
    assert face.do(lambda: lock.acquire(timeout=SOON_S)).held


def test_another_owner_waits(face: Face, client: Any) -> None:
    grant = hold(face, client, "reader")
    writer = SIDES["writer"](client)
    other = face.start(lambda: writer.acquire(timeout=0.05))
    assert isinstance(other.error(), LockTimeout)
    waiting = face.start(lambda: writer.acquire(timeout=SOON_S))
    assert not waiting.done
    face.do(grant.release)
    assert waiting.result().held


def test_another_lock_and_a_grant_that_is_lost_refuse_nobody(face: Face, client: Any) -> None:
    hold(face, client, "reader")
    assert face.do(client.rwlock("y").writer.acquire).held
    other = face.connect("memory://")
    try:
        lost = hold(face, other, "reader")
        lost._hold.lose("gone")
        with pytest.raises(LockTimeout):  # its contender is still there
            face.do(lambda: SIDES["writer"](other).acquire(timeout=0.05))
    finally:
        face.do(other.close)


def test_reading_again_behind_a_writer_that_waits_leaves_nothing(face: Face, client: Any) -> None:
    """Only waiting shows it; the contender that was made is withdrawn."""
    grant = hold(face, client, "reader")
    queued = threading.Event()
    forget = recipes.events.subscribe(lambda told: told.event == "lock.queued" and queued.set())
    try:
        writing = face.start(SIDES["writer"](client).acquire)
        assert queued.wait(SOON_S)
    finally:
        forget()
    with pytest.raises(WouldDeadlock) as told:
        face.do(SIDES["reader"](client).acquire)
    assert type(told.value) is WouldDeadlock
    assert client.grants == [grant]
    face.do(grant.release)
    assert writing.result().held


def test_a_grant_downgrades_while_it_is_held(face: Face, client: Any) -> None:
    grant = hold(face, client, "downgraded")
    assert (grant.mode, grant.held) == ("shared", True)
    assert face.do(grant.downgrade) is None
    assert face.do(grant.release)
    with pytest.raises(LockLost, match="it was released"):
        face.do(grant.downgrade)
    assert not hasattr(hold(face, client, "reader"), "downgrade")


def test_what_its_objects_say(face: Face, client: Any) -> None:
    both = client.rwlock("x")
    assert (both.name, both.reader.name, both.writer.name) == ("x", "x", "x")
    kind = "AsyncReadWriteLock" if face.is_async else "ReadWriteLock"
    assert repr(both) == f"<{kind} 'x' on memory://>"
    assert repr(both.reader) == repr(both).replace("ReadWriteLock", "ReadLock")
    assert repr(both.writer) == repr(both).replace("ReadWriteLock", "WriteLock")
