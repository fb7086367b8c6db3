"""The words of Redis as bytes, as redis-py has them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from recipes.stores.redis.resp import INCOMPLETE, Replies, packed

WORDS = st.one_of(st.text(), st.binary(), st.integers())
COMMANDS = st.lists(st.tuples(st.sampled_from(["GET", "SET"]), WORDS, WORDS), min_size=1, max_size=3)


@given(COMMANDS)
def test_commands_are_packed_as_redis_py_packs_them(commands: list[tuple[Any, ...]]) -> None:
    connection: Any = redis.Connection()
    assert packed(commands) == b"".join(connection.pack_commands(commands))


REPLIES = st.recursive(
    st.one_of(st.none(), st.integers(-(2**53), 2**53), st.binary()), lambda one: st.lists(one, max_size=4)
)


def sent(reply: Any) -> bytes:
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case _:
            return b"*%d\r\n" % len(reply) + b"".join(map(sent, reply))


PIECES = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"*", b"$", b":", b"-", b"+", b"\r\n", b"1", b"-1", b"a\r\n"])
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_of_any_bytes_replies_are_taken_or_nothing_is_to_come_or_it_is_not_understood(said: bytes) -> None:
    reader = Replies()
    reader.feed(said)
    with contextlib.suppress(redis.RedisError):
        for _ in range(len(said) + 1):
            if reader.take() is INCOMPLETE:
                return
        raise AssertionError("each reply should take some of the bytes")


@given(st.lists(REPLIES, min_size=1, max_size=3), st.data())
def test_replies_are_read_in_whatever_pieces_they_arrive(replies: list[Any], data: st.DataObject) -> None:
    text = b"".join(map(sent, replies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    reader, found = Replies(), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        reader.feed(text[start:end])
        while (reply := reader.take()) is not INCOMPLETE:
            found.append(reply)
    assert found == replies
    assert not reader


class Counted(bytearray):
    """Bytes that count how often a line is looked for."""

    looked = 0

    def find(self, *args: Any) -> int:
        self.looked += 1
        return super().find(*args)


@pytest.mark.parametrize("reply", [[[b"x" * 90, 7]] * 1000, [[b"x" * 500_000, 7]] * 3])
def test_a_long_reply_is_read_once_in_however_many_pieces_it_arrives(reply: Any) -> None:
    """It was read from its beginning with each: 10,000 members fifteen times, while an event loop stood."""
    text, reader, pieces = sent(reply), Replies(), 0
    reader._data = Counted()
    for start in range(0, len(text), 1000):
        assert reader.take() is INCOMPLETE
        reader.feed(text[start : start + 1000])
        pieces += 1
    assert reader.take() == reply
    assert reader._data.looked <= text.count(b"\r\n") + pieces + 1


def test_what_is_not_taken_yet_is_known() -> None:
    reader = Replies()
    reader.feed(b"+OK\r\n+P")
    assert reader.take() == b"OK"
    assert reader.take() is INCOMPLETE
    assert reader


def test_a_list_may_be_missing() -> None:
    reader = Replies()
    reader.feed(b"*-1\r\n")
    assert reader.take() is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"-NOSCRIPT No matching script\r\n", redis.exceptions.NoScriptError),
        (b"-ERR x\r\n", redis.ResponseError),
    ],
)
def test_an_error_is_a_reply(said: bytes, kind: type[Exception]) -> None:
    reader = Replies()
    reader.feed(said)
    assert type(reader.take()) is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"-LOADING the dataset\r\n", redis.exceptions.BusyLoadingError),
        (b"HTTP/1.1 400 Bad Request\r\n", redis.InvalidResponse),
        (b":many\r\n", redis.InvalidResponse),
        (b"$\r\n", redis.InvalidResponse),
        (b"*1\r\n$-\r\n", redis.InvalidResponse),
        (b"\r\n", redis.InvalidResponse),
        (b"*1\r\n" * 5000, redis.InvalidResponse),
    ],
)
def test_a_server_that_cannot_serve_is_no_reply(said: bytes, kind: type[Exception]) -> None:
    reader = Replies()
    reader.feed(said)
    with pytest.raises(kind):
        reader.take()
