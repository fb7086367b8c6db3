"""The proxy reads the HTTP of etcd's gateway, gRPC, ZooKeeper's frames, and loses just what it should."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import h2.config
import h2.connection
import h2.events
import pytest
import redis
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss
from kazoo.retry import KazooRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from integration import servers
from integration.harness.etcd import encoded
from integration.harness.etcd_messages import MESSAGES
from integration.proxy import Proxy, matching

SOON_S = 30
FRAME = 2_000
ONCE = Retry(NoBackoff(), 0)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), SOON_S)


# etcd.


@pytest.fixture(params=["etcd34", "etcd35"])
def etcd(request: pytest.FixtureRequest) -> servers.Etcd:
    server: servers.Etcd = request.getfixturevalue(request.param)
    return server.start()


@pytest.fixture
def gateway(etcd: servers.Etcd) -> Iterator[Proxy]:
    with Proxy.of(etcd) as proxy:
        yield proxy


def post(connection: http.client.HTTPConnection, path: str, body: object) -> dict[str, object]:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    return answer


@pytest.fixture
def client(gateway: Proxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=SOON_S)
    yield connection
    connection.close()


def put(key: str) -> dict[str, str]:
    return {"key": encoded(key), "value": encoded("v")}


def test_requests_on_one_connection_are_counted(
    gateway: Proxy, client: http.client.HTTPConnection, prefix: str
) -> None:
    with gateway.counting() as counts:
        for number in range(3):
            post(client, "/v3/kv/put", put(f"{prefix}/{number}"))
        post(client, "/v3/kv/range", {"key": encoded("x")})
    assert counts.requests == {"/v3/kv/put": 3, "/v3/kv/range": 1}
    assert (counts.replies, counts.connections) == (4, 1)


def test_a_lost_reply_was_committed(
    etcd: servers.Etcd, gateway: Proxy, client: http.client.HTTPConnection, prefix: str
) -> None:
    key = f"{prefix}/mine"
    trap = gateway.drop_reply(match=matching("kv/put", encoded(key)))
    post(client, "/v3/kv/put", put(f"{prefix}/other"))
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        post(client, "/v3/kv/put", put(key))
    assert trap.sprung.is_set()
    assert etcd.keys(key) == [key]
    client.close()
    assert post(client, "/v3/kv/put", put(key)), "only once"


def test_a_lost_request_was_not_committed(
    etcd: servers.Etcd, gateway: Proxy, client: http.client.HTTPConnection, prefix: str
) -> None:
    trap = gateway.drop_request(match=matching("kv/put"))
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        post(client, "/v3/kv/put", put(prefix))
    assert trap.sprung.is_set()
    assert etcd.keys(prefix) == []


def test_a_held_request_is_carried_out_when_released(
    etcd: servers.Etcd, gateway: Proxy, client: http.client.HTTPConnection, prefix: str
) -> None:
    trap = gateway.hold_request(match=matching("kv/put"))
    client.request("POST", "/v3/kv/put", json.dumps(put(prefix)))
    assert trap.sprung.wait(SOON_S)
    assert etcd.keys(prefix) == []
    gateway.release(trap)
    assert client.getresponse().status == 200
    assert etcd.keys(prefix) == [prefix]


def test_a_watch_stream_goes_both_ways_at_once(etcd: servers.Etcd, gateway: Proxy, prefix: str) -> None:
    def create(key: str) -> bytes:
        message = json.dumps({"create_request": {"key": encoded(key)}}).encode()
        return b"%x\r\n%s\r\n" % (len(message), message)

    def line() -> dict[str, object]:
        while not (text := stream.readline().strip()).startswith(b"{"):
            assert text is not None
        parsed: dict[str, object] = json.loads(text)["result"]
        return parsed

    head = f"POST /v3/watch HTTP/1.1\r\nHost: {gateway.address}\r\nConnection: close\r\n"
    with connect(gateway) as one, one.makefile("rb") as stream, gateway.counting() as counts:
        one.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + create(f"{prefix}/a"))
        assert line()["created"]
        one.sendall(create(f"{prefix}/b"))
        assert line()["created"]
        etcd.put(f"{prefix}/b")
        assert "events" in line()
        trap = gateway.drop_reply(match=matching("watch chunk"))
        one.sendall(create(f"{prefix}/c"))
        assert trap.sprung.wait(SOON_S)
        with pytest.raises(ConnectionResetError):
            line()
    assert counts.requests == {"/v3/watch": 1, "/v3/watch chunk": 3}


# etcd by gRPC.


class Calls:
    """One connection by the library h2, on which calls are made side by side."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.messages: dict[int, list[bytes]] = {}
        self.ended: set[int] = set()

    def __enter__(self) -> Self:
        self._socket = connect(self._proxy)
        self._h2.initiate_connection()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def begin(self, path: str) -> int:
        """Open a stream, and say nothing on it yet."""
        stream = self._h2.get_next_available_stream_id()
        head = {":method": "POST", ":scheme": "http", ":authority": "etcd", ":path": f"/etcdserverpb.{path}"}
        head |= {"te": "trailers", "content-type": "application/grpc"}
        self._h2.send_headers(stream, list(head.items()))
        self.messages[stream] = []
        return stream

    def say(self, stream: int, message: Any, *, last: bool = False) -> None:
        """Say one message, a long one in several frames."""
        data = message.SerializeToString()
        data = bytes(1) + len(data).to_bytes(4) + data
        for at in range(0, len(data), FRAME):
            self._h2.send_data(stream, data[at : at + FRAME], end_stream=last and at + FRAME >= len(data))

    def ask(self, path: str, message: Any) -> int:
        """Make a call; nothing is sent before `flush`."""
        stream = self.begin(path)
        self.say(stream, message, last=True)
        return stream

    def flush(self) -> None:
        """Send all that was said."""
        self._socket.sendall(self._h2.data_to_send())

    def heard(self, stream: int, most: int = 1) -> list[bytes]:
        """Return the messages of a stream, when there are so many or it has ended."""
        self.flush()
        while len(self.messages[stream]) < most and stream not in self.ended:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError
            for event in self._h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.messages[event.stream_id].append(event.data[5:])
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.ended.add(event.stream_id)
            self.flush()
        return self.messages[stream]


def a_put(key: str, value: str = "v") -> Any:
    return MESSAGES["PutRequest"](key=key.encode(), value=value.encode())


@pytest.fixture
def before_grpc(etcd_grpc: servers.Etcd) -> Iterator[Proxy]:
    etcd_grpc.start()
    with Proxy.of(etcd_grpc) as proxy:
        yield proxy


@pytest.fixture
def calls(before_grpc: Proxy) -> Iterator[Calls]:
    with Calls(before_grpc) as made:
        yield made


def test_calls_side_by_side_on_one_connection_are_counted_each(
    before_grpc: Proxy, calls: Calls, prefix: str
) -> None:
    grant = MESSAGES["LeaseGrantRequest"](TTL=60)
    seen = before_grpc.expect(matching("kv/put", encoded(f"{prefix}/1")))
    with before_grpc.counting() as counts:
        asked = [calls.ask("KV/Put", a_put(f"{prefix}/{n}", "v" * 5_000 * n)) for n in range(5)]
        asked += [
            calls.ask("KV/Range", MESSAGES["RangeRequest"](key=b"x")),
            calls.ask("Lease/LeaseGrant", grant),
        ]
        assert all(calls.heard(stream) for stream in asked)
    assert counts.requests == {"/v3/kv/put": 5, "/v3/kv/range": 1, "/v3/lease/grant": 1}
    assert (counts.replies, counts.events, before_grpc.connections) == (7, 0, 1)
    assert seen.request is not None
    assert json.loads(seen.request.body) == {"key": encoded(f"{prefix}/1"), "value": encoded("v" * 5_000)}


def test_a_reply_that_says_only_that_it_failed_is_one(before_grpc: Proxy, calls: Calls) -> None:
    with before_grpc.counting() as counts:
        assert calls.heard(calls.ask("Lease/LeaseRevoke", MESSAGES["LeaseRevokeRequest"](ID=7))) == []
        assert calls.heard(calls.ask("KV/Nothing", MESSAGES["PutRequest"]())) == []
    assert counts.requests == {"/v3/lease/revoke": 1, "/etcdserverpb.KV/Nothing": 1}
    assert counts.replies == 2


@pytest.mark.parametrize("silent", [False, True])
def test_a_lost_reply_was_committed_by_grpc(
    etcd_grpc: servers.Etcd, before_grpc: Proxy, calls: Calls, prefix: str, silent: bool
) -> None:
    trap = before_grpc.drop_reply(2, match=matching("kv/put", encoded(f"{prefix}/")), silent=silent)
    assert calls.heard(calls.ask("KV/Put", a_put(f"{prefix}/first")))
    second = calls.ask("KV/Put", a_put(f"{prefix}/second"))
    if silent:
        calls.flush()
    else:
        with pytest.raises(ConnectionResetError):
            calls.heard(second)
    assert trap.sprung.wait(SOON_S)
    assert etcd_grpc.keys(f"{prefix}/") == [f"{prefix}/first", f"{prefix}/second"]
    assert before_grpc.connections == silent
    with Calls(before_grpc) as again:
        assert again.heard(again.ask("KV/Put", a_put(f"{prefix}/second"))), "only once"


def test_a_lost_request_was_not_committed_by_grpc_and_what_was_before_it_was(
    etcd_grpc: servers.Etcd, before_grpc: Proxy, calls: Calls, prefix: str
) -> None:
    trap = before_grpc.drop_request(match=matching("kv/put", encoded(f"{prefix}/b")))
    calls.heard(calls.ask("KV/Put", a_put(f"{prefix}/a")))
    asked = [calls.ask("KV/Put", a_put(f"{prefix}/{name}")) for name in "bc"]
    with pytest.raises(ConnectionResetError):
        calls.heard(asked[0])
    assert trap.sprung.is_set()
    assert etcd_grpc.keys(f"{prefix}/") == [f"{prefix}/a"]


def test_a_held_request_by_grpc_is_carried_out_when_released(
    etcd_grpc: servers.Etcd, before_grpc: Proxy, calls: Calls, prefix: str
) -> None:
    trap = before_grpc.hold_request(match=matching("kv/put"))
    asked = calls.ask("KV/Put", a_put(prefix))
    calls.flush()
    assert trap.sprung.wait(SOON_S)
    assert etcd_grpc.keys(prefix) == []
    before_grpc.release(trap)
    assert calls.heard(asked)
    assert etcd_grpc.keys(prefix) == [prefix]


def watch(key: str) -> Any:
    made = MESSAGES["WatchCreateRequest"](key=key.encode())
    return MESSAGES["WatchRequest"](create_request=made)


def test_the_messages_of_watches_by_grpc_are_told_apart(
    etcd_grpc: servers.Etcd, before_grpc: Proxy, calls: Calls, prefix: str
) -> None:
    def last(count: int) -> Any:
        return MESSAGES["WatchResponse"].FromString(calls.heard(stream, count)[-1])

    with before_grpc.counting() as counts:
        stream = calls.begin("Watch/Watch")
        for count, name in enumerate("ab", 1):
            calls.say(stream, watch(f"{prefix}/{name}"))
            assert last(count).created
        etcd_grpc.put(f"{prefix}/b")
        assert last(3).events
    assert counts.requests == {"/v3/watch": 1, "/v3/watch chunk": 2}
    assert (counts.replies, counts.events) == (3, 1)

    before_grpc.lose_events()
    lost = before_grpc.counts().events
    etcd_grpc.put(f"{prefix}/a", "v" * 40_000)  # in several frames
    assert servers.eventually(lambda: before_grpc.counts().events > lost, SOON_S)
    calls.say(stream, MESSAGES["WatchRequest"](cancel_request={"watch_id": 1}))
    assert last(4).canceled
    before_grpc.heal()
    etcd_grpc.put(f"{prefix}/a", "heard")
    assert last(5).events[0].kv.value == b"heard"

    trap = before_grpc.drop_reply(match=matching("watch chunk"))
    calls.say(stream, watch(f"{prefix}/c"))
    with pytest.raises(ConnectionResetError):
        last(6)
    assert trap.sprung.is_set()


# ZooKeeper.


@pytest.fixture
def ensemble(zookeeper: servers.ZooKeeper) -> Iterator[Proxy]:
    zookeeper.start()
    with Proxy.of(zookeeper) as proxy:
        yield proxy


@pytest.fixture
def kazoo(ensemble: Proxy) -> Iterator[KazooClient]:
    never = KazooRetry(max_tries=0)
    again = KazooRetry(max_tries=-1, delay=0.05, backoff=1)
    client = KazooClient(ensemble.address, timeout=10, command_retry=never, connection_retry=again)
    client.start(SOON_S)
    yield client
    client.stop()
    client.close()


def test_frames_are_counted_by_operation(ensemble: Proxy, kazoo: KazooClient, prefix: str) -> None:
    with ensemble.counting() as counts:
        kazoo.create(f"/{prefix}", include_data=True)
        kazoo.get_children("/")
        kazoo.get(f"/{prefix}", watch=lambda event: None)
        kazoo.transaction().commit()
        kazoo.sync("/")
        kazoo.delete(f"/{prefix}")
    assert counts.requests == {"create2": 1, "getChildren": 1, "get": 1, "sync": 1, "delete": 1, "multi": 1}
    assert (counts.replies, counts.events, counts.connections) == (6, 1, 0)


def _commit(kazoo: Any, path: str) -> None:
    transaction = kazoo.transaction()
    transaction.create(path)
    for result in transaction.commit():  # which returns what went wrong
        if isinstance(result, Exception):
            raise result


OPERATIONS: dict[str, Callable[[Any, str], object]] = {
    "create2": lambda kazoo, path: kazoo.create(path, include_data=True),
    "create": lambda kazoo, path: kazoo.create(path),
    "delete": lambda kazoo, path: kazoo.delete(path),
    "multi": _commit,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_lost_reply_was_committed_on_zookeeper(
    zookeeper: servers.ZooKeeper, ensemble: Proxy, kazoo: KazooClient, prefix: str, operation: str
) -> None:
    path = f"/{prefix}"
    if operation == "delete":
        kazoo.create(path)
    trap = ensemble.drop_reply(match=matching(operation, path))
    kazoo.create(f"/x{prefix}", include_data=True, ephemeral=True)  # another path, another reply
    with pytest.raises((ConnectionLoss, ConnectionClosedError)):
        OPERATIONS[operation](kazoo, path)
    assert trap.sprung.is_set()
    assert trap.request is not None
    assert trap.request.path == path
    with servers.kazoo_client(zookeeper) as direct:
        assert bool(direct.exists(path)) == (operation != "delete")
    servers.clean(zookeeper, prefix)


def test_a_session_outlives_a_short_cut(ensemble: Proxy, kazoo: KazooClient) -> None:
    session = kazoo.client_id[0]
    back = threading.Event()
    kazoo.add_listener(lambda state: back.set() if state == "CONNECTED" else None)
    ensemble.cut()
    assert not kazoo.connected or servers.eventually(lambda: not kazoo.connected, SOON_S)
    ensemble.heal()
    assert back.wait(SOON_S)
    assert kazoo.client_id[0] == session
    assert kazoo.exists("/") is not None


def test_four_letter_words_pass(ensemble: Proxy) -> None:
    with connect(ensemble) as one:
        one.sendall(b"ruok")
        assert one.recv(9) == b"imok"


def test_a_proxy_is_not_left_behind(server: servers.Server) -> None:
    before = threading.active_count()
    with Proxy.of(server) as proxy, connect(proxy):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)


# Redis.


@pytest.fixture
def before_redis(redis_server: servers.Redis) -> Iterator[Proxy]:
    redis_server.start()
    with Proxy.of(redis_server) as proxy:
        yield proxy


def test_commands_are_counted_by_name_and_messages_apart(before_redis: Proxy, prefix: str) -> None:
    act = "return {'a', {1, false, ARGV[2]}}"
    with before_redis.counting() as counts, redis.Redis(port=before_redis.port, protocol=2) as client:
        one = client.pubsub()
        one.subscribe(prefix)
        assert one.get_message(timeout=SOON_S)["type"] == "subscribe"
        assert client.eval(act, 1, f"{prefix}k", 0, "join") == [b"a", [1, None, b"join"]]
        client.pipeline(transaction=False).set(f"{prefix}k", "\r\n", px=9_000).get(f"{prefix}k").execute()
        client.publish(prefix, "news")
        assert one.get_message(timeout=SOON_S)["data"] == b"news"
        before_redis.lose_events()
        client.publish(prefix, "lost")
        assert client.ping()
        one.close()
    wanted = {"subscribe": 1, "join": 1, "set": 1, "get": 1, "publish": 2}
    assert {label: counts.requests[label] for label in wanted} == wanted
    assert (counts.events, counts.pings) == (2, 1)


def test_a_lost_reply_was_committed_on_redis(
    redis_server: servers.Redis, before_redis: Proxy, prefix: str
) -> None:
    trap = before_redis.drop_reply(match=matching("set", prefix))
    with redis.Redis(port=before_redis.port, protocol=2, retry=ONCE) as client:
        client.set("another", 1, px=1)
        with pytest.raises(redis.ConnectionError):
            client.set(prefix, 1, px=9_000)
    assert trap.sprung.is_set()
    with redis_server.client(decode_responses=True) as direct:
        assert direct.get(prefix) == "1"
