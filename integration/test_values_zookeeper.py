"""Values on a real ZooKeeper: lost answers, what arrives late or twice, receipts, and what operators do."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient

from integration.harness.process import url_of
from integration.proxy import Proxy, Request, matching
from integration.stores import ZooKeeperStore
from recipes import LockLost, OutcomeUnknown
from recipes._contract.names import queue_of
from tests.contract.values import add, data, delete, get, put, put_if, total
from tests.contract.world import SHORT, Party, World, until

pytestmark = pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True)

SOON_S = 10.0
HEAD = 12  # of a frame: length, number, kind


@pytest.fixture
def place(store: Any) -> ZooKeeperStore:
    assert isinstance(store, ZooKeeperStore)
    return store


def node(store: ZooKeeperStore, recipe: str = "value", name: str = "config") -> str:
    """Return the node of a value."""
    return f"/{store.prefix}/{queue_of(recipe, name)}"


def session_of(party: Party) -> Any:
    """Return the kazoo client below a client."""
    connection = party.client._runtime.state.session.connection
    return getattr(connection, "inner", connection)._session._client


def written(store: ZooKeeperStore, nodes: list[str]) -> list[tuple[bytes, int]]:
    """Return what each of these has for data, and the transaction that wrote it."""
    found = [store.operator.get(path) for path in nodes]
    return [(what, stat.mzxid) for what, stat in found]


class Copy:
    """A copy of a request that was sent, as kazoo sends it."""

    def __init__(self, request: Request) -> None:
        self.frame = bytes(request.body)
        self.type = int.from_bytes(self.frame[8:HEAD])

    def serialize(self) -> bytes:
        return self.frame[HEAD:]

    def deserialize(self, message: bytes, offset: int) -> list[bytes]:
        return [message[offset:]]


class Copies:
    """Copies of all writes that pass a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.taken: list[Copy] = []
        proxy.expect(self._take)

    def _take(self, request: Request) -> bool:
        if request.label == "multi":
            self.taken.append(Copy(request))
        return False


def failed(reply: bytes) -> bool:
    """Whether a multi was refused: its first part is an error."""
    return reply.startswith(b"\xff\xff\xff\xff")


def test_copies_of_writes_that_arrive_late_in_their_session_change_nothing(
    proxy: Proxy, world: World, place: ZooKeeperStore
) -> None:
    copies = Copies(proxy)
    a, b = world.client(url=proxy.url(place.prefix)), world.client()
    for n in range(1, 6):
        assert add(a) == 2 * n - 1
        assert add(b) == 2 * n
    put(a, b"first", "v")
    put(b, b"last", "v")
    put(a, b"1")
    assert put_if(a, b"2", get(a).version)  # type: ignore[union-attr]
    assert len(copies.taken) >= 8
    values = [node(place, "counter"), node(place, name="v"), node(place)]
    before = written(place, values)
    taken = session_of(a).client_id  # kazoo tells it while it is connected
    assert taken
    proxy.cut()  # or the client takes its session back
    again = KazooClient(place.server.address, client_id=taken)
    again.start(timeout=10)
    assert again.client_id[0] == taken[0]
    for copy in (*copies.taken, *reversed(copies.taken)):
        answer = again.handler.async_result()
        again._call(copy, answer)
        assert failed(answer.get(timeout=SOON_S)[0])
    again.stop()
    again.close()
    assert written(place, values) == before
    assert (total(b), data(b, "v"), data(b)) == (10, b"last", b"2")


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_write_that_arrives_when_its_client_went_another_way_changes_nothing(
    proxy: Proxy, world: World, place: ZooKeeperStore, first: bool
) -> None:
    with Proxy.of(place.server) as other_way:
        ways = (proxy, other_way)
        url = url_of("zookeeper", [way.address for way in ways], place.prefix)
        a, b = world.client(url=url, session_timeout=6.0, request_timeout=8.0), world.client()
        expected = 0 if first else add(a)
        a.open()
        seen: list[Request] = []

        def once(request: Request) -> bool:
            if request.label == "multi" and not seen:
                seen.append(request)
                return True
            return False

        held = [(way, way.hold_request(match=once)) for way in ways]
        assert add(a) == expected + 1
        assert seen
        assert add(b) == expected + 2
        for way, trap in held:
            way.release(trap)
        assert add(a) == expected + 3  # behind whatever has arrived
        assert total(b) == expected + 3


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "cut"])
def test_additions_whose_answers_are_lost_count_once(
    proxy: Proxy, world: World, place: ZooKeeperStore, silent: bool
) -> None:
    session_s = 3.0 if silent else 15.0
    a, b = world.client(url=proxy.url(place.prefix), session_timeout=session_s), world.client()
    before = add(a)
    for _ in range(3 if silent else 10):
        trap = proxy.drop_reply(match=matching("multi"), silent=silent)
        try:
            assert add(a) == before + 1
        except OutcomeUnknown:  # the session was lost with the answer, as no renewal had one either
            assert silent
            assert a.wait_clean(20)
            assert total(b) - before in (0, 1)
        assert trap.sprung.is_set()
        before = total(b) + 1
        assert add(b) == before


def test_a_write_that_was_given_up_does_not_land_behind_a_later_one(
    proxy: Proxy, world: World, place: ZooKeeperStore
) -> None:
    a, b = world.client(url=proxy.url(place.prefix), request_timeout=1.0), world.client()
    put(a, b"before")
    trap = proxy.hold_request(match=matching("multi"))
    with pytest.raises(OutcomeUnknown):
        put(a, b"late")
    assert trap.sprung.is_set()
    proxy.release(trap)
    assert a.wait_clean(20)
    put(b, b"after")
    put(a, b"last")
    assert data(b) == b"last"


def test_a_guarded_write_that_was_held_back_is_refused_by_the_guard_alone(
    proxy: Proxy, world: World, place: ZooKeeperStore
) -> None:
    """The session lives."""
    a, b = world.client(url=proxy.url(place.prefix), session_timeout=15), world.client()
    put(a, b"before")
    grant = a.acquire("x")
    value = grant.guarding(a.client.value("config"))
    trap = proxy.hold_request(match=matching("multi"))
    writing = a.api.start(lambda: value.set(b"late"))
    assert trap.sprung.wait(SOON_S)
    (contender,) = place.contenders("x")
    place.remove(contender)
    assert b.acquire("x").held
    proxy.release(trap)
    with pytest.raises(LockLost):
        writing.result(20)
    assert data(b) == b"before"


def test_a_write_that_waits_for_a_connection_is_not_unknown_when_the_session_ends(
    proxy: Proxy, world: World, place: ZooKeeperStore
) -> None:
    """Nothing of it was sent: it is done on the next session."""
    a, b = world.client(url=proxy.url(place.prefix)), world.client()
    put(a, b"before")
    session = a.client._runtime.state.session.connection.inner._session
    proxy.cut()
    assert until(lambda: not session._up, SOON_S)
    value = a.client.value("config")
    writing = a.api.start(lambda: value.set(b"after"))
    assert until(lambda: session._parked, SOON_S)
    place.end_session(a.client)
    proxy.heal()
    writing.result(20)
    assert data(b) == b"after"
    assert not world.heard.names(name="config").count("value.unknown")


@pytest.mark.parametrize("end", ["closed", "expired"])
def test_no_receipt_is_left_when_the_session_has_ended_and_values_stay(
    world: World, place: ZooKeeperStore, end: str
) -> None:
    a, b = world.client(**SHORT), world.client()
    for n in range(10):
        put(a, b"%d" % n, f"v{n % 5}")
    put(b, b"", "v0")
    assert len(place.receipts()) == 6
    if end == "closed":
        a.close()
    else:
        place.end_session(a.client)
    assert until(lambda: len(place.receipts()) == 1, SOON_S)
    b.close()
    assert until(lambda: not place.receipts(), SOON_S)
    assert len(place.operator.get_children(node(place).rpartition("/")[0])) == 5


def test_what_was_deleted_leaves_a_node_without_data_whose_versions_rise(
    world: World, place: ZooKeeperStore
) -> None:
    a, b = world.client(), world.client()
    seen = []
    for n in range(3):
        put(a, b"%d" % n)
        seen.append(get(b).version)  # type: ignore[union-attr]
        assert delete(b)
        assert get(a) is None
        assert place.operator.get(node(place))[0] is None
    assert seen == sorted(set(seen))
    assert put_if(a, b"again", 0)
    assert get(b).version > seen[-1]  # type: ignore[union-attr]


@pytest.mark.parametrize("receipt_too", [True, False])
def test_a_node_that_an_operator_deletes_is_made_anew_and_versions_rise_even_then(
    world: World, place: ZooKeeperStore, receipt_too: bool
) -> None:
    """What was asked before may be done twice then; what is asked from here on is done once."""
    a, b = world.client(), world.client()
    put(a, b"1")
    add(a)
    add(b)
    before = get(a)
    assert before is not None
    for value in (node(place), node(place, "counter")):
        for receipt in place.operator.get_children(value):
            place.operator.delete(f"{value}/{receipt}")
        if receipt_too:
            place.operator.delete(value)
    if receipt_too:
        assert get(a) is None
        assert not put_if(a, b"late", before.version)
        assert (add(a), add(b), add(a)) == (1, 2, 3)
        assert put_if(b, b"2", 0)
        assert get(a).version > before.version  # type: ignore[union-attr]
    else:
        assert (add(a), add(b), add(a)) == (3, 4, 5)
        assert put_if(a, b"2", before.version)
    put(a, b"3")
    assert data(b) == b"3"


def test_a_node_that_was_made_anew_and_written_as_often_is_not_the_one_that_was_read(
    world: World, place: ZooKeeperStore
) -> None:
    """Its data have the same version. Who has not written yet has no receipt that went with the other."""
    a, b = world.client(), world.client()
    put(b, b"1")
    before = get(a)
    assert before is not None
    for receipt in place.operator.get_children(node(place)):
        place.operator.delete(f"{node(place)}/{receipt}")
    place.operator.delete(node(place))
    put(b, b"2")
    assert place.operator.get(node(place))[1].version == before.version % 2**32
    assert not put_if(a, b"late", before.version)
    assert data(b) == b"2"
    assert put_if(a, b"3", get(a).version)  # type: ignore[union-attr]
    assert place.receipts()


def test_a_value_is_what_other_clients_of_zookeeper_put_there(world: World, place: ZooKeeperStore) -> None:
    """The node is plain, so that any client shows it and replaces it."""
    a = world.client()
    place.operator.create(node(place), b"by hand", makepath=True)
    assert data(a) == b"by hand"
    version = get(a).version  # type: ignore[union-attr]
    place.operator.set(node(place), b"theirs")
    assert not put_if(a, b"late", version)
    put(a, b"last")
    assert place.operator.get(node(place))[0] == b"last"


def test_receipts_are_no_strangers_among_contenders(world: World, place: ZooKeeperStore) -> None:
    """Where a value shares its node with a queue."""
    a, b = world.client(), world.client()
    for party in (a, b):
        value: Any = party.client.value("x")
        value._key = queue_of("lock", "x")
        party.api.do(lambda value=value: value.set(b"beside the queue"))
    grant = a.acquire("x")
    waiting = b.api.start(lambda: b.client.lock("x").acquire(timeout=20))
    assert until(lambda: len(place.contenders("x")) == 2, SOON_S)
    node = f"/{place.prefix}/{queue_of('lock', 'x')}"
    assert len(place.operator.get_children(node)) == 4  # two of them are receipts
    a.release(grant)
    granted = waiting.result(20)
    b.release(granted)
    assert "store.stranger" not in world.heard.names()
