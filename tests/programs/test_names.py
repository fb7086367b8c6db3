from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.names import LOCKS, MAX_ENCODED_BYTES, decode, encode, queue_of

ALPHABET = re.compile(r"(?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


@given(TEXT)
def test_the_encoding_is_plain_and_can_be_undone(name: str) -> None:
    encoded = encode(name)
    assert ALPHABET.fullmatch(encoded)
    assert encoded not in (".", "..")
    assert unquote_to_bytes(encoded).decode() == name


@given(TEXT, TEXT)
def test_different_names_never_meet(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("reports/nightly", "reports%2Fnightly"),
        ("plain-Name_1.2", "plain-Name_1.2"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("%2E", "%252E"),
        ("~", "%7E"),
        ("\0", "%00"),
        ("a\nb", "a%0Ab"),
        ("plain\n", "plain%0A"),
        ("é", "%C3%A9"),  # composed
        ("e\u0301", "e%CC%81"),  # and decomposed
        ("\u202eabc", "%E2%80%AEabc"),  # right to left
        ("😀", "%F0%9F%98%80"),
    ],
)
def test_table(name: str, encoded: Any) -> None:
    assert encode(name) == encoded


def test_the_limit_counts_encoded_bytes() -> None:
    assert encode("a" * MAX_ENCODED_BYTES) == "a" * 1024
    assert len(encode("/" * 341)) == 1023
    with pytest.raises(ValueError, match="1025 bytes once encoded, and 1024 at most"):
        encode("a" * 1025)
    with pytest.raises(ValueError, match="1026 bytes"):
        encode("/" * 342)


@pytest.mark.parametrize("name", ["\ud800", "a\udfff", "\ud83d\ude00"])
def test_lone_surrogates_are_no_text(name: str) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        encode(name)


def test_what_is_no_name() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        encode("")
    for other in (b"x", None, 1, ["x"]):
        with pytest.raises(TypeError, match="a name is a str"):
            encode(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["x", "a/b", ".", "..", "日本", "100%", " "])
def test_a_name_comes_back(name: str) -> None:
    assert decode(encode(name)) == name


@pytest.mark.parametrize("component", ["", "%FF", "%41", "a b", ".", "a" * 1025, "\udcff"])
def test_what_no_name_becomes_is_no_name(component: str) -> None:
    assert decode(component) is None


RECIPES = st.sampled_from([*sorted(LOCKS), "semaphore", "election", "group"])


@given(RECIPES, TEXT, RECIPES, TEXT)
def test_queues_meet_only_where_locks_share_a_name(one: str, name: str, other: str, its_name: str) -> None:
    mine, its = queue_of(one, name), queue_of(other, its_name)
    together = {one, other} <= LOCKS or one == other
    assert (mine == its) == (together and name == its_name)
    if mine != its:
        assert not f"{mine}/".startswith(f"{its}/")


def test_where_recipes_queue() -> None:
    assert [queue_of(recipe, "a/b") for recipe in sorted(LOCKS)] == ["a%2Fb"] * 3
    assert queue_of("semaphore", "a/b") == "~semaphore/a%2Fb"
    assert queue_of("semaphore", "~") == "~semaphore/%7E"
    assert queue_of("lock", "~semaphore/x") == "%7Esemaphore%2Fx"
    assert decode(queue_of("semaphore", "x")) is None


def test_no_recipe_takes_the_place_of_sessions() -> None:
    with pytest.raises(AssertionError, match="sessions"):
        queue_of("session", "x")
