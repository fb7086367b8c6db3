"""What a script and a transaction of Redis are given, and what they may do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from integration import servers
from recipes import StaleToken
from recipes.fencing import RedisGate


@pytest.fixture(params=[False, True], ids=["bytes", "text"])
def gate(request: pytest.FixtureRequest, redis_server: servers.Redis) -> Iterator[RedisGate]:
    """Yield a gate with nothing seen, of a client that decodes answers, or does not."""
    with redis.Redis.from_url(redis_server.url(), decode_responses=request.param) as client:
        yield RedisGate(client, prefix=f"{uuid.uuid4()}:")


def key() -> str:
    return f"data-{uuid.uuid4()}"


def test_keys_and_arguments_are_the_scripts_own(gate: RedisGate) -> None:
    script = "return {#KEYS, #ARGV, KEYS[1], ARGV[1], ARGV[2]}"
    counts, rest = 2, [b"k", b"1", b"two"]
    found = gate.eval("x", 7, script, keys=["k", "l"], args=[1, "two"])
    assert found[:2] == [counts, counts]
    assert [str(one).encode() if isinstance(one, str) else one for one in found[2:]] == rest
    assert gate.eval("x", 7, "return {#KEYS, #ARGV}") == [0, 0]


def test_a_refused_script_does_not_run(gate: RedisGate) -> None:
    name = key()
    script = "return redis.call('incr', KEYS[1])"
    assert gate.eval("x", 7, script, keys=[name]) == 1
    with pytest.raises(StaleToken) as refused:
        gate.eval("x", 6, script, keys=[name])
    assert (refused.value.token, refused.value.seen, refused.value.__cause__) == (6, 7, None)
    assert gate.eval("x", 7, script, keys=[name]) == 2


def test_an_error_in_the_script_is_its_own_and_names_its_line(gate: RedisGate) -> None:
    with pytest.raises(redis.ResponseError, match="user_script:2"):
        gate.eval("x", 7, "local x = 1\nreturn nothing_of_the_name")
    with pytest.raises(redis.ResponseError, match="OWN"):
        gate.eval("x", 7, "return redis.error_reply('OWN error')")


def test_a_script_that_the_server_forgot_is_sent_again(gate: RedisGate) -> None:
    gate.eval("x", 7, "return 1")
    gate._client.script_flush()
    assert gate.eval("x", 7, "return 1") == 1


def test_a_transaction_answers_its_commands_and_is_refused_as_a_whole(gate: RedisGate) -> None:
    name = key()

    def both(pipe: Any) -> None:
        pipe.incr(name)
        pipe.incrby(name, 10)

    assert gate.transaction("x", 7, both) == [1, 11]
    with pytest.raises(StaleToken):
        gate.transaction("x", 6, both)
    assert int(gate._client.get(name)) == 11
    assert gate.transaction("x", 7, lambda pipe: None) == []


def test_a_transaction_is_tried_again_when_somebody_comes_between(gate: RedisGate) -> None:
    """And judged again: by what the other has left."""
    name = key()
    comers = iter([7, 9])

    def write(pipe: Any) -> None:
        gate.eval("x", next(comers), "return 1")  # between the look and the commit
        pipe.set(name, "mine")

    with pytest.raises(StaleToken) as refused:
        gate.transaction("x", 8, write)
    assert refused.value.seen == 9
    assert gate._client.get(name) is None


def test_scripts_and_transactions_share_what_they_remember(gate: RedisGate) -> None:
    gate.transaction("x", 2**63 - 2, lambda pipe: None)
    with pytest.raises(StaleToken):
        gate.eval("x", 2**63 - 3, "return 1")
    gate.eval("x", 2**63 - 1, "return 1")
    with pytest.raises(StaleToken):
        gate.transaction("x", 2**63 - 2, lambda pipe: None)
    assert gate._client.type(gate.key("x")) in ("hash", b"hash")
