"""Fault 33: wrong password, denied by role or ACL, a token that expires while a lock is held."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

import recipes
from integration import servers
from integration.credentials.servers import SENTINEL, USER, SecureEtcd, SecureZooKeeper
from integration.faults.actors import APIS, Actor, actor
from integration.proxy import Proxy, matching
from tests.pace import Pace, taking

SOON_S = 5.0
"""Enough for a few round trips; a request that is not answered takes longer, and so does a session."""
REQUEST_S = 10.0
PATIENCE_S = 30.0
SESSION_S = 15.0
ENDING_SESSION_S = 6.0
"""Of a session whose end a test waits for."""
RESTART_SESSION_S = 30.0
"""Longer than a server takes to start on a busy machine."""
FORGOTTEN_SESSION_S = 9.0
"""Its renewals are further apart than a server takes to forget: a token's second, and one to look at them."""


class Clients:
    """Makes clients of one API, and closes them."""

    def __init__(self, api: str, stack: contextlib.ExitStack) -> None:
        self.api = api
        self._stack = stack

    def __call__(self, url: str, **options: Any) -> Actor:
        """Return a client, not opened."""
        told = {"session_timeout": SESSION_S, "request_timeout": REQUEST_S, **options}
        one = actor(self.api, url, **told)
        self._stack.callback(one.close)
        return one

    def proxied(self, server: SecureEtcd) -> Proxy:
        """Return a proxy before a server that does not encrypt: it counts what it sees."""
        return self._stack.enter_context(Proxy.of(server))


@pytest.fixture(params=APIS)
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    with contextlib.ExitStack() as stack:
        yield Clients(request.param, stack)


@pytest.fixture(scope="module")
def lasting() -> Iterator[SecureEtcd]:
    """Yield an etcd that forgets tokens only when a password changes."""
    with SecureEtcd("etcd-3.4", tls=False) as server:
        yield server


@pytest.fixture(scope="module")
def forgetful() -> Iterator[SecureEtcd]:
    """Yield an etcd that forgets a token that was not used for a second."""
    with SecureEtcd("etcd-3.4", tls=False, token_ttl_s=1) as server:
        yield server


@pytest.fixture(scope="module")
def forgetful35() -> Iterator[SecureEtcd]:
    """Yield an etcd 3.5 that does, which calls a watch with an old token "permission denied"."""
    with SecureEtcd("etcd-3.5", tls=False, token_ttl_s=1) as server:
        yield server


@pytest.fixture(scope="module")
def forgetful_grpc() -> Iterator[SecureEtcd]:
    """Yield an etcd that does, asked by gRPC."""
    with SecureEtcd("etcd-3.4", tls=False, token_ttl_s=1, grpc=True) as server:
        yield server


LONG = ("forgetful", "forgetful_grpc")


@pytest.fixture(params=[*(pytest.param(one, marks=pytest.mark.long) for one in LONG), "forgetful35"])
def etcd(request: pytest.FixtureRequest) -> SecureEtcd:
    server: SecureEtcd = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def sasl() -> Iterator[SecureZooKeeper]:
    with SecureZooKeeper(sasl=True) as server:
        yield server


@pytest.fixture(scope="module")
def digest() -> Iterator[SecureZooKeeper]:
    with SecureZooKeeper() as server:
        yield server


def denied(call: Callable[..., Any], *args: Any, says: str, within_s: float = SOON_S, **options: Any) -> None:
    """See that a call is denied at once, in words that hold no secret."""
    with taking(within_s), pytest.raises(recipes.StoreDenied, match=says) as caught:
        call(*args, **options)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in shown.stack if "/recipes/" in frame.filename]
    told = "\n".join([str(caught.value), *(str(frame.locals) for frame in ours)])
    assert SENTINEL not in told
    assert "wrong!" not in told


def queued(etcd: SecureEtcd, prefix: str, name: str) -> bool:
    """Wait until one stands behind the holder."""
    return servers.eventually(lambda: len(etcd.keys(f"{prefix}/{name}/")) == 2, PATIENCE_S)


def logins(proxy: Proxy) -> int:
    return proxy.counts().requests["/v3/auth/authenticate"]


def test_fault_33_wrong_password_etcd(clients: Clients, etcd: SecureEtcd, prefix: str) -> None:
    proxy = clients.proxied(etcd)
    before = etcd.leases()
    one = clients(proxy.url(prefix), username=USER, password="wrong!")
    denied(one.open, says=f"{prefix} denied access: login failed: the user or the password is wrong")
    assert logins(proxy) == 1
    # And the same without an open: at once, and not when the time is up.
    denied(one.acquire, "x", timeout=30, says="login failed")
    denied(one.try_acquire, "x", says="login failed")
    assert logins(proxy) == 3
    assert etcd.leases() <= before


@pytest.mark.long
def test_fault_33_wrong_password_sasl(clients: Clients, sasl: SecureZooKeeper, prefix: str) -> None:
    options = {**sasl.options, "password": "wrong!"}
    one = clients(sasl.url(prefix), **options)
    denied(one.open, says=f"{sasl.address} denied access: the credentials were not accepted")
    denied(one.acquire, "x", timeout=30, says="the credentials were not accepted")


def test_fault_33_no_password_asked_for_one(clients: Clients, etcd: SecureEtcd, prefix: str) -> None:
    denied(clients(etcd.url(prefix)).open, says="pass username= and password=")


def test_fault_33_acl_denied_etcd(clients: Clients, etcd: SecureEtcd) -> None:
    proxy = clients.proxied(etcd)
    one = clients(proxy.url("elsewhere/app"), **etcd.options)
    contenders = "from elsewhere/app/ up to elsewhere/app0"
    sessions = "from ~session/elsewhere/app/ up to ~session/elsewhere/app0"
    denied(
        one.open,
        says=f"to permit reading and writing the keys {contenders} and {sessions}",
    )
    assert logins(proxy) <= 2
    assert etcd.keys("elsewhere") == []


def test_fault_33_acl_denied_digest(clients: Clients, digest: SecureZooKeeper, prefix: str) -> None:
    with recipes.connect(digest.url(prefix), **digest.options) as first, first.lock("x"):
        # Another password is another identity, which is no error by itself.
        other = clients(digest.url(prefix), **{**digest.options, "password": "wrong!"})
        other.open()
        denied(other.acquire, "x", timeout=30, says="denied access: no permission")
        denied(other.try_acquire, "x", says="denied access: no permission")
        denied(other.acquire, "new", timeout=30, says="denied access: no permission")


@pytest.mark.long
def test_fault_33_an_acl_lets_others_in(clients: Clients, digest: SecureZooKeeper, prefix: str) -> None:
    tls = {"tls_ca": digest.authority.ca}
    team = [make_digest_acl(name, "pw", all=True) for name in ("ann", "bob")]
    ann, bob, eve = (
        clients(digest.url(prefix), username=name, password="pw", acl=team, **tls)
        for name in ("ann", "bob", "eve")
    )
    held = ann.acquire("x")
    waiting = bob.start_acquire("x")
    denied(eve.acquire, "x", timeout=30, says="no permission")
    assert held.release()
    assert waiting.result(PATIENCE_S).release()


def test_fault_33_one_node_that_another_user_keeps_closed(
    clients: Clients, digest: SecureZooKeeper, prefix: str
) -> None:
    """With ``layout="name"``: it ended the session, and each grant in it."""
    eves = [make_digest_acl("eve", "pw", all=True)]
    with servers.kazoo_client(digest) as operator:
        for name in ("theirs", "taken"):
            operator.ensure_path(f"/{prefix}/{name}", acl=OPEN_ACL_UNSAFE)
        operator.create(f"/{prefix}/theirs/lock", b"", acl=eves, ephemeral=True)
        one = clients(digest.url(prefix), layout="name", **digest.options)
        held, taken = one.acquire("held"), one.acquire("taken")
        assert one.try_acquire("theirs") is None
        waiting = one.start_acquire("theirs")
        operator.delete(f"/{prefix}/taken/lock")
        operator.create(f"/{prefix}/taken/lock", b"", acl=eves, ephemeral=True)
        assert taken.wait_lost(PATIENCE_S)
        assert held.verify()
        assert not waiting.done()
        operator.delete(f"/{prefix}/theirs/lock")
        assert waiting.result(PATIENCE_S).release()
        assert held.release()


def test_fault_33_all_that_is_created_has_the_acl(digest: SecureZooKeeper, prefix: str) -> None:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(recipes.connect(digest.url(f"{prefix}/deep/er"), **digest.options))
        operator = stack.enter_context(servers.kazoo_client(digest))
        stack.enter_context(client.lock("x"))
        stack.enter_context(client.rwlock("y").reader)
        client.value("z").set(b"1")
        paths = _tree(operator, f"/{prefix}")
        assert len(paths) == 10  # three above, two locks, two contenders; a value, its parent and its receipt
        for path in paths:
            (acl,) = operator.get_acls(path)[0]
            assert (acl.id.scheme, acl.perms) == ("digest", 31), path
            assert acl.id.id.startswith(f"{USER}:")


def test_fault_33_token_expired_while_holding(etcd: SecureEtcd, prefix: str) -> None:
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy.of(etcd))
        options = {**etcd.options, "session_timeout": FORGOTTEN_SESSION_S}
        one, other = (Clients(api, stack)(proxy.url(prefix), **options) for api in APIS)
        held = one.acquire("x")
        kept = other.acquire("y")
        waiting, back = other.start_acquire("x"), one.start_acquire("y")
        forgotten = proxy.expect(matching("auth/authenticate"), 4)  # each renewed twice, with an old token
        assert forgotten.sprung.wait(PATIENCE_S), "tokens should have been forgotten, or this shows nothing"
        assert held.verify()
        assert kept.verify()
        # The watch of who comes now is made with a token that may be old too.
        third = one.start_acquire("x")
        assert held.release()
        granted = waiting.result(PATIENCE_S)
        assert kept.release()
        assert back.result(PATIENCE_S).release()
        assert not granted.wait_lost(1.5)
        assert granted.release()
        assert third.result(PATIENCE_S).release()


def test_fault_33_a_watch_made_again_with_an_old_token(
    clients: Clients, etcd: SecureEtcd, prefix: str
) -> None:
    proxy = clients.proxied(etcd)
    holder, waiter = clients(etcd.url(prefix), **etcd.options), clients(proxy.url(prefix), **etcd.options)
    held = holder.acquire("x")
    armed = proxy.expect(matching("watch chunk"))
    waiting = waiter.start_acquire("x")
    assert armed.sprung.wait(PATIENCE_S)
    again = proxy.expect(matching("auth/authenticate"))
    etcd.change_password(SENTINEL)  # all tokens are forgotten
    proxy.reset()  # and the watch is the first that is asked for with an old one
    assert again.sprung.wait(PATIENCE_S)
    assert held.release()
    assert waiting.result(PATIENCE_S).release()


def test_fault_33_values_need_the_same_role_and_outlast_a_token(etcd: SecureEtcd, prefix: str) -> None:
    """A write that is refused for its token was not carried out: it is asked again, and counts once."""
    with recipes.connect(etcd.url(prefix), **etcd.options) as client:
        counter, value = client.counter("n"), client.value("x")
        assert counter.add() == 1
        with value.changes() as changes:
            assert changes.next(PATIENCE_S) is None
            etcd.change_password(SENTINEL)  # all tokens are forgotten
            assert counter.add() == 2
            with client.lock("x") as grant:
                grant.guarding(value).set(b"guarded")
            seen = changes.next(PATIENCE_S)
        assert seen is not None
        assert (seen, counter.get()) == (value.get(), 2)


@pytest.mark.long
def test_fault_33_tokens_forgotten_by_a_restart(clients: Clients, etcd: SecureEtcd, prefix: str) -> None:
    options = {**etcd.options, "session_timeout": RESTART_SESSION_S}
    one, other = (clients(etcd.url(prefix), **options) for _ in range(2))
    held = one.acquire("x")
    waiting = other.start_acquire("x")
    assert queued(etcd, prefix, "x")
    session = one.client.session.id
    etcd.restart()
    assert held.verify()
    assert one.client.session.id == session
    assert held.release()
    assert waiting.result(PATIENCE_S).release()


@pytest.mark.long
def test_fault_33_one_login_for_many_calls(clients: Clients, lasting: SecureEtcd, prefix: str) -> None:
    proxy = clients.proxied(lasting)
    one = clients(proxy.url(prefix), **lasting.options)
    one.open()
    lasting.change_password(SENTINEL)  # all tokens are forgotten
    before = logins(proxy)
    waiting = [one.start_acquire(f"lock {number}") for number in range(20)]
    assert all(future.result(PATIENCE_S).release() for future in waiting)
    assert 1 <= logins(proxy) - before <= 2


@pytest.mark.long
def test_fault_33_a_password_that_changes(clients: Clients, forgetful: SecureEtcd, prefix: str) -> None:
    passwords = [SENTINEL]
    asked_by = []

    def password() -> str:
        asked_by.append(threading.current_thread())
        return passwords[-1]

    one = clients(forgetful.url(prefix), username=USER, password=password)
    other = clients(forgetful.url(prefix), username=USER, password=password)
    try:
        held = one.acquire("x")
        waiting = other.start_acquire("x")
        assert queued(forgetful, prefix, "x"), "it has logged in"
        passwords.append("another one")
        forgetful.change_password("another one")
        assert held.verify()
        assert held.release()
        assert waiting.result(PATIENCE_S).release()
    finally:
        forgetful.change_password(SENTINEL)
    if clients.api == "asyncio":
        assert not any(thread.name == "actor-loop" for thread in asked_by), "it may block"


@pytest.mark.long
def test_fault_33_forbidden_while_holding(clients: Clients, forgetful: SecureEtcd, prefix: str) -> None:
    proxy = clients.proxied(forgetful)
    ranges = (f"u{prefix}", f"~session/u{prefix}")
    for start in ranges:
        forgetful.permit(start)
    url = proxy.url(f"u{prefix}")
    options = {**forgetful.options, "session_timeout": ENDING_SESSION_S}
    one, other = (clients(url, **options) for _ in range(2))
    held = one.acquire("x")
    waiting = other.start_acquire("x")
    assert queued(forgetful, f"u{prefix}", "x")
    free = one.acquire("y")
    for start in ranges:
        forgetful.forbid(start)
    with proxy.counting() as counts:
        denied(free.verify, says="denied access")
        with Pace() as pace:
            assert not free.release() or pace.seconds < SOON_S + pace.late_s()
        assert held.wait_lost(PATIENCE_S)
        assert not held.held
        with pytest.raises(recipes.StoreDenied):
            waiting.result(PATIENCE_S)
    assert counts.requests.total() < 100, counts.requests
    assert counts.requests["/v3/auth/authenticate"] < 40, counts.requests


@pytest.mark.long
def test_fault_33_users_that_come_later(clients: Clients, prefix: str) -> None:
    """Credentials given where nobody is asked do no harm, as with etcd's own client."""
    with servers.etcd_35() as plain:
        one = clients(plain.url(prefix), username=USER, password=SENTINEL)
        assert one.acquire("x").release()


@pytest.mark.long
def test_fault_33_a_password_that_cannot_be_had(
    clients: Clients, forgetful: SecureEtcd, digest: SecureZooKeeper, prefix: str
) -> None:
    def broken() -> str:
        raise LookupError("the vault is closed")

    def empty() -> Any:
        return None

    for server in (forgetful, digest):
        for password, says in ((broken, "raised LookupError"), (empty, "gave no text but NoneType")):
            options = {**server.options, "password": password}
            denied(clients(server.url(prefix), **options).open, says=says)


def _tree(operator: Any, path: str) -> list[str]:
    found = [path]
    for child in operator.get_children(path):
        found += _tree(operator, f"{path}/{child}")
    return found
