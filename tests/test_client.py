from __future__ import annotations

import asyncio
import math
import pickle
from typing import Any, Never

import pytest

import recipes
from recipes import events
from recipes.client import AsyncClient, Client
from recipes.errors import LockLost, StoreUnavailable, WouldDeadlock
from tests.rules.test_rules import permits
from tests.run.doubles import SETTINGS, FaultyBackend
from tests.run.test_blocking import SOON_S, cut, on
from tests.run.test_tasks import in_loop, until

both = pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])


@both
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"session_timeout": 1.9}, "session_timeout=1.9 is too short: at least 2 s"),
        ({"session_timeout": -1}, "session_timeout=-1"),
        ({"session_timeout": float("nan")}, "session_timeout=nan"),
        ({"session_timeout": float("inf")}, "longer than a century"),
        ({"request_timeout": 0}, "request_timeout=0 is too short"),
        ({"colour": "red"}, "does not know the option 'colour'$"),
        ({"sesion_timeout": 3}, "does not know the option 'sesion_timeout'; did you mean session_timeout="),
        ({"sesion_timeout": None}, "does not know the option 'sesion_timeout'; did you mean"),
        ({"colour": None}, "does not know the option 'colour'$"),
        ({"username": "me"}, "does not know the option 'username'$"),
    ],
)
def test_options_that_do_not_fit(connect: Any, options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        connect("memory://", **options)


@both
@pytest.mark.parametrize("option", ["session_timeout", "request_timeout"])
@pytest.mark.parametrize("bad", [None, "5", True])
def test_options_of_the_wrong_type(connect: Any, option: Any, bad: Any) -> None:
    with pytest.raises(TypeError, match=option):
        connect("memory://", **{option: bad})


@both
@pytest.mark.parametrize(
    ("args", "options", "says"),
    [
        ((), {}, r"client\.lock\(\): missing a required argument: 'name'; it takes \(name: "),
        (("x", 5), {}, r"client\.lock\(\): too many positional arguments; it takes \(name: "),
        (
            ("x",),
            {"ttl": 5},
            r"client\.lock\(\): got an unexpected keyword argument 'ttl'; it takes ",
        ),
        ((5,), {}, "^a name is a str, not int$"),
    ],
)
def test_arguments_that_a_recipe_does_not_take(connect: Any, args: Any, options: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        connect("memory://").lock(*args, **options)


@both
def test_the_url_is_checked(connect: Any) -> None:
    with pytest.raises(ValueError, match="unknown store"):
        connect("mongodb://h")


def test_clients_of_one_name_share_a_store() -> None:
    with recipes.connect("memory://test_client") as one, recipes.connect("memory://test_client") as other:
        with one.lock("x"):
            assert other.lock("x").try_acquire() is None
        assert one.session.id != other.session.id


def test_blocking_and_asyncio_share_a_store_too() -> None:
    async def held_elsewhere() -> bool:
        async with recipes.connect_async("memory://test_client_2") as client:
            return await client.lock("x").try_acquire() is None

    with recipes.connect("memory://test_client_2") as client, client.lock("x"):
        assert asyncio.run(held_elsewhere())


@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
@pytest.mark.parametrize("opened", [False, True])
def test_nothing_of_a_client_goes_to_another_process(connect: Any, opened: bool) -> None:
    client = connect("memory://")
    if opened and connect is recipes.connect:
        client.open()
    for what in (client, client.lock("x"), client.value("x"), client.election("x").observe()):
        with pytest.raises(TypeError, match="stay in their process: pass the URL, and connect there"):
            pickle.dumps(what)
    if opened and connect is recipes.connect:
        with client.lock("x") as grant, pytest.raises(TypeError, match="stay in their process"):
            pickle.dumps(grant)
        client.close()


def test_names_are_opaque_and_prefixes_do_not_meet() -> None:
    with recipes.connect("memory://") as client:
        names = ["a", "a/", "a/b", "/a", ".", "..", "é", "e\u0301", "a%2Fb", "\0", "x" * 1024]
        grants = [client.lock(name).acquire(timeout=0) for name in names]
        assert [grant.name for grant in grants] == names
        assert client.lock("a/b").name == "a/b"
        assert repr(client.lock("a/b")) == "<Lock 'a/b' on memory://>"


def test_a_client_that_cannot_be_entered_stops_trying() -> Never:
    """Nobody has it: ``with connect(...) as client`` never got as far as binding it."""
    backend = FaultyBackend()
    client = Client(backend, SETTINGS)
    backend.before = on("Open", cut, times=10**9)
    with pytest.raises(StoreUnavailable), client:
        raise AssertionError("the body was entered")
    keepalive = client._runtime._keepalive
    try:
        assert client.session.state == "closed"
        assert keepalive is not None
        keepalive.join(SOON_S)
        assert not keepalive.is_alive()
    finally:
        client.close()


@in_loop
async def test_an_asyncio_client_that_cannot_be_entered_stops_trying() -> Never:
    backend = FaultyBackend()
    client = AsyncClient(backend, SETTINGS)
    backend.before = on("Open", cut, times=10**9)
    with pytest.raises(StoreUnavailable):
        async with client:
            raise AssertionError("the body was entered")
    try:
        assert client.session.state == "closed"
    finally:
        await client.close()


def test_the_body_is_never_entered_with_a_grant_that_is_not_held() -> None:
    client = recipes.connect("memory://")
    with client:
        grant = client.lock("x").acquire()
        client._runtime.session_gone(client._runtime.state.session, "revoked")  # type: ignore[arg-type]
        entered = False
        with pytest.raises(LockLost, match="revoked"), grant:
            entered = True
        assert not entered


@in_loop
async def test_the_asyncio_body_is_never_entered_with_a_grant_that_is_not_held() -> None:
    async with recipes.connect_async("memory://") as client:
        for on_lost in ("cancel", "tell"):
            grant = await client.lock("x", on_lost=on_lost).acquire()  # type: ignore[arg-type]
            client._runtime.session_gone(client._runtime.state.session, "revoked")  # type: ignore[arg-type]
            entered = False
            with pytest.raises(LockLost, match="revoked"):
                async with grant:
                    entered = True
            assert not entered
            await until(lambda: client.session.state == "held")


@in_loop
async def test_a_lock_that_could_not_be_entered_keeps_no_grant(monkeypatch: pytest.MonkeyPatch) -> Never:
    async with recipes.connect_async("memory://") as client:
        lock = client.lock("x")

        async def lost(self: object) -> None:
            raise LockLost("x", 1, "revoked")

        monkeypatch.setattr("recipes.grant.AsyncGrant.__aenter__", lost)
        with pytest.raises(LockLost):
            async with lock:
                raise AssertionError("the body was entered")
        assert lock._entered == {}


def test_a_grant_that_ended_before_its_api_was_made_is_told() -> None:
    """The session may be lost in another thread between the admission and the return."""
    with recipes.connect("memory://") as client:
        first = client.lock("x").acquire()
        hold = first._hold
        assert hold.lose("revoked")
        hold.on_end = None
        grant = recipes.Grant(client._runtime, hold)
        assert grant.lost.wait()
        assert (grant.held, grant.lost_reason) == (False, "revoked")


def test_a_grant_that_does_not_block_is_no_deadlock() -> None:
    """Two permits, as a recipe of later may have them: the first does not stand in the way of the second."""
    with recipes.connect("memory://") as client:
        lock = client.lock("x")
        lock._rule = permits(2)
        with lock as one, lock as other:
            assert one.token < other.token
            with pytest.raises(WouldDeadlock):
                lock.acquire()
        assert lock._entered == {}


@pytest.mark.parametrize("wrong", [0, 0.05, -1, math.nan, math.inf, True, "1"])
@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
def test_a_longest_hold_that_does_not_fit_is_refused(connect: Any, wrong: Any) -> None:
    client = connect("memory://")
    for make in (client.lock, client.rlock, client.rwlock):
        with pytest.raises((ValueError, TypeError), match="max_hold"):
            make("x", max_hold=wrong)


def test_closing_tells_of_a_holder_that_hung_till_then() -> None:
    told: list[Any] = []
    stop = events.subscribe(told.append)
    client = recipes.connect("memory://").open()
    grant = client.lock("x", max_hold=60).acquire()
    grant._hold.overheld = True  # seen, and the keepalive loop had no time yet
    client.close()
    stop()
    assert [(one.event, one.reason) for one in told if one.name == "x" and one.event != "lock.acquired"] == [
        ("lock.lost", grant.lost_reason)
    ]
    assert "max_hold" in str(grant.lost_reason)
