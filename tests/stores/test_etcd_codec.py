from __future__ import annotations

from recipes.stores.etcd import codec


def test_the_keys_of_a_reply_are_those_of_its_reads() -> None:
    kv = codec.Kv(b"k", created=7, value=b"v", lease=11, modified=9, version=2)
    found = {"kvs": [kv], "count": 1}
    assert codec.keys(found) == [kv]
    assert codec.reads({"responses": [{"response_put": {}}, {"response_range": found}]}) == [found]
    assert codec.reads({}) == []


def test_what_is_zero_is_left_out() -> None:
    assert codec.number(None) == 0
    assert codec.number(7) == 7
    assert codec.revision({}) == 0
    assert codec.revision({"header": {"revision": 12}}) == 12
    assert codec.keys({}) == []
    assert codec.keys({"count": 3}) == []


def test_transactions() -> None:
    assert codec.txn() == {"compare": [], "success": [], "failure": []}
    body = codec.txn([{"a": 1}], then=({"b": 2},), otherwise=iter([{"c": 3}]))
    assert body == {"compare": [{"a": 1}], "success": [{"b": 2}], "failure": [{"c": 3}]}


def test_comparisons() -> None:
    assert codec.compare_created(b"k", 9) == {
        "key": b"k",
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": 9,
    }
    absent = {"key": b"k", "target": "CREATE", "result": "EQUAL", "create_revision": 0}
    assert codec.compare_absent(b"k") == absent
    assert codec.compare_absent(b"k", b"l") == {**absent, "range_end": b"l"}
    there = {**absent, "result": "GREATER"}
    assert codec.compare_present(b"k") == [there]
    assert codec.compare_present(b"k", before=9) == [
        there,
        {**absent, "result": "LESS", "create_revision": 9},
    ]
    version = {"key": b"k", "target": "VERSION", "result": "EQUAL", "version": 2}
    assert codec.compare_version(b"k", 2) == version
    modified = {"key": b"k", "target": "MOD", "result": "EQUAL", "mod_revision": 9}
    assert codec.compare_modified(b"k", 9) == modified


def test_operations() -> None:
    key, end = b"k", b"l"
    request = {"key": key, "value": b"v", "lease": 5}
    assert codec.put(b"k", b"v", 5) == {"request_put": request}
    assert codec.put_again(b"k", b"v", 5) == {"request_put": {**request, "prev_kv": True}}
    assert codec.delete(b"k") == {"request_delete_range": {"key": key}}
    assert codec.delete(b"k", b"l") == {"request_delete_range": {"key": key, "range_end": end}}
    assert codec.read(b"k") == {"request_range": {"key": key}}
    assert codec.read(b"k", b"l", limit=3) == {"request_range": {"key": key, "range_end": end, "limit": 3}}


def test_the_oldest_are_the_first_created() -> None:
    assert codec.oldest(b"k", b"l", 2) == {
        "key": b"k",
        "range_end": b"l",
        "limit": 2,
        "sort_order": "ASCEND",
        "sort_target": "CREATE",
    }
    assert codec.span(b"k") == {"key": b"k"}


def test_the_nearest_are_the_latest_created_before() -> None:
    latest = {
        "key": b"k",
        "range_end": b"l",
        "sort_order": "DESCEND",
        "sort_target": "CREATE",
        "limit": 2,
    }
    assert codec.nearest(b"k", b"l", before=None, limit=2) == latest
    assert codec.nearest(b"k", b"l", before=9, limit=2) == {**latest, "max_create_revision": 8}
