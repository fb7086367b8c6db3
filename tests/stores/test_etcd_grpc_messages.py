"""etcd's messages as we write and read them, against protobuf's own library."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from integration.harness.etcd_messages import MESSAGES as M
from recipes.stores.etcd import codec
from recipes.stores.etcd.grpc_messages import METHODS, MessageError, read, write

KV = codec.Kv(b"k\xff", created=7, value=b"v", lease=2**62, modified=9, version=2)
HEADER = {"cluster_id": 2**64 - 1, "member_id": 5, "revision": 12, "raft_term": 3}


def theirs(kv: codec.Kv) -> Any:
    """A key, as protobuf's library has it."""
    key, created, value, lease, modified, version = kv
    return M["KeyValue"](
        key=key, create_revision=created, mod_revision=modified, version=version, value=value, lease=lease
    )


def said(name: str, path: str, body: Any) -> Any:
    """What protobuf's library reads of what we write."""
    message = M[name]()
    message.ParseFromString(write(METHODS[path].asks, body))
    return message


def test_a_transaction_is_read_as_it_was_meant() -> None:
    compare = [
        codec.compare_created(b"k", 2**62),
        codec.compare_modified(b"m", 0),
        codec.compare_version(b"v", 3),
        *codec.compare_present(b"p", before=5),
        codec.compare_absent(b"a", b"b"),
    ]
    then = [
        codec.put(b"k", b"\0v", 2**62),
        codec.put_again(b"k", b"", 1),
        codec.delete(b"d"),
        codec.read(b"r", b"s", 300),
    ]
    found = said("TxnRequest", "/kv/txn", codec.txn(compare, then, [codec.delete(b"d", b"e")]))
    short = [
        (c.target, c.result, c.key, c.version or c.mod_revision or c.create_revision, c.range_end)
        for c in found.compare
    ]
    assert short == [
        (1, 0, b"k", 2**62, b""),
        (2, 0, b"m", 0, b""),
        (0, 0, b"v", 3, b""),
        (1, 1, b"p", 0, b""),
        (1, 2, b"p", 5, b""),
        (1, 0, b"a", 0, b"b"),
    ]
    first, again, deletes, reads = found.success
    assert first.request_put == M["PutRequest"](key=b"k", value=b"\0v", lease=2**62)
    assert again.request_put == M["PutRequest"](key=b"k", lease=1, prev_kv=True)
    assert deletes.request_delete_range == M["DeleteRangeRequest"](key=b"d")
    assert reads.request_range == M["RangeRequest"](key=b"r", range_end=b"s", limit=300)
    assert found.failure[0].request_delete_range == M["DeleteRangeRequest"](key=b"d", range_end=b"e")


def test_the_other_calls_are_read_as_they_were_meant() -> None:
    nearest = codec.nearest(b"k", b"l", before=9, limit=2)
    expected = M["RangeRequest"](
        key=b"k", range_end=b"l", limit=2, sort_order=2, sort_target=2, max_create_revision=8
    )
    assert said("RangeRequest", "/kv/range", nearest) == expected
    oldest = M["RangeRequest"](key=b"k", range_end=b"l", limit=2, sort_order=1, sort_target=2)
    assert said("RangeRequest", "/kv/range", codec.oldest(b"k", b"l", 2)) == oldest
    granted = said("LeaseGrantRequest", "/lease/grant", {"TTL": 15, "ID": 2**62})
    assert granted == M["LeaseGrantRequest"](TTL=15, ID=2**62)
    assert said("LeaseRevokeRequest", "/lease/revoke", {"ID": 7}).ID == 7
    login = said("AuthenticateRequest", "/auth/authenticate", {"name": "zoë", "password": "x" * 200})
    assert login == M["AuthenticateRequest"](name="zoë", password="x" * 200)


def test_the_messages_of_watches_are_read_as_they_were_meant() -> None:
    create = {"create_request": {"key": b"k", "watch_id": 5, "range_end": b"l", "filters": ["NOPUT"]}}
    made = M["WatchCreateRequest"](key=b"k", range_end=b"l", watch_id=5, filters=[0])
    assert said("WatchRequest", "/watch", create) == M["WatchRequest"](create_request=made)
    cancel = said("WatchRequest", "/watch", {"cancel_request": {"watch_id": -1}})
    assert cancel.cancel_request.watch_id == -1
    assert said("WatchRequest", "/watch", {"progress_request": {}}).HasField("progress_request")


def test_an_unknown_field_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        write(METHODS["/kv/range"].asks, {"kex": b"k"})


def test_the_reply_to_a_transaction() -> None:
    header = M["ResponseHeader"](**HEADER)
    found = M["RangeResponse"](header=header, kvs=[theirs(KV), theirs(KV)], more=True, count=2**40)
    message = M["TxnResponse"](
        header=header,
        succeeded=True,
        responses=[
            M["ResponseOp"](response_range=found),
            M["ResponseOp"](response_put=M["PutResponse"](prev_kv=theirs(KV))),
            M["ResponseOp"](response_delete_range=M["DeleteRangeResponse"](deleted=3)),
        ],
    )
    reply = read(METHODS["/kv/txn"].answers, message.SerializeToString())
    assert codec.revision(reply) == 12
    assert reply["succeeded"] is True
    assert codec.keys(codec.reads(reply)[0]) == [KV, KV]
    assert codec.reads(reply)[0]["count"] == 2**40
    assert reply["responses"][1]["response_put"]["prev_kv"] == KV
    assert reply["responses"][2] == {"response_delete_range": {"deleted": 3}}
    assert read(METHODS["/kv/txn"].answers, b"") == {}


def test_what_a_watch_says() -> None:
    kv = M["KeyValue"](key=b"k", mod_revision=9)
    message = M["WatchResponse"](
        header=M["ResponseHeader"](**HEADER),
        watch_id=-1,
        created=True,
        canceled=True,
        compact_revision=8,
        cancel_reason="why",
        fragment=True,
        events=[M["Event"](type=1, kv=kv), M["Event"](kv=kv), M["Event"](type=7)],
    )
    assert read(METHODS["/watch"].answers, message.SerializeToString()) == {
        "header": {"revision": 12},
        "watch_id": -1,
        "created": True,
        "canceled": True,
        "compact_revision": 8,
        "cancel_reason": "why",
        "events": [{"type": "DELETE"}, {}, {"type": 7}],
    }


def test_a_session_reads_its_lease_and_its_token() -> None:
    granted = M["LeaseGrantResponse"](ID=7, TTL=15, error="none").SerializeToString()
    assert read(METHODS["/lease/grant"].answers, granted) == {"ID": 7, "TTL": 15}
    token = M["AuthenticateResponse"](token="abc.1").SerializeToString()
    assert read(METHODS["/auth/authenticate"].answers, token) == {"token": "abc.1"}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # a field without its length
        b"\x0a\x05\x08",  # a header that is cut short
        b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a number without an end
        b"\x0b",  # a group, which nobody uses
        b"\x08\x01",  # a header that is a number
        b"\x12\x02\x0a\x05",  # a key whose name is longer than it
        b"\x12\x02\x08\x01",  # a key whose name is a number
        b"\x12\x01\x0a",
        b"\x32\x09\x01",  # an unknown field, cut short
        b"\x12\x02\x3a\x05",  # an unknown field of a key, longer than it
        b"\x32" + b"\xff" * 9 + b"\x01",  # an unknown field of fewer bytes than none
        b"\x12" + b"\xff" * 9 + b"\x01",  # a key of as many
    ],
)
def test_what_is_no_message_is_refused(data: Any) -> None:
    with pytest.raises(MessageError):
        read(METHODS["/kv/range"].answers, data)


def test_unknown_fields_of_every_kind_are_passed_over() -> None:
    unknown = b"\x30\x96\x01" + b"\x39" + bytes(8) + b"\x3d" + bytes(4) + b"\x42\x02ab"
    key = b"\x0a\x01k" + unknown
    data = unknown + b"\x12" + bytes((len(key),)) + key + b"\x20\x05"
    assert read(METHODS["/kv/range"].answers, data) == {
        "kvs": [codec.Kv(b"k", 0, b"", 150, 0, 0)],
        "count": 5,
    }


@given(st.binary(max_size=200), st.sampled_from(sorted(METHODS)))
def test_any_bytes_are_a_message_or_none(data: Any, path: Any) -> None:
    try:
        found = read(METHODS[path].answers, data)
    except MessageError:
        return
    assert isinstance(found, dict)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))
def test_numbers_and_bytes_go_both_ways(number: Any, raw: Any) -> None:
    body = {"create_request": {"key": raw, "watch_id": number}}
    assert said("WatchRequest", "/watch", body).create_request.watch_id == number
    message = M["WatchResponse"](watch_id=number).SerializeToString()
    assert read(METHODS["/watch"].answers, message).get("watch_id", 0) == number
    found = M["RangeResponse"](kvs=[M["KeyValue"](key=raw, lease=number)]).SerializeToString()
    assert codec.keys(read(METHODS["/kv/range"].answers, found)) == [codec.Kv(raw, 0, b"", number, 0, 0)]


LIKE_FIELDS = b"k\x10\x01\x18\x02\x20\x03\x2a\x7f"
ANY = st.one_of(st.binary(max_size=300), st.sampled_from([b"", b"0\x01", LIKE_FIELDS, b"x" * 127]))
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))


@example([codec.Kv(LIKE_FIELDS, 1, b"", 2, 3, 4)], 12)
@given(st.lists(st.builds(codec.Kv, ANY, NUMBERS, ANY, NUMBERS, NUMBERS, NUMBERS), max_size=3), NUMBERS)
def test_keys_and_headers_are_read_whatever_is_in_them(kvs: Any, revision: Any) -> None:
    header = M["ResponseHeader"](cluster_id=1, revision=revision)
    message = M["RangeResponse"](header=header, kvs=map(theirs, kvs)).SerializeToString()
    found = read(METHODS["/kv/range"].answers, message)
    assert codec.revision(found) == revision
    assert codec.keys(found) == kvs


@pytest.mark.parametrize(
    "header",
    [
        b"\x18\x0c\x10\x01",  # in another order
        b"\x18\x0c\x30\x07",  # with a field of another version
        b"\x18\x05\x18\x0c",  # twice: the last counts
    ],
)
def test_a_header_that_no_server_sends_is_read_as_well(header: Any) -> None:
    data = b"\x0a" + bytes((len(header),)) + header
    assert codec.revision(read(METHODS["/kv/range"].answers, data)) == 12
