"""The keys of the Redis store: what a dead client leaves, and a queue that lacks some of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import redis

from integration import servers
from integration.needing import needed
from integration.redis_faults.nodes import Kept
from recipes._contract.connection import Batch
from recipes._contract.operations import End, Write
from recipes.errors import SessionLost
from recipes.stores.redis.keys import Keys
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.redis.requests import Command, Run
from tests.stores.stepping import CONTEXT

DAY_MS = 86_400_000
SCRIPT = files("recipes.stores.redis").joinpath("queue.lua").read_text()
SINCE = files("recipes.stores.redis").joinpath("since.lua").read_text()


class Queue:
    """One queue, on which acts are carried out by hand."""

    def __init__(self, server: Any, name: str) -> None:
        self.server = server
        self.keys = Keys("lock:").of(name)
        self.name = name

    def act(
        self,
        act: str,
        session: str,
        *words: str | int,
        one: str = "",
        ttl_ms: int = 60_000,
        until_us: int = 0,
    ) -> Any:
        """Run one act for a session; nothing is granted before ``until_us``."""
        keys = (*self.keys, Keys("lock:").beside(self.name, f"x:{one}"))
        head = (until_us, act, self.name, session, "lock:~bell:", ttl_ms)
        return self.server.eval(SCRIPT, len(keys), *keys, *head, *words)

    def join(self, session: str, kind: str = "W", ttl_ms: int = 60_000) -> tuple[int, int]:
        """Join; return the token, and how many are ahead."""
        rule = (int(kind == "R"), 2, 2, "", "")  # a reader minds those alone that are none
        reply = self.act("join", session, session, kind, "", "", *rule, one=session, ttl_ms=ttl_ms)
        return int(reply[0]), reply[1]


@pytest.fixture
def queue(redis_server: servers.Redis, prefix: str) -> Iterator[Queue]:
    with redis.Redis(redis_server.host, redis_server.port) as server:
        one = Queue(server, prefix)
        yield one
        server.delete(*one.keys)


def test_all_that_a_dead_client_left_goes_by_itself(queue: Queue) -> None:
    queue.join("first")
    queue.join("second", "R")
    there = [key for key in queue.keys if queue.server.exists(key)]
    assert len(there) == 5
    assert all(0 < queue.server.pttl(key) <= DAY_MS + 60_000 for key in there)


def test_tokens_and_their_records_go_at_once(queue: Queue) -> None:
    queue.join("first", "R")
    _, tokens, exclusive, known, _ = queue.keys
    queue.server.pexpire(known, DAY_MS // 2)
    assert queue.act("touch", "first", queue.server.zrange(tokens, 0, 0)[0]) == [1]
    queue.join("second")
    queue.join("third", "R")
    ends = {queue.server.pexpiretime(key) for key in (tokens, exclusive, known)}
    assert len(ends) == 1


def test_a_queue_whose_records_are_gone_blocks_nobody(queue: Queue) -> None:
    queue.join("first")
    queue.server.delete(queue.keys[0], queue.keys[3])
    assert queue.join("second")[1] == 0


@pytest.mark.parametrize("watch", [0, 1])
def test_to_list_a_queue_whose_records_are_gone_deletes_nothing(queue: Queue, watch: int) -> None:
    queue.join("first")
    queue.server.delete(queue.keys[0], queue.keys[3])
    assert queue.act("list", "second", 9, watch) == [[], -1]
    assert queue.server.exists(*queue.keys[1:3]) == 2
    assert queue.server.zcard(queue.keys[4]) == watch, "what comes next is to be notified of"


@pytest.mark.parametrize("member", ["5", "5.5", "a"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_sorted_set_of_another_program_is_left_alone(queue: Queue, at: int, member: str) -> None:
    """Also where a member is its own score, as a token is."""
    queue.server.zadd(queue.keys[at], {member: 5.5 if member == "5.5" else 5})
    assert queue.act("list", "first", 9, 0) == [[], -1]
    with pytest.raises(redis.ResponseError, match="is of another program: give a prefix= of your own"):
        queue.join("first")
    assert queue.server.zrange(queue.keys[at], 0, -1) == [member.encode()]


@pytest.mark.parametrize(("kind", "missing"), [("W", 1), ("W", 2), ("R", 1), ("W", 3)])
def test_a_holder_without_its_place_is_not_renewed(queue: Queue, kind: str, missing: int) -> None:
    token, _ = queue.join("first", kind)
    assert queue.act("touch", "first", token) == [1]
    queue.server.delete(queue.keys[missing])
    assert queue.act("touch", "first", token) == [0]


def test_a_holder_whose_place_is_gone_leaves_without_the_one_that_came_since(queue: Queue) -> None:
    first, _ = queue.join("first")
    queue.server.delete(*queue.keys[1:3])
    second, ahead = queue.join("second")
    assert ahead == 0
    assert queue.act("remove", "first", "first", first, 0) == 1
    assert queue.act("touch", "second", second) == [1]
    assert queue.server.get(queue.keys[0]) == b"second/second"


def test_what_waits_does_not_prolong_the_key_of_the_readers_that_hold(queue: Queue) -> None:
    reader, _ = queue.join("reader", "R")
    writer, _ = queue.join("writer", ttl_ms=600_000)
    behind, ahead = queue.join("behind", "R", ttl_ms=600_000)
    assert ahead == 1
    for session, token in (("writer", writer), ("behind", behind)):
        assert queue.act("touch", session, token, ttl_ms=600_000) == [1]
        assert queue.server.pttl(queue.keys[0]) <= 60_000
    assert queue.act("touch", "reader", reader, ttl_ms=90_000) == [1]
    assert 60_000 < queue.server.pttl(queue.keys[0]) <= 90_000


def test_the_key_lasts_as_long_as_a_reader_that_a_dead_writer_lets_in(queue: Queue) -> None:
    queue.join("first", "R")
    queue.join("writer", ttl_ms=1)
    died = queue.server.time()
    while queue.server.time() < (died[0], died[1] + 2_000):  # its lease is over on the server
        pass
    assert queue.join("second", "R", ttl_ms=120_000)[1] == 0
    assert 60_000 < queue.server.pttl(queue.keys[0]) <= 120_000


def test_an_eviction_that_arrives_twice_leaves_the_next_key_of_another_program_alone(queue: Queue) -> None:
    key = queue.keys[0]
    queue.server.set(key, "theirs", px=60_000)
    token = queue.act("list", "first", 1, 0)[0][0][0]
    assert queue.act("expel", "first", token, one="first-1") == 1
    assert not queue.server.exists(key)
    queue.server.set(key, "theirs", px=60_000)
    assert queue.act("expel", "first", token, one="first-1") == 0
    assert queue.server.exists(key)
    assert queue.act("expel", "first", token, one="first-2") == 1
    for number in (1, 2):
        done = Keys("lock:").beside(queue.name, f"x:first-{number}")
        assert DAY_MS / 25 < queue.server.pttl(done) <= DAY_MS / 24
        queue.server.delete(done)


FAR_US = 4_000_000_000_000_000


def test_while_a_server_starts_nobody_is_shown_to_have_gone(queue: Queue) -> None:
    """What renewed them may be lost. The first in line would be granted, and the key would not say so."""
    first, _ = queue.join("first")
    second, _ = queue.join("second")
    queue.server.hset(queue.keys[3], f"d{first}", 1)  # its time is up
    assert queue.act("present", "second", 0, second, first, "*", until_us=FAR_US)[0] == b"starting"
    (row, *_), due_ms = queue.act("list", "third", 1, 0, until_us=FAR_US)
    assert int(row[0]) == first
    assert due_ms > 1_000_000, "there is nothing to see before"
    assert queue.act("present", "second", 1, second, until_us=FAR_US) == [1], "a holder may verify"
    assert queue.act("present", "second", 0, second, first, "*") == [1, 0]


def test_by_one_that_has_gone_nobody_holds_behind_a_stranger_that_came_since(queue: Queue) -> None:
    first, _ = queue.join("first")
    second, _ = queue.join("second")
    queue.server.set(queue.keys[0], "theirs", px=60_000)
    assert queue.act("present", "second", 0, second, first, "*") == [1, 1]
    assert queue.act("present", "second", 1, second, first, "*") == [1, 0], "it is not there to be watched"


def test_a_reader_that_comes_to_hold_has_the_key_last_as_long_as_itself(queue: Queue) -> None:
    """Else all readers are dropped when the time of those before it is up."""
    queue.join("before", "R", ttl_ms=5_000)
    writer, _ = queue.join("writer")
    reader, _ = queue.join("reader", "R")
    queue.act("remove", "writer", "writer", writer, 0, one="writer")
    assert queue.server.pttl(queue.keys[0]) <= 5_000
    assert queue.act("present", "reader", 0, reader, writer, "") == [1, 0]
    assert queue.server.pttl(queue.keys[0]) > 30_000


def test_a_first_write_that_arrives_after_its_session_has_ended_is_not_done(queue: Queue) -> None:
    """There is no receipt yet by which it could be told from one that arrives in time."""
    one = RedisProtocol("redis://r", Keys("lock:"), "first", 0, polls=False)
    writing, ending = one.write(Write(queue.name, b"late", 1), CONTEXT), one.end(End(), CONTEXT)
    late, batch = next(writing), next(ending)
    assert isinstance(late, Run)
    assert isinstance(batch, Batch)
    for part in batch.parts:
        assert isinstance(part, Command)
        queue.server.execute_command(*part.words)
    reply = queue.server.eval(SCRIPT, len(late.keys), *late.keys, 0, *late.words)
    value, receipt = late.keys[5:]
    assert not queue.server.exists(value)
    assert 0 < queue.server.pttl(receipt) <= 3_600_000
    queue.server.delete(receipt)
    with pytest.raises(SessionLost):
        writing.send(reply)


@pytest.mark.parametrize("watch", [0, 1])
@pytest.mark.parametrize("joined", [False, True])
def test_a_value_is_not_read_from_a_server_that_is_a_replica_now(
    watch: int, joined: bool, prefix: str
) -> None:
    with needed("redis-7", Kept) as server, server.client() as client:
        queue = Queue(client, prefix)
        if joined:
            queue.join("first")
        server.ask("REPLICAOF", server.host, 1)
        with pytest.raises(redis.ResponseError, match="read only replica"):
            queue.act("get", "first", watch)


@pytest.mark.parametrize(
    ("looks", "since"),
    [((5000, 9000), [5000, 5000]), ((9000, 5000, 9000), [9000, 5000, 5000])],
    ids=["goes on", "is set back"],
)
def test_a_life_is_known_since_its_first_look_unless_the_clock_was_set_back(
    queue: Queue, looks: tuple[int, ...], since: list[int]
) -> None:
    key = queue.keys[0]  # which is deleted in the end
    assert [int(queue.server.eval(SINCE, 1, key, "run:replid", now)) for now in looks] == since
    assert int(queue.server.eval(SINCE, 1, key, "another", 7000)) == 7000
