from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._core.names import encode
from recipes._core.ops import Spot
from recipes._core.order import EXCLUSIVE, SHARED, Contender
from recipes.stores.etcd.layout import Layout, prefix_end, ref_of

ID = "01234567-89ab-cdef-0123-456789abcdef"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(encode)


@pytest.mark.parametrize(("root", "base"), [("", b""), ("app", b"app/"), ("a/b", b"a/b/")])
def test_keys(root: Any, base: Any) -> None:
    layout = Layout(root)
    assert layout.queue("x") == base + b"x/"
    assert layout.contender(Spot("x", "lock", ID), "1f") == base + b"x/W-1f-" + ID.encode()
    assert layout.contender(Spot("x", "R", ID), "1f") == base + b"x/R-1f-" + ID.encode()
    assert layout.anchor("1f") == base + b"~session/1f"
    assert layout.tombstone(ID, "1f") == base + b"~session/1f/" + ID.encode()
    assert layout.whole("x") == (base + b"x/", base + b"x0")


def test_ranges_of_an_exclusive_recipe_are_the_whole_queue() -> None:
    assert Layout("").ranges("x", EXCLUSIVE) == [(b"x/", b"x0")]


def test_ranges_of_a_shared_recipe_leave_readers_out() -> None:
    assert Layout("").ranges("x", SHARED) == [(b"x/", b"x/R-"), (b"x/R.", b"x0")]


@pytest.mark.parametrize(
    ("key", "inside"),
    [
        (b"x/R-1f-id", False),
        (b"x/W-1f-id", True),
        (b"x/1f", True),
        (b"x/R", True),
        (b"x/R.", True),
        (b"x/", True),
    ],
)
def test_all_that_is_no_reader_is_in_the_ranges_of_a_reader(key: Any, inside: Any) -> None:
    assert any(start <= key < end for start, end in Layout("").ranges("x", SHARED)) is inside


@given(NAMES, NAMES, st.sampled_from(["lock", "W", "R"]))
def test_no_queue_sees_anothers_contenders(name: str, other: Any, kind: str) -> None:
    layout = Layout("app")
    start, end = layout.whole(name)
    key = layout.contender(Spot(other, kind, ID), "1f")
    assert (start <= key < end) == (name == other)
    assert not start <= layout.anchor("1f") < end
    assert not start <= layout.tombstone(ID, "1f") < end


def test_whom_a_key_stands_for() -> None:
    layout = Layout("app")
    parse = layout.parse
    ours = f"app/x/R-1f-{ID}"
    assert parse("x", ours.encode()) == Contender(ours, ID, "R", "1f")
    assert parse("x", f"app/x/W-1f-{ID}".encode()).kind == "W"
    for foreign in (
        b"app/x/694d8c2f",
        b"app/x/R-zz-id",
        b"app/x/W-1f-" + ID.encode() + b"x",
        b"app/x/\xff\xfe",
    ):
        assert parse("x", foreign) == Contender(ref_of(foreign), "", "W", "")


@given(st.binary(min_size=1, max_size=20))
def test_references_are_injective_text(key: Any) -> None:
    assert ref_of(key).encode("utf-8", "surrogateescape") == key


def test_prefix_end() -> None:
    assert prefix_end(b"ab/") == b"ab0"
