"""Values on real etcd servers: what arrives late or twice, and what is left of receipts."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from integration import servers
from integration.harness.leftovers import SESSIONS
from integration.harness.process import url_of
from integration.proxy import Proxy, Request, Trap
from integration.stores import ServerStore
from recipes import LockLost, OutcomeUnknown
from tests.contract.values import add, data, get, put, put_if, total
from tests.contract.world import SHORT, Party, World, until

pytestmark = pytest.mark.parametrize("server", servers.ETCDS, indirect=True)

SOON_S = 10.0
HANDLED = r'^grpc_server_handled_total\{.*grpc_method="Txn".*\} (\d+)'


def writes(request: Request) -> bool:
    """Whether a request writes a value: it puts a receipt."""
    if not request.label.endswith("kv/txn"):
        return False
    return any(b"/~receipt/" in key for key in puts(request))


def puts(request: Request) -> list[bytes]:
    """Return the keys that a transaction puts."""
    operations = json.loads(request.body).get("success", ())
    return [base64.b64decode(one["request_put"]["key"]) for one in operations if "request_put" in one]


class Copies:
    """Copies of all writes that pass a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.bodies: list[Any] = []
        proxy.expect(self._take)

    def _take(self, request: Request) -> bool:
        if writes(request):
            self.bodies.append(json.loads(request.body))
        return False


@pytest.fixture
def etcd(server: servers.Server) -> servers.Etcd:
    assert isinstance(server, servers.Etcd)
    return server


@pytest.fixture
def ways(proxy: Proxy, server: servers.Server) -> Iterator[tuple[Proxy, Proxy]]:
    """Yield two ways to the server."""
    with Proxy.of(server) as other:
        yield proxy, other


def sessions(etcd: servers.Etcd, store: ServerStore) -> list[str]:
    """Return all keys of sessions, anchors and receipts."""
    return etcd.keys(f"{SESSIONS}{store.prefix}/")


def hold(*ways: Proxy) -> list[tuple[Proxy, Trap]]:
    """Have the next write held back, by whichever way it goes."""
    seen: list[Request] = []

    def first(request: Request) -> bool:
        if seen or not writes(request):
            return False
        seen.append(request)
        return True

    return [(way, way.hold_request(match=first)) for way in ways]


def arrive(etcd: servers.Etcd, held: list[tuple[Proxy, Trap]]) -> None:
    """Let it arrive, and wait until the server has handled it, or what a session sent behind it."""
    (trap,) = [trap for _, trap in held if trap.matched.is_set()]
    assert trap.sprung.wait(SOON_S)
    before = transactions(etcd)
    for way, one in held:
        way.release(one)
    assert until(lambda: transactions(etcd) > before, SOON_S)


def transactions(etcd: servers.Etcd) -> int:
    """Return how many transactions the server has handled, by its own account."""
    with urllib.request.urlopen(f"http://{etcd.address}/metrics", timeout=5) as answer:
        handled = re.findall(HANDLED, answer.read().decode(), re.MULTILINE)
    return sum(map(int, handled))


def test_copies_of_writes_that_arrive_late_change_nothing(
    proxy: Proxy, world: World, etcd: servers.Etcd, store: ServerStore
) -> None:
    copies = Copies(proxy)
    a, b = world.client(url=proxy.url(store.prefix)), world.client()
    for n in range(1, 11):
        assert add(a) == 2 * n - 1
        assert add(b) == 2 * n
    put(a, b"first", "v")
    put(b, b"last", "v")
    put(a, b"1")
    assert put_if(a, b"2", get(a).version)  # type: ignore[union-attr]
    assert len(copies.bodies) >= 13
    before = etcd.revision()
    for body in [*copies.bodies, *reversed(copies.bodies)]:
        assert not etcd.ask("/v3/kv/txn", body).get("succeeded")
    assert etcd.revision() == before

    a.close()
    before = etcd.revision()
    for body in copies.bodies:
        with contextlib.suppress(RuntimeError):  # of a first write: the lease is not found
            assert not etcd.ask("/v3/kv/txn", body).get("succeeded")
    assert etcd.revision() == before
    assert (total(b), data(b, "v"), data(b)) == (20, b"last", b"2")


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_write_that_arrives_when_its_client_went_another_way_changes_nothing(
    ways: tuple[Proxy, Proxy], world: World, etcd: servers.Etcd, store: ServerStore, first: bool
) -> None:
    url = url_of(etcd.scheme, [way.address for way in ways], store.prefix)
    a, b = world.client(url=url, request_timeout=6.0), world.client()
    expected = 0
    if not first:
        expected = add(a)
    held = hold(*ways)
    assert add(a) == expected + 1
    assert add(b) == expected + 2
    arrive(etcd, held)
    assert total(b) == expected + 2
    assert add(a) == expected + 3


def test_a_write_that_was_given_up_never_lands(
    proxy: Proxy, world: World, etcd: servers.Etcd, store: ServerStore
) -> None:
    a, b = world.client(url=proxy.url(store.prefix), request_timeout=1.0), world.client()
    put(a, b"before")
    ((_, trap),) = held = hold(proxy)
    with pytest.raises(OutcomeUnknown):
        put(a, b"late")
    assert trap.sprung.is_set()
    assert a.wait_clean(SOON_S)
    put(b, b"after")
    arrive(etcd, held)
    assert data(b) == b"after"


def guarded_write(party: Party, what: bytes) -> tuple[Any, Any]:
    """Return a grant, and a call that writes under its guard."""
    grant = party.acquire("x")
    value = grant.guarding(party.client.value("config"))
    return grant, lambda: value.set(what)


def test_a_guarded_write_that_arrives_after_its_lease_was_revoked_does_nothing(
    proxy: Proxy, world: World, etcd: servers.Etcd, store: ServerStore
) -> None:
    a, b = world.client(url=proxy.url(store.prefix), session_timeout=5), world.client()
    put(a, b"before")
    _, write = guarded_write(a, b"late")
    held = hold(proxy)
    writing = a.api.start(write)
    assert held[0][1].sprung.wait(SOON_S)
    store.end_session(a.client)
    grant, write_too = guarded_write(b, b"after")
    b.api.do(write_too)
    before = etcd.revision()
    arrive(etcd, held)
    with pytest.raises((LockLost, OutcomeUnknown)):
        writing.result(20)
    assert data(b) == b"after"
    assert before <= etcd.revision() <= before + 1, "the session that comes next puts its anchor"
    assert b.verify(grant)


def test_a_guarded_write_is_refused_by_the_guard_alone(
    proxy: Proxy, world: World, etcd: servers.Etcd, store: ServerStore
) -> None:
    """The session lives: it is not the lease that refuses it."""
    a, b = world.client(url=proxy.url(store.prefix)), world.client()
    grant, write = guarded_write(a, b"late")
    held = hold(proxy)
    writing = a.api.start(write)
    assert held[0][1].sprung.wait(SOON_S)
    (contender,) = store.contenders("x")
    store.remove(contender)
    assert b.acquire("x").held
    arrive(etcd, held)
    with pytest.raises(LockLost):
        writing.result(20)
    assert get(b) is None
    assert not grant.held


@pytest.mark.parametrize("end", ["closed", "revoked", "expired"])
def test_no_receipt_is_left_when_the_session_has_ended(
    proxy: Proxy, world: World, etcd: servers.Etcd, store: ServerStore, end: str
) -> None:
    a, b = world.client(url=proxy.url(store.prefix), **SHORT), world.client(session_timeout=60)
    for n in range(20):
        put(a, b"%d" % n, f"v{n % 5}")
    put(b, b"", "v0")
    assert len(store.receipts()) == 6
    mine = f"/{a.client.session.id}"
    if end == "closed":
        a.close()
    elif end == "revoked":
        store.end_session(a.client)
    else:
        proxy.cut()
    assert until(lambda: not [key for key in sessions(etcd, store) if mine in key], 20)
    assert len(store.receipts()) == 1
    b.close()
    assert until(lambda: not store.receipts(), SOON_S)
    assert len(etcd.keys(f"{store.prefix}/~value/")) == 5, "values stay"
    if end == "closed":
        assert sessions(etcd, store) == []


def test_a_value_is_what_other_clients_of_etcd_put_there(
    world: World, etcd: servers.Etcd, store: ServerStore
) -> None:
    """The key is plain, so that ``etcdctl get`` shows it and ``etcdctl put`` replaces it."""
    a = world.client()
    put(a, b"ours")
    version = get(a).version  # type: ignore[union-attr]
    key = f"{store.prefix}/~value/config"
    assert etcd.keys(key) == [key]
    etcd.put(key, "theirs")
    assert data(a) == b"theirs"
    assert not put_if(a, b"late", version)
    put(a, b"last")
    assert data(a) == b"last"
