"""Both ways to Redis against a scripted server: deadlines, half replies, errors, the listener, closing."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis.credentials import CredentialProvider

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Changed, Disturbed, Gone, Granted
from recipes.errors import StoreDenied, StoreError, StoreFull, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.credentials import Credentials
from recipes.stores.redis import tasks
from recipes.stores.redis.access import Access
from recipes.stores.redis.places import Cluster, Sentinels
from recipes.stores.redis.requests import Command, Listen, Run, Scan, Sure, Track
from recipes.stores.redis.tasks import AsyncRedisConnection
from recipes.stores.redis.wire import SCRIPT, SHA, SINCE
from tests.pace import taking
from tests.stores.etcd.fakes import PEM, Server, trusting
from tests.stores.redis.fakes import (
    BEGIN,
    GET,
    NOTHING,
    RUN,
    AsyncApi,
    Box,
    Peer,
    Redis,
    hang,
    settings_for,
    unexpected,
)
from tests.threads import until_ended

Connect = Callable[..., Any]
IN_SCRIPT = "ERR Error running script (call to f_5e1a): @user_script:30: @user_script: 30: "
SILENT, THERE = "{2}", "{1}"
"""Of a key on each of two nodes that have one half of the slots each."""
SOON_S = 0.3
LATE_S = 0.35


def raised(api: Any, request: Any, timeout_s: float = 5.0) -> StoreError:
    with pytest.raises(StoreError) as caught:
        api.ask(request, timeout_s)
    return caught.value


def closing(peer: Peer, words: list[str]) -> Any:
    """Close the connection instead of an answer."""
    peer.sock.shutdown(socket.SHUT_RDWR)
    return NOTHING


# Requests.


def test_a_run_sends_the_hash_and_when_the_server_may_grant(connect: Connect) -> None:
    with Redis(EVALSHA=[b"7", 0, -1, [[b"5", "W"]]]) as redis:
        assert connect(redis.port).ask(RUN) == [b"7", 0, -1, [[b"5", b"W"]]]
        assert redis.heard == [["EVALSHA", SHA, "2", *RUN.keys, "0", "see", "a"]]


def test_a_script_that_the_server_does_not_know_is_sent_whole(connect: Connect) -> None:
    with Redis(EVALSHA="-NOSCRIPT No matching script.", EVAL="done") as redis:
        api = connect(redis.port)
        assert api.ask(Batch((GET, RUN))) == (b"OK", b"done")
        assert [words[:3] for words in redis.heard] == [
            ["GET", "lock:a"],
            ["EVALSHA", SHA, "2"],
            ["EVAL", SCRIPT, "2"],
        ]


def test_a_batch_goes_out_at_once_and_an_error_stands_for_its_part(connect: Connect) -> None:
    arrived = threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        if words[1] == "lock:b":
            arrived.set()
            peer.say("-WRONGTYPE Operation against a key")
            peer.say("first")
            return NOTHING
        return NOTHING

    other = Command(("GET", "lock:b"), "lock:b")
    with Redis(GET=answer) as redis:
        refused, first = connect(redis.port).ask(Batch((GET, other)))
        assert arrived.is_set()
        assert isinstance(refused, StoreRefused)
        assert first == b"first"


def test_calls_at_once_have_a_connection_each_which_the_next_one_uses(connect: Connect) -> None:
    both = threading.Barrier(2)

    def answer(peer: Peer, words: list[str]) -> Any:
        if words[1] == "lock:b":
            both.wait(5)
        return words[1]

    other = Command(("GET", "lock:b"), "lock:b")
    with Redis(GET=answer) as redis:
        api = connect(redis.port)
        assert api.asks([other, other]) == [b"lock:b", b"lock:b"]
        for _ in range(3):
            assert api.ask(GET) == b"lock:a"
        assert redis.connections == 2


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(connect: Connect) -> None:
    ended, closed = threading.Event(), threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        peer.say("answered")
        if redis.connections == 1:
            peer.sock.shutdown(socket.SHUT_WR)
            ended.set()
            assert peer.ended()
            closed.set()
        return NOTHING

    with Redis(GET=answer) as redis:
        api = connect(redis.port)
        assert api.ask(GET) == b"answered"
        assert api.until(ended), "after its reply"
        assert api.ask(GET) == b"answered"
        assert api.until(closed), "it is closed on this side too"
        assert redis.connections == 2


def test_a_connection_that_is_free_outlives_one_that_cannot_be_made(connect: Connect) -> None:
    access = Access(credentials=Credentials.given("redis", {"username": "me", "password": "pass"}))
    with Redis() as redis:
        api = connect(redis.port, access=access)
        assert api.ask(GET) == b"OK"
        redis.answers["AUTH"] = "-WRONGPASS the password has been changed"
        assert isinstance(raised(api, Scan("*")), StoreDenied)
        assert api.ask(GET) == b"OK"
        assert redis.connections == 2


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_a_loop_has_read_unasked_is_not_taken_for_an_answer(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[Peer] = []
    received = tasks._Streams.data_received

    def answer(peer: Peer, words: list[str]) -> Any:
        peers.append(peer)
        return "own"

    async def main() -> list[Any]:
        read = asyncio.Event()

        def data_received(streams: tasks._Streams, data: bytes) -> None:
            received(streams, data)
            if data == b":7\r\n":
                read.set()

        monkeypatch.setattr(tasks._Streams, "data_received", data_received)
        connection = AsyncRedisConnection(settings_for(redis.port), unexpected)
        found = [await connection.ask(GET, 5.0)]
        peers[0].say(7)
        await asyncio.wait_for(read.wait(), 5)
        found.append(await connection.ask(GET, 5.0))
        await connection.close()
        return found

    with Redis(GET=answer) as redis, asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == [b"own"] * 2
        assert redis.connections == 2


def test_keys_are_found_by_their_pattern(connect: Connect) -> None:
    def answer(peer: Peer, words: list[str]) -> Any:
        assert words[2:4] == ["MATCH", "lock:*"]
        return ["12", ["lock:a"]] if words[1] == "0" else ["0", ["lock:b", "lock:a"]]

    with Redis(SCAN=answer) as redis:
        assert connect(redis.port).ask(Scan("lock:*")) == {"lock:a", "lock:b"}
    with Redis(SCAN="-NOPERM no") as redis:
        assert isinstance(raised(connect(redis.port), Scan("*")), StoreDenied)


def test_keys_are_found_on_a_server_that_cannot_note_when_it_grants(connect: Connect) -> None:
    """It has no slot of the prefix. A connection that was made for that grants nothing later."""
    with Redis(SCAN=["0", ["{app}:a:queue"]], EVAL="-MOVED 1 127.0.0.1:1") as redis:
        redis.facts["replication"] = redis.facts["replication"].replace("0" * 40, "1" * 40)
        api = connect(redis.port, grace_s=20.0, prefix="{app}:")
        assert api.ask(Scan("*")) == {"{app}:a:queue"}
        assert isinstance(raised(api, RUN), StoreUnavailable)
        assert redis.heard_first("EVAL")
        assert not redis.heard_first("EVALSHA")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("kind", ["join", "other", "grant"])
def test_a_node_that_is_silent_keeps_no_request_to_another_waiting(
    new_loop: Callable[[], asyncio.AbstractEventLoop], kind: str
) -> None:
    heard = threading.Semaphore(0)

    def silence(peer: Peer, words: list[str]) -> Any:
        heard.release()
        return hang(peer, words)

    def request(key: str) -> Any:
        run = Run((key,), ("join" if kind == "join" else "see", "a"))
        return Sure((run,), grants=True) if kind == "grant" else run

    async def main(connection: AsyncRedisConnection) -> Any:
        await connection.ask(request(THERE), 5.0)  # the map is read
        waiting = [asyncio.ensure_future(connection.ask(request(SILENT), 60.0)) for _ in range(40)]
        for _ in range(tasks.MOST_AT_ONCE):
            assert await asyncio.to_thread(heard.acquire, timeout=5)
        (found,) = await asyncio.gather(connection.ask(request(THERE), 5.0), return_exceptions=True)
        await connection.close()
        await asyncio.gather(*waiting, return_exceptions=True)
        return found

    with Redis(EVALSHA=silence) as silent, Redis(EVALSHA="done") as redis:
        ranges = [[0, 8000, ["127.0.0.1", silent.port]], [8001, 16383, ["127.0.0.1", redis.port]]]
        redis.answers["CLUSTER"] = ranges
        settings = settings_for(redis.port, place=Cluster([("127.0.0.1", redis.port)]))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            found = runner.run(main(AsyncRedisConnection(settings, unexpected)))
    assert found == ((b"done",) if kind == "grant" else b"done")


# Deadlines.


def stall(at: str, asked: threading.Event) -> Callable[[Peer, list[str]], Any]:
    """Return what says that it was asked, and answers part of a reply, or bytes that never end."""

    def answer(peer: Peer, words: list[str]) -> Any:
        asked.set()
        if at == "half":
            peer.sock.sendall(b"*2\r\n$3\r\nab")
        elif at == "trickle":
            peer.sock.sendall(b"*100000\r\n")
            while not peer.stop.wait(0.01):
                peer.sock.sendall(b":1\r\n")
        return hang(peer, words)

    return answer


@pytest.mark.parametrize("at", ["silent", "half", "trickle"])
@pytest.mark.parametrize("command", ["GET", "AUTH", "SELECT", "INFO"])
def test_each_step_ends_at_the_one_deadline(connect: Connect, command: str, at: str) -> None:
    access = Access(db=3, credentials=Credentials.given("redis", {"username": "me", "password": "pass"}))
    asked = threading.Event()
    with Redis(**{command: stall(at, asked)}) as redis:
        for within_s in (SOON_S, 1.0, 5.0):
            api = connect(redis.port, access=access, grace_s=20.0)
            with taking(at_most_s=within_s + LATE_S - SOON_S):
                error = raised(api, GET, within_s)
            assert isinstance(error, StoreUnavailable)
            if asked.is_set() or not error.unsent:  # else a busy machine did not come to that step
                break
    assert asked.is_set(), "it should have come to that step"
    assert error.detail == "no answer in time"
    assert error.unsent is (command != "GET")


def test_a_server_that_does_not_speak_tls_back_ends_at_the_deadline(connect: Connect) -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        api = connect(server.port, access=Access(context=trusting()))
        with taking(at_most_s=LATE_S):
            error = raised(api, GET, SOON_S)
    assert error.unsent


def test_a_connect_that_hangs_ends_at_the_deadline(connect: Connect) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        filling = [socket.socket() for _ in range(3)]
        for one in filling:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        api = connect(port)
        with taking(at_most_s=LATE_S):
            error = raised(api, GET, SOON_S)
        for one in filling:
            one.close()
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


def test_a_password_that_is_not_given_is_waited_for_no_longer(connect: Connect) -> None:
    asked = threading.Event()

    def password() -> str:
        asked.wait(5)
        return "late"

    credentials = Credentials.given("redis", {"username": "me", "password": password})
    with Redis() as redis:
        api = connect(redis.port, access=Access(credentials=credentials))
        with taking(at_most_s=LATE_S):
            error = raised(api, GET, SOON_S)
        asked.set()
    assert error.unsent


class Provider(CredentialProvider):
    """Of a user's own client: says what it is given to say, or blocks."""

    def __init__(self, *said: str) -> None:
        self.said, self.goes_on, self.called = said, threading.Event(), threading.Event()

    def get_credentials(self) -> tuple[str, ...]:  # type: ignore[override]
        self.called.set()
        assert self.goes_on.wait(10)
        return self.said


class Awaited(CredentialProvider):
    """One that is for asyncio only."""

    async def get_credentials_async(self) -> tuple[str, ...]:  # type: ignore[override]
        await asyncio.sleep(0)
        return "me", "awaited"


def test_a_provider_that_does_not_return_is_waited_for_no_longer(connect: Connect) -> None:
    provider = Provider("me", "late")
    with Redis() as redis:
        api = connect(redis.port, access=Access(options={"credential_provider": provider}))
        with taking(at_most_s=LATE_S):
            error = raised(api, GET, SOON_S)
        assert provider.called.is_set()
        provider.goes_on.set()
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


@pytest.mark.parametrize("said", [("pass",), ("me", "pass")])
def test_a_provider_is_asked_for_each_connection(connect: Connect, said: tuple[str, ...]) -> None:
    provider = Provider(*said)
    provider.goes_on.set()
    with Redis(SCAN=["0", []]) as redis:
        api = connect(redis.port, access=Access(options={"credential_provider": provider}))
        assert api.ask(GET) == b"OK"
        until_ended("recipes-password", 10)  # who comes before gets the answer that is on its way
        provider.said = ("me", "another")
        api.ask(Scan("*"))
        assert redis.heard_first("AUTH") == [["AUTH", *said], ["AUTH", "me", "another"]]


def test_a_provider_that_raises_leaves_nothing_to_log_in_with(connect: Connect) -> None:
    with Redis() as redis:
        api = connect(redis.port, access=Access(options={"credential_provider": CredentialProvider()}))
        error = raised(api, GET)
    assert isinstance(error, StoreDenied)
    assert "credential_provider raised NotImplementedError" in error.detail


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_loop_goes_on_while_a_provider_is_asked(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    provider = Provider("me", "pass")

    async def main() -> None:
        access = Access(options={"credential_provider": provider})
        connection = AsyncRedisConnection(settings_for(redis.port, access=access), unexpected)
        asking = asyncio.ensure_future(connection.ask(GET, 5.0))
        assert await asyncio.to_thread(provider.called.wait, 5)
        provider.goes_on.set()
        assert await asking == b"OK"
        await connection.close()

    with Redis() as redis, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_provider_for_asyncio_is_awaited() -> None:
    with Redis() as redis:
        api = AsyncApi(redis.port, access=Access(options={"credential_provider": Awaited()}))
        assert api.ask(GET) == b"OK"
        assert redis.heard_first("AUTH") == [["AUTH", "me", "awaited"]]
        api.end()


def test_a_server_that_reads_nothing_ends_at_the_deadline(connect: Connect) -> None:
    long = Command(("SET", "lock:a", b"x" * 50_000_000), "lock:a")
    with Server(lambda peer, number: peer.hang()) as server:
        api = connect(server.port)
        with taking(at_most_s=LATE_S + 0.3):
            error = raised(api, long, SOON_S)
    assert isinstance(error, StoreUnavailable)
    assert not error.unsent


def test_what_was_not_read_to_its_end_is_never_read_as_the_next_reply(connect: Connect) -> None:
    late = threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        if words[1] == "lock:b":
            late.wait(5)
            return "of the other"
        return "own"

    with Redis(GET=answer) as redis:
        api = connect(redis.port)
        assert isinstance(raised(api, Command(("GET", "lock:b"), "lock:b"), 0.05), StoreUnavailable)
        late.set()
        assert [api.ask(GET) for _ in range(3)] == [b"own"] * 3


# Failures.


@pytest.mark.parametrize("how", ["close", "half", "reset", "garbage"])
def test_a_connection_that_breaks_is_no_answer(connect: Connect, how: str) -> None:
    def answer(peer: Peer, words: list[str]) -> Any:
        if how == "half":
            peer.sock.sendall(b"*2\r\n$3\r\nab")
        if how == "garbage":
            peer.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return NOTHING
        if how == "reset":
            peer.reset()
        return closing(peer, words) if how != "reset" else NOTHING

    with Redis(GET=answer) as redis:
        error = raised(connect(redis.port), GET)
    assert isinstance(error, StoreUnavailable)
    assert not error.unsent


@pytest.mark.parametrize("said", [7, [], ["host", "port"]])
def test_a_sentinel_whose_reply_is_not_understood_is_no_answer(connect: Connect, said: Any) -> None:
    with Redis(SENTINEL=said) as redis:
        place = Sentinels([("127.0.0.1", redis.port)], "main", (Access(),))
        error = raised(connect(redis.port, place=place), GET)
    assert isinstance(error, StoreUnavailable)
    assert error.unsent
    assert "not understood" in error.detail


def test_a_server_that_is_not_there_is_no_answer_and_nothing_was_sent(
    connect: Connect, closed_port: Callable[[], int]
) -> None:
    error = raised(connect(closed_port()), GET)
    assert isinstance(error, StoreUnavailable)
    assert (error.detail, error.unsent, error.store) == ("Connection refused", True, "redis://fake")


@pytest.mark.parametrize(
    ("said", "kind", "unsent"),
    [
        ("LOADING Redis is loading the dataset in memory", StoreUnavailable, True),
        ("READONLY You can't write against a read only replica.", StoreUnavailable, True),
        ("CLUSTERDOWN Hash slot not served", StoreUnavailable, True),
        ("MASTERDOWN Link with MASTER is down", StoreUnavailable, True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", StoreUnavailable, True),
        ("BUSY Redis is busy running a script.", StoreUnavailable, True),
        ("NOREPLICAS Not enough good replicas to write.", StoreUnavailable, True),
        ("MOVED 3999 127.0.0.1:6381", StoreUnavailable, True),
        ("ERR max number of clients reached", StoreUnavailable, False),
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreFull, None),
        ("MISCONF Redis is configured to save RDB snapshots", StoreFull, None),
        (f"{IN_SCRIPT}-OOM command not allowed when used memory > 'maxmemory'.", StoreFull, None),
        (f"{IN_SCRIPT}-MISCONF Redis is configured to save RDB snapshots", StoreFull, None),
        (f"{IN_SCRIPT}-READONLY You can't write against a read only replica.", StoreUnavailable, True),
        (f"{IN_SCRIPT}-NOREPLICAS Not enough good replicas to write.", StoreUnavailable, True),
        (f"{IN_SCRIPT}-WRONGTYPE Operation against a key", StoreRefused, None),
        (f"{IN_SCRIPT}user_script:1: Script attempted to access", StoreRefused, None),
        ("NOAUTH Authentication required.", StoreDenied, None),
        ("WRONGPASS invalid username-password pair", StoreDenied, None),
        ("NOPERM User me has no permissions to run the 'get' command", StoreDenied, None),
        (f"{IN_SCRIPT}-NOPERM The user executing the script can't run this command", StoreDenied, None),
        ("ERR The user executing the script can't run this command script: 7c19", StoreDenied, None),
        ("ERR The user executing the script can't publish to the channel", StoreDenied, None),
        ("ERR ACL failure in script: User me has no permissions to run 'zadd'", StoreDenied, None),
        ("ERR unknown command", StoreRefused, None),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", StoreRefused, None),
    ],
)
def test_errors_of_the_server_are_errors_of_the_package(
    connect: Connect, said: str, kind: type[StoreError], unsent: bool | None
) -> None:
    with Redis(GET=f"-{said}") as redis:
        error = raised(connect(redis.port), GET)
    assert type(error) is kind
    assert getattr(error, "unsent", None) is unsent
    assert said.partition(" ")[2] in str(error)


@pytest.mark.parametrize("said", ["READONLY no", f"{IN_SCRIPT}-READONLY no"])
def test_a_server_that_is_no_master_any_more_is_connected_to_anew(connect: Connect, said: str) -> None:
    with Redis(GET=f"-{said}") as redis:
        api = connect(redis.port)
        raised(api, GET)
        raised(api, GET)
        assert redis.connections == 2


@pytest.mark.parametrize("command", ["AUTH", "SELECT", "INFO"])
def test_a_server_that_refuses_while_a_connection_begins_was_sent_nothing(
    connect: Connect, command: str
) -> None:
    access = Access(db=3, credentials=Credentials.given("redis", {"username": "me", "password": "pass"}))
    with Redis(**{command: "-LOADING Redis is loading the dataset in memory"}) as redis:
        error = raised(connect(redis.port, access=access, grace_s=20.0), GET)
        assert not redis.heard_first("GET")
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


def test_users_log_in_and_wrong_ones_are_denied(connect: Connect) -> None:
    access = Access(credentials=Credentials.given("redis", {"username": "me", "password": "pass"}))
    with Redis() as redis:
        assert connect(redis.port, access=access).ask(GET) == b"OK"
        assert redis.heard == [["AUTH", "me", "pass"], ["GET", "lock:a"]]
    with Redis(AUTH="-WRONGPASS invalid username-password pair") as redis:
        error = raised(connect(redis.port, access=access), GET)
    assert isinstance(error, StoreDenied)
    assert "pass" not in error.detail.replace("password", "")


def test_tls_is_spoken_and_a_server_that_is_not_trusted_is_refused(connect: Connect) -> None:
    with Redis(tls=True, GET="secret") as redis:
        assert connect(redis.port, access=Access(context=trusting())).ask(GET) == b"secret"
    with Server(lambda peer, number: peer.hang()) as deaf:  # to others a greeting by TLS is random bytes
        error = raised(connect(deaf.port, access=Access(context=trusting())), GET, 1.0)
        assert error.unsent


def test_the_files_of_a_users_own_client_are_read_once(connect: Connect, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(PEM.read_bytes())
    access = Access(options={"ssl": True, "ssl_ca_certs": str(ca)})
    with Redis(tls=True, GET="secret") as redis:
        assert connect(redis.port, access=access).ask(GET) == b"secret"
        ca.unlink()
        assert connect(redis.port, access=access).ask(GET) == b"secret"
        assert redis.connections == 2


def test_a_certificate_that_is_not_trusted_is_an_error_of_its_own(connect: Connect) -> None:
    import ssl

    with Redis(tls=True) as redis:
        error = raised(connect(redis.port, access=Access(context=ssl.create_default_context())), GET)
        redis.failures.clear()
    assert isinstance(error, StoreUntrusted)
    assert "certificate is not accepted" in error.detail
    assert error.unsent


# What counts only if replicas have it.


@pytest.mark.parametrize(("acknowledged", "enough"), [(2, True), (3, True), (1, False), ("-ERR no", False)])
def test_what_has_to_be_sure_waits_for_all_replicas(
    connect: Connect, acknowledged: Any, enough: bool
) -> None:
    with Redis(WAIT=acknowledged, GET="found") as redis:
        api = connect(redis.port, replicas=2)
        (found,) = api.ask(Sure((GET,)))
        words = redis.heard_first("WAIT")
        assert len(words) == 1
        assert words[0][1] == "2"
        assert 0 < int(words[0][2]) < 5000
        if enough:
            assert found == b"found"
        else:
            assert isinstance(found, StoreUnavailable)
            assert not found.unsent
            assert "2" in found.detail
        assert api.ask(GET) == b"found"
        assert len(redis.heard_first("WAIT")) == 1, "what need not be sure waits for none"


@pytest.mark.parametrize(("timeout_s", "least", "most"), [(5.0, 2000, 4500), (0.8, 1, 400)])
def test_the_server_is_given_less_time_than_there_is_for_its_answer_to_arrive(
    connect: Connect, timeout_s: float, least: int, most: int
) -> None:
    with Redis(WAIT=2) as redis:
        connect(redis.port, replicas=2).ask(Sure((GET,)), timeout_s)
        assert least <= int(redis.heard_first("WAIT")[0][2]) <= most


def test_a_script_that_had_to_be_sent_whole_is_waited_for_again(connect: Connect) -> None:
    waits = iter([2, 1])
    with Redis(WAIT=lambda peer, words: next(waits), EVALSHA="-NOSCRIPT no", EVAL="done") as redis:
        (found,) = connect(redis.port, replicas=2).ask(Sure((RUN,)))
    assert isinstance(found, StoreUnavailable)


# The moment before which nothing is granted.


def not_before(connect: Connect, redis: Redis) -> int:
    connect(redis.port, grace_s=20.0).ask(RUN)
    return int(redis.heard_first("EVALSHA")[-1][5])


def test_a_server_that_started_waits_from_then_on(connect: Connect) -> None:
    with Redis() as redis:
        assert not_before(connect, redis) == 1_000_000_005 - 99_000_000 + 20_000_000
        assert not redis.heard_first("EVAL")


def test_a_server_that_took_over_waits_from_when_that_was_first_seen(connect: Connect) -> None:
    with Redis(EVAL="900000005", EVALSHA="done") as redis:
        redis.facts["replication"] = redis.facts["replication"].replace("0" * 40, "1" * 40)
        assert not_before(connect, redis) == 900_000_005 + 20_000_000
        noted = ["EVAL", SINCE, "1", "lock:~life:", "run-1:replid-1", "1000000005"]
        assert redis.heard_first("EVAL") == [noted]


def test_a_server_whose_clock_was_set_back_to_before_its_start_waits_from_when_that_was_first_seen(
    connect: Connect,
) -> None:
    with Redis(EVAL="900000005", EVALSHA="done") as redis:
        redis.facts["server"] = redis.facts["server"].replace("seconds:100", "seconds:-3600")
        assert not_before(connect, redis) == 900_000_005 + 20_000_000


def test_a_server_that_has_just_started_waits_from_now(connect: Connect) -> None:
    with Redis() as redis:
        redis.facts["server"] = redis.facts["server"].replace("seconds:100", "seconds:0")
        assert not_before(connect, redis) == 1_000_000_005 + 20_000_000


@pytest.mark.parametrize(("left_ms", "learned"), [(20_000, 1), (20_001, 2)])
@pytest.mark.parametrize("together", [False, True])
def test_a_connection_that_has_to_wait_for_longer_than_the_grace_learns_again(
    connect: Connect, left_ms: int, learned: int, together: bool
) -> None:
    """The clock was set back since it learned."""
    asked = Batch((RUN,)) if together else RUN
    with Redis(EVALSHA=["starting", left_ms]) as redis:
        api = connect(redis.port, grace_s=20.0)
        for _ in range(2):
            api.ask(asked)
        assert len(redis.heard_first("TIME")) == redis.connections == learned


@pytest.mark.parametrize("how", ["MOVED", "ASK"])
def test_a_server_whose_slot_for_that_has_gone_elsewhere_is_known_there(connect: Connect, how: str) -> None:
    """Else each connection to it fails in the same way."""
    with Redis(EVAL="900000005") as other, Redis(EVALSHA="done") as redis:
        redis.facts["replication"] = redis.facts["replication"].replace("0" * 40, "1" * 40)
        redis.answers |= {"EVAL": f"-{how} 1 127.0.0.1:{other.port}"}
        redis.answers |= {"CLUSTER": [[0, 16383, ["127.0.0.1", redis.port]]]}
        api = connect(redis.port, place=Cluster([("127.0.0.1", redis.port)]), grace_s=20.0, replicas=1)
        assert api.ask(RUN) == b"done"
        assert int(redis.heard_first("EVALSHA")[-1][5]) == 900_000_005 + 20_000_000
        assert other.heard[-1][:2] == ["EVAL", SINCE]
        assert (["ASKING"] in other.heard) == (how == "ASK")
        assert api.ask(RUN) == b"done"
        assert len(redis.heard_first("CLUSTER")) == (1 if how == "ASK" else 2), "the map is read anew"


EXPECTED = ["role", "uptime_in_seconds", "run_id", "master_replid", "master_replid2"]


@pytest.mark.parametrize("missing", EXPECTED)
def test_a_server_that_does_not_say_what_it_is_known_by_is_refused(connect: Connect, missing: str) -> None:
    """A service that is like Redis, say; without the last one it would never seem to have taken over."""
    with Redis(EVALSHA="done") as redis:
        if missing in ("run_id", "master_replid"):  # which tell the lives of one that was promoted
            redis.facts["replication"] = redis.facts["replication"].replace("0" * 40, "1" * 40)
        redis.facts = {kind: re.sub(f"{missing}:.*\r\n", "", said) for kind, said in redis.facts.items()}
        error = raised(connect(redis.port, grace_s=20.0), RUN)
        assert isinstance(error, StoreRefused)
        assert f"its INFO does not say {missing}" in str(error)
        assert not redis.heard_first("EVALSHA")


def test_a_server_that_cannot_be_known_elsewhere_grants_nothing(
    connect: Connect, closed_port: Callable[[], int]
) -> None:
    with Redis(EVALSHA="done") as redis:
        redis.facts["replication"] = redis.facts["replication"].replace("0" * 40, "1" * 40)
        redis.answers |= {"EVAL": f"-MOVED 1 127.0.0.1:{closed_port()}"}
        redis.answers |= {"CLUSTER": [[0, 16383, ["127.0.0.1", redis.port]]]}
        place = Cluster([("127.0.0.1", redis.port)])
        error = raised(connect(redis.port, place=place, grace_s=20.0, replicas=1), RUN)
        assert not redis.heard_first("EVALSHA")
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


def test_a_replica_is_not_asked(connect: Connect) -> None:
    with Redis() as redis:
        redis.facts["replication"] = redis.facts["replication"].replace("master\r", "slave\r")
        error = raised(connect(redis.port, grace_s=20.0), RUN)
        assert not redis.heard_first("EVALSHA")
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


@pytest.mark.parametrize(("replicas", "asked"), [(0, 1), (1, 2)])
def test_where_another_may_have_taken_over_an_idle_connection_learns_it_anew(
    connect: Connect, replicas: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Redis() as redis:
        api = connect(redis.port, grace_s=20.0, replicas=replicas)
        api.ask(RUN)
        monkeypatch.setattr("recipes.stores.redis.wire.IDLE_S", -1.0)
        api.ask(RUN)
        assert len(redis.heard_first("TIME")) == asked
        assert len(redis.heard_first("EVALSHA")) == 2


# The listener.


def test_the_listener_is_there_before_the_first_request_is_sent(connect: Connect) -> None:
    with Redis() as redis:
        api = connect(redis.port)
        assert api.ask(BEGIN) == (b"OK",)
        names = [words[0] for words in redis.heard]
        assert names == ["CLIENT", "SUBSCRIBE", "SUBSCRIBE", "SET"]
        api.ask(BEGIN)
        assert [words[0] for words in redis.heard][4:] == ["SET"]


def test_a_session_whose_listener_cannot_listen_does_not_begin(connect: Connect) -> None:
    with Redis(SUBSCRIBE="-NOPERM no channel") as redis:
        api = connect(redis.port)
        assert isinstance(raised(api, BEGIN), StoreDenied)
        assert not redis.heard_first("SET")
        del redis.answers["SUBSCRIBE"]
        assert api.ask(BEGIN) == (b"OK",), "the next try may"


@pytest.mark.parametrize("first", ["message", "listen"])
def test_what_rings_reaches_the_call_that_listens(connect: Connect, first: str) -> None:
    box, marker = Box(), Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/8",), marker))
        if first == "listen":
            api.ask(Listen(("a/7",), box))
        peer.ring("a h7 g5")
        peer.ring("a c8")
        assert api.event(marker) == Changed("a/8")
        if first == "message":
            api.ask(Listen(("a/7",), box))
        assert api.event(box) == Granted("a/7")


def test_a_run_listens_from_before_it_is_sent(connect: Connect) -> None:
    box = Box()

    def answer(peer: Peer, words: list[str]) -> Any:
        redis.bell.ring("a g5")
        return 1

    with Redis(EVALSHA=answer) as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        redis.bell = api.listener(redis)
        assert api.ask(Run(RUN.keys, RUN.words, box, ("a/5",))) == 1
        assert api.event(box) == Gone("a/5")


def test_a_mailbox_that_is_forgotten_hears_nothing_more(connect: Connect) -> None:
    box, marker = Box(), Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        api.ask(Listen(("a/2",), marker))
        api.forget(box)
        peer.ring("a g1 g2")
        assert api.event(marker) == Gone("a/2")
        assert box.events.empty()


def heard_again(api: Any, redis: Redis, box: Box) -> Any:
    """Return what the next listener notifies of ``a/1``, once it notifies of more than that it is new."""
    peer, found = api.listener(redis), Disturbed()
    while found == Disturbed():
        api.ask(Listen(("a/1",), box))
        peer.ring("a g1")
        found = api.event(box)
    return found


def test_a_listener_that_is_cut_disturbs_and_listens_again(connect: Connect) -> None:
    box = Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        peer.reset()
        assert api.event(box) == Disturbed()
        api.ask(Listen(("a/1",), box))
        assert api.event(box) == Disturbed(), "it may have been missed just before"
        assert heard_again(api, redis, box) == Gone("a/1")


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b":many\r\n",
        b":7\r\n",
        b"*0\r\n",
        b"*1\r\n$7\r\nmessage\r\n",
        b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n:7\r\n",
        b"*3\r\n$7\r\nmessage\r\n*0\r\n*1\r\n*0\r\n",
        b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n:7\r\n",
        b"-ERR odd\r\n",
        b"*1\r\n" * 5000,
    ],
)
def test_a_listener_that_hears_no_message_disturbs_and_listens_again(
    connect: Connect, garbage: bytes
) -> None:
    box = Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        peer.sock.sendall(garbage)
        assert api.event(box) == Disturbed()
        assert heard_again(api, redis, box) == Gone("a/1")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_somebody_ends_disturbs_and_is_replaced(connect: Connect) -> None:
    box = Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        api.end_listener(peer)
        assert api.event(box) == Disturbed()
        assert api.ask(GET) == b"OK"
        assert heard_again(api, redis, box) == Gone("a/1")


def test_a_listener_that_is_not_answered_disturbs_and_listens_again(connect: Connect) -> None:
    box = Box()
    with Redis(PING=NOTHING) as redis:
        api = connect(redis.port, silence_s=0.05)
        api.ask(BEGIN)
        api.listener(redis)
        api.ask(Listen(("a/1",), box))
        assert api.event(box) == Disturbed()
        assert api.listener(redis)
        assert redis.heard_first("PING")


def test_a_half_message_is_read_to_its_end_later(connect: Connect) -> None:
    box, pinged = Box(), threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        pinged.set()
        peer.sock.sendall(b"6\r\na g1 q\r\n")
        return ["pong", ""]

    with Redis(PING=answer) as redis:
        api = connect(redis.port, silence_s=1.0)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        peer.sock.sendall(b"*3\r\n$7\r\nmessage\r\n$13\r\nlock:~bell:me\r\n$")
        assert api.event(box) == Gone("a/1")
        assert pinged.is_set()


def test_a_key_of_others_is_tracked_for_the_listener(connect: Connect) -> None:
    box = Box()
    with Redis(TYPE="+string", GET="theirs") as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        for _ in range(2):
            assert api.ask(Track("lock:a", "a/-1", box)) == b"theirs"
            peer.ring(["lock:a"], "__redis__:invalidate")
            assert api.event(box) == Changed("a/-1")
        tracking = ["CLIENT", "TRACKING", "ON", "REDIRECT", "7"]
        assert [words for words in redis.heard_first("CLIENT") if words[1] == "TRACKING"] == [tracking]


@pytest.mark.parametrize("tracks_another", [False, True])
def test_a_call_is_disturbed_when_the_connection_that_tracks_its_key_is_lost(
    connect: Connect, tracks_another: bool
) -> None:
    box, tracking = Box(), queue.SimpleQueue[Peer]()

    def answer(peer: Peer, words: list[str]) -> Any:
        if words[1] == "TRACKING":
            tracking.put(peer)
        return redis.on_client(peer, words)

    with Redis(TYPE="+string", GET="theirs", CLIENT=answer) as redis:
        api = connect(redis.port, silence_s=5.0 if tracks_another else 0.05)
        api.ask(BEGIN)
        api.listener(redis)
        api.ask(Track("lock:a", "a/-1", box))
        tracking.get(timeout=5).sock.shutdown(socket.SHUT_RDWR)
        if tracks_another:
            while tracking.empty():  # until its end has arrived here
                api.ask(Track("lock:b", "b/-1", Box()))
        assert api.event(box) == Disturbed()


@pytest.mark.parametrize(
    ("kind", "value", "reply"),
    [("none", None, None), ("hash", "-WRONGTYPE Operation against a key", b"a hash")],
)
def test_what_a_tracked_key_is_now(connect: Connect, kind: str, value: Any, reply: Any) -> None:
    with Redis(TYPE=f"+{kind}", GET=value) as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        api.listener(redis)
        assert api.ask(Track("lock:a", "a/-1", Box())) == reply


def test_a_key_is_not_tracked_for_a_listener_that_was_lost(connect: Connect) -> None:
    said = "-ERR The client ID you want redirect to does not exist"

    def answer(peer: Peer, words: list[str]) -> Any:
        return said if words[1] == "TRACKING" else 7

    with Redis(CLIENT=answer) as redis:
        api = connect(redis.port)
        assert isinstance(raised(api, Track("lock:a", "a/-1", Box())), StoreUnavailable)
        api.ask(BEGIN)
        api.listener(redis)
        error = raised(api, Track("lock:a", "a/-1", Box()))
    assert isinstance(error, StoreUnavailable)
    assert error.unsent


def test_a_listener_that_the_server_of_its_name_does_not_have_connects_anew(connect: Connect) -> None:
    """The name stands for another server now, and the one before answers on."""
    ids = iter((7, 8))

    def answer(peer: Peer, words: list[str]) -> Any:
        if words[1] == "ID":
            return next(ids)
        return "+OK" if words[-1] == "8" else "-ERR The client ID you want redirect to does not exist"

    with Redis(CLIENT=answer, TYPE="+string", GET="theirs") as redis:
        api = connect(redis.port, silence_s=0.05)
        api.ask(BEGIN)
        api.listener(redis)
        assert isinstance(raised(api, Track("lock:a", "a/-1", Box())), StoreUnavailable)
        api.listener(redis)
        found = None
        while found is None:  # until it listens to that
            with contextlib.suppress(StoreUnavailable):
                found = api.ask(Track("lock:a", "a/-1", Box()))
        assert found == b"theirs"


@pytest.mark.parametrize("found_by", ["an answer", "what begins a connection", "its role"])
def test_a_listener_leaves_a_server_that_is_no_master_any_more(
    connect: Connect, found_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box()
    with Redis(WAIT=1) as redis:
        api = connect(redis.port, silence_s=0.05, grace_s=20.0, replicas=1)
        api.ask(BEGIN)
        api.listener(redis)
        api.ask(Listen(("a/1",), box))
        monkeypatch.setattr("recipes.stores.redis.wire.IDLE_S", -1.0)
        if found_by == "its role":
            redis.facts["replication"] = redis.facts["replication"].replace("master\r", "slave\r")
        else:
            redis.answers["GET" if found_by == "an answer" else "INFO"] = "-MASTERDOWN it is a replica"
        assert isinstance(raised(api, GET), StoreUnavailable)
        assert api.event(box) == Disturbed()
        assert api.listener(redis)


# The end.


def test_closing_is_quick_and_ends_what_is_asked(connect: Connect) -> None:
    arrived = threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        arrived.set()
        return hang(peer, words)

    with Redis(GET=answer) as redis:
        api = connect(redis.port)
        api.ask(BEGIN)

        def close() -> None:
            assert arrived.wait(5)
            with taking(at_most_s=1.0):
                api.connection.close()

        if hasattr(api, "runner"):
            found = api.runner.run(closed_meanwhile(api.connection, arrived))
        else:
            found = api.while_asking(GET, close)
        assert isinstance(found, StoreUnavailable)
        error = raised(api, GET)
        assert error.unsent
        assert "closed" in error.detail
        api.close()


async def closed_meanwhile(connection: Any, arrived: threading.Event) -> Any:
    import asyncio

    asking = asyncio.ensure_future(connection.ask(GET, 5.0))
    assert await asyncio.to_thread(arrived.wait, 5)
    with taking(at_most_s=1.0):
        await connection.close()
    (found,) = await asyncio.gather(asking, return_exceptions=True)
    return found


def test_a_listener_that_cannot_reconnect_ends_with_the_connection(connect: Connect) -> None:
    box = Box()
    with Redis() as redis:
        api = connect(redis.port)
        api.ask(BEGIN)
        peer = api.listener(redis)
        api.ask(Listen(("a/1",), box))
        redis.answers["SUBSCRIBE"] = "-LOADING Redis is loading"
        peer.reset()
        assert api.event(box) == Disturbed()
        with taking(at_most_s=1.0):
            api.close()
