from __future__ import annotations

from base64 import b64encode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recipes.stores.etcd import codec


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


@given(st.binary(max_size=60), st.integers(0, 2**63 - 1))
def test_a_written_key_is_read_back(raw: Any, revision: Any) -> None:
    found = {"kvs": [{"key": codec.text(raw), "create_revision": str(revision)}]}
    assert codec.keys(found) == [(raw, revision, b"", 0, 0, 0)]


def test_a_key_is_read_with_its_value_and_its_lease() -> None:
    kv = {"key": b64(b"k"), "create_revision": "7", "mod_revision": "9", "version": "2"}
    found = {"kvs": [{**kv, "value": b64(b"v"), "lease": "11"}, {**kv, "key": b64(b"l")}]}
    assert codec.keys(found) == [(b"k", 7, b"v", 11, 9, 2), (b"l", 7, b"", 0, 9, 2)]
    assert codec.reads({"responses": [{"response_put": {}}, {"response_range": found}]}) == [found]
    assert codec.reads({}) == []


def test_what_is_zero_is_left_out() -> None:
    assert codec.number(None) == 0
    assert codec.number("7") == 7
    assert codec.number(7) == 7
    assert codec.revision({}) == 0
    assert codec.revision({"header": {"revision": "12"}}) == 12
    assert codec.keys({}) == []
    assert codec.keys({"count": "3"}) == []
    assert codec.keys({"kvs": [{"key": b64(b"k")}]}) == [(b"k", 0, b"", 0, 0, 0)]


def test_a_key_says_when_it_was_written() -> None:
    kv = {"key": b64(b"k"), "create_revision": "3", "mod_revision": "9", "lease": "5", "value": b64(b"v")}
    seen = codec.Kv(b"k", created=3, value=b"v", lease=5, modified=9, version=4)
    assert codec.keys({"kvs": [{**kv, "version": "4"}]}) == [seen]


def test_transactions() -> None:
    assert codec.txn() == {"compare": [], "success": [], "failure": []}
    body = codec.txn([{"a": 1}], then=({"b": 2},), otherwise=iter([{"c": 3}]))
    assert body == {"compare": [{"a": 1}], "success": [{"b": 2}], "failure": [{"c": 3}]}


def test_comparisons() -> None:
    assert codec.compare_created(b"k", 9) == {
        "key": b64(b"k"),
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": "9",
    }
    absent = {"key": b64(b"k"), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
    assert codec.compare_absent(b"k") == absent
    assert codec.compare_absent(b"k", b"l") == {**absent, "range_end": b64(b"l")}
    there = {**absent, "result": "GREATER"}
    assert codec.compare_present(b"k") == [there]
    assert codec.compare_present(b"k", before=9) == [
        there,
        {**absent, "result": "LESS", "create_revision": "9"},
    ]
    version = {"key": b64(b"k"), "target": "VERSION", "result": "EQUAL", "version": "2"}
    assert codec.compare_version(b"k", 2) == version
    modified = {"key": b64(b"k"), "target": "MOD", "result": "EQUAL", "mod_revision": "9"}
    assert codec.compare_modified(b"k", 9) == modified


def test_operations() -> None:
    key, end = b64(b"k"), b64(b"l")
    request = {"key": key, "value": b64(b"v"), "lease": "5"}
    assert codec.put(b"k", b"v", 5) == {"request_put": request}
    assert codec.put_again(b"k", b"v", 5) == {"request_put": {**request, "prev_kv": True}}
    assert codec.delete(b"k") == {"request_delete_range": {"key": key}}
    assert codec.delete(b"k", b"l") == {"request_delete_range": {"key": key, "range_end": end}}
    assert codec.read(b"k") == {"request_range": {"key": key}}
    assert codec.read(b"k", b"l", limit=3) == {"request_range": {"key": key, "range_end": end, "limit": "3"}}


def test_the_oldest_are_the_first_created() -> None:
    assert codec.oldest(b"k", b"l", 2) == {
        "key": b64(b"k"),
        "range_end": b64(b"l"),
        "limit": "2",
        "sort_order": "ASCEND",
        "sort_target": "CREATE",
    }
    assert codec.span(b"k") == {"key": b64(b"k")}


def test_the_nearest_are_the_latest_created_before() -> None:
    latest = {
        "key": b64(b"k"),
        "range_end": b64(b"l"),
        "sort_order": "DESCEND",
        "sort_target": "CREATE",
        "limit": "2",
    }
    assert codec.nearest(b"k", b"l", before=None, limit=2) == latest
    assert codec.nearest(b"k", b"l", before=9, limit=2) == {**latest, "max_create_revision": "8"}
