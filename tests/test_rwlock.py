"""The APIs of the read-write lock: who is refused at once, and what its objects say."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import recipes
from recipes import LockLost, LockTimeout, UpgradeError, WouldDeadlock
from tests.contract.apis import APIS, Api
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


@pytest.fixture(params=list(APIS))
def api(request: pytest.FixtureRequest) -> Any:
    one = APIS[request.param]()
    yield one
    one.close()


@pytest.fixture
def client(api: Api) -> Any:
    one = api.connect("memory://")
    yield one
    api.do(one.close)


def hold(api: Api, client: Any, what: str) -> Any:
    lock = SIDES["writer" if what == "downgraded" else what](client)
    grant = api.do(lambda: lock.acquire(timeout=SOON_S))
    if what == "downgraded":
        api.do(grant.downgrade)
    return grant


@pytest.mark.parametrize(("held", "wanted", "refused"), REFUSED)
def test_who_would_wait_for_itself_is_told_so_at_once(
    api: Api, client: Any, held: list[str], wanted: str, refused: Any
) -> None:
    grants = [hold(api, client, what) for what in held]
    lock = SIDES[wanted](client)
    if refused is None:
        assert api.do(lambda: lock.acquire(timeout=SOON_S)).held
        return
    with pytest.raises(refused) as told:
        api.do(lock.acquire)  # it would wait for ever
    assert type(told.value) is refused
    assert (told.value.lock, told.value.token) == ("x", grants[-1].token)
    assert api.do(lock.try_acquire) is None, "what never waits is never refused"
    assert all(grant.held for grant in grants)
    for grant in grants:
        assert api.do(grant.release)
    assert api.do(lambda: lock.acquire(timeout=SOON_S)).held


def test_another_owner_waits(api: Api, client: Any) -> None:
    grant = hold(api, client, "reader")
    writer = SIDES["writer"](client)
    other = api.start(lambda: writer.acquire(timeout=0.05))
    assert isinstance(other.error(), LockTimeout)
    waiting = api.start(lambda: writer.acquire(timeout=SOON_S))
    assert not waiting.done
    api.do(grant.release)
    assert waiting.result().held


def test_another_lock_and_a_grant_that_is_lost_refuse_nobody(api: Api, client: Any) -> None:
    hold(api, client, "reader")
    assert api.do(client.rwlock("y").writer.acquire).held
    other = api.connect("memory://")
    try:
        lost = hold(api, other, "reader")
        lost._hold.lose("gone")
        with pytest.raises(LockTimeout):  # its contender is still there
            api.do(lambda: SIDES["writer"](other).acquire(timeout=0.05))
    finally:
        api.do(other.close)


def test_reading_again_behind_a_writer_that_waits_leaves_nothing(api: Api, client: Any) -> None:
    """Only waiting shows it; the contender that was made is withdrawn."""
    grant = hold(api, client, "reader")
    queued = threading.Event()
    forget = recipes.events.subscribe(lambda told: told.event == "lock.queued" and queued.set())
    try:
        writing = api.start(SIDES["writer"](client).acquire)
        assert queued.wait(SOON_S)
    finally:
        forget()
    with pytest.raises(WouldDeadlock) as told:
        api.do(SIDES["reader"](client).acquire)
    assert type(told.value) is WouldDeadlock
    assert client.grants == [grant]
    api.do(grant.release)
    assert writing.result().held


def test_a_grant_downgrades_while_it_is_held(api: Api, client: Any) -> None:
    grant = hold(api, client, "downgraded")
    assert (grant.mode, grant.held) == ("shared", True)
    assert api.do(grant.downgrade) is None
    assert api.do(grant.release)
    with pytest.raises(LockLost, match="it was released"):
        api.do(grant.downgrade)
    assert not hasattr(hold(api, client, "reader"), "downgrade")


def test_what_its_objects_say(api: Api, client: Any) -> None:
    both = client.rwlock("x")
    assert (both.name, both.reader.name, both.writer.name) == ("x", "x", "x")
    kind = "AsyncReadWriteLock" if api.is_async else "ReadWriteLock"
    assert repr(both) == f"<{kind} 'x' on memory://>"
    assert repr(both.reader) == repr(both).replace("ReadWriteLock", "ReadLock")
    assert repr(both.writer) == repr(both).replace("ReadWriteLock", "WriteLock")
