"""The names of keys on Redis: different names never meet, and what belongs together is in one slot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.names import encode, queue_of
from recipes.stores.redis.keys import Keys

NAMES = st.text(st.sampled_from("ab:/%~{}* é.")).filter(bool)
QUEUES = st.builds(queue_of, st.sampled_from(["lock", "semaphore", "value"]), NAMES)
PREFIXES = st.sampled_from(["lock:", "", "app:", "{app}:", "a*b:"])


def slot_text(key: str) -> str:
    """Return the part of a key that decides its slot, as Redis Cluster finds it."""
    start = key.find("{")
    end = key.find("}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("reports", "lock:reports"),
        ("reports/nightly", "lock:reports/nightly"),
        ("é", "lock:é"),
        ("~queues", "lock:%7Equeues"),
        ("{a}:queue", "lock:%7Ba%7D%3Aqueue"),
        ("%7Ba%7D", "lock:%257Ba%257D"),
    ],
)
def test_the_key_of_a_lock_is_its_name_unless_another_key_looks_like_that(name: str, key: str) -> None:
    assert Keys("lock:").base(encode(name)) == key


def test_the_key_of_another_recipe_is_where_it_queues() -> None:
    assert Keys("app:").base(queue_of("value", "a b")) == "app:~value/a%20b"


def test_all_keys_of_a_queue_by_name() -> None:
    assert Keys("lock:").of("x") == (
        "lock:x",
        "{lock:x}:queue",
        "{lock:x}:exclusive",
        "{lock:x}:known",
        "{lock:x}:watched",
    )
    assert Keys("{app}:").of("x")[1] == "{app}:x:queue"
    assert Keys("lock:").session("1f") == "lock:~session:1f"


@given(PREFIXES, QUEUES, QUEUES)
def test_different_queues_never_share_a_key(prefix: str, one: str, other: str) -> None:
    keys = Keys(prefix)
    assert keys.queue_of(keys.beside(one, "queue")) == one
    ours = {*keys.of(one), keys.beside(one, "value"), keys.session("1f"), keys.grace, f"{keys.bell}1f"}
    theirs = {*keys.of(other), keys.beside(other, "value")}
    if one != other:
        assert not ours & theirs


@given(PREFIXES, QUEUES)
def test_what_belongs_to_a_queue_is_in_one_slot(prefix: str, queue: str) -> None:
    keys = Keys(prefix)
    assert len({slot_text(key) for key in (*keys.of(queue), keys.beside(queue, "x:1"))}) == 1


def test_a_prefix_with_a_hash_tag_has_all_in_one_slot() -> None:
    assert Keys("{app}:").together("x", "~value/y")
    assert not Keys("app:").together("x", "~value/y")
    assert Keys("app:").together("x", "x")


def test_the_pattern_of_all_queues_matches_the_prefix_as_it_is() -> None:
    assert Keys("a*b:").queues == "{a\\*b:*}:queue"
    assert Keys("{a}:").queues == "{a}:*:queue"
