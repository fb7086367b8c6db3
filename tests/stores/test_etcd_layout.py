from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.contenders import Contender
from recipes._contract.names import encode, queue_of
from recipes._contract.operations import Ticket
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.readwrite import SHARED
from recipes.stores.etcd.codec import Kv
from recipes.stores.etcd.layout import Layout, prefix_end, ref_of

ID = "01234567-89ab-cdef-0123-456789abcdef"


def parse(key: bytes, value: bytes = b"", version: int = 1) -> Contender:
    """Return which contender of the queue ``app/x/`` a key is."""
    return Layout("app").parse("x", Kv(key, 30, value, 31, 40, version))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(encode)


@pytest.mark.parametrize(("root", "base"), [("", b""), ("app", b"app/"), ("a/b", b"a/b/")])
def test_keys(root: Any, base: Any) -> None:
    layout = Layout(root)
    assert layout.queue("x") == base + b"x/"
    assert layout.contender(Ticket("x", "lock", ID), "1f") == base + b"x/W-1f-" + ID.encode()
    assert layout.contender(Ticket("x", "R", ID), "1f") == base + b"x/R-1f-" + ID.encode()
    assert layout.anchor("1f") == b"~session/" + base + b"1f"
    assert layout.tombstone(ID, "1f") == b"~session/" + base + b"1f/" + ID.encode()
    assert layout.whole("x") == (base + b"x/", base + b"x/~")
    assert layout.value(queue_of("value", "x")) == base + b"~value/x"
    assert layout.receipt("~value/x", "1f") == b"~session/" + base + b"1f/~receipt/~value/x"


@given(NAMES, st.sampled_from(["value", "counter", "latch", "barrier"]))
def test_a_value_is_no_lock_and_stands_in_no_queue(name: str, recipe: str) -> None:
    layout, key = Layout("app"), f"~{recipe}/{name}"
    value = layout.value(key)
    for start, end in (layout.locks, layout.whole(key), layout.whole(name)):
        assert not start <= value < end
    assert layout.name_of(value) is None


@given(NAMES)
def test_receipts_are_no_tombstones_and_go_with_none(name: str) -> None:
    """All tombstones are deleted together, as soon as they are many; receipts stay with the session."""
    layout = Layout("app")
    start, end = layout.tombstones("1f")
    assert start <= layout.tombstone(ID, "1f") < end
    assert not start <= layout.receipt(f"~value/{name}", "1f") < end


def test_a_queue_of_another_recipe_is_below_its_own_place() -> None:
    layout, queue = Layout("app"), queue_of("semaphore", "x")
    key = layout.contender(Ticket(queue, "W", ID), "1f")
    assert key == b"app/~semaphore/x/W-1f-" + ID.encode()
    assert layout.parse(queue, Kv(key, 3, b"", 31, 3, 1)) == Contender(ref_of(key), ID, "W", "1f")
    start, end = layout.locks
    assert not start <= key < end
    assert layout.name_of(key) is None


def test_ranges_of_an_exclusive_recipe_are_the_whole_queue() -> None:
    assert Layout("").ranges("x", EXCLUSIVE) == [(b"x/", b"x/~")]


def test_ranges_of_a_shared_recipe_leave_readers_out() -> None:
    assert Layout("").ranges("x", SHARED) == [(b"x/", b"x/R-"), (b"x/R.", b"x/~")]


@pytest.mark.parametrize(
    ("key", "inside"),
    [
        (b"x/R-1f-id", False),
        (b"x/W-1f-id", True),
        (b"x/1f", True),
        (b"x/R", True),
        (b"x/R.", True),
        (b"x/", True),
        (b"x/}", True),
        (b"x/~recipe/y", False),
    ],
)
def test_all_that_is_no_reader_is_in_the_ranges_of_a_reader(key: Any, inside: Any) -> None:
    assert any(start <= key < end for start, end in Layout("").ranges("x", SHARED)) is inside


@given(NAMES, NAMES, st.sampled_from(["lock", "W", "R"]))
def test_no_queue_sees_anothers_contenders(name: str, other: Any, kind: str) -> None:
    layout = Layout("app")
    start, end = layout.whole(name)
    key = layout.contender(Ticket(other, kind, ID), "1f")
    assert (start <= key < end) == (name == other)
    assert not start <= layout.anchor("1f") < end
    assert not start <= layout.tombstone(ID, "1f") < end


ROOTS = st.lists(st.text("ab.-_09", min_size=1, max_size=2), max_size=3).map("/".join)


@given(ROOTS, ROOTS, NAMES | st.sampled_from(["a", "b", "0", "a%2Fb"]))
def test_no_lock_of_any_root_has_keys_of_sessions_below_it(root: str, other: str, name: str) -> None:
    queue = Layout(root).queue(name)  # everything below it counts for Go's mutex and etcdctl
    sessions = Layout(other)
    for key in (
        sessions.anchor("1f"),
        sessions.tombstone(ID, "1f"),
        sessions.receipt(queue_of("value", "x"), "1f"),
    ):
        assert not key.startswith(queue)
        first, last = Layout(root).locks
        assert not first <= key < last


@given(ROOTS, ROOTS)
def test_sessions_of_different_roots_never_meet(root: str, other: str) -> None:
    one, two = Layout(root), Layout(other)
    same = root == other
    assert (one.anchor("1f") == two.anchor("1f")) is same
    assert (one.tombstone(ID, "1f") == two.tombstone(ID, "1f")) is same
    assert one.anchor("1f") != two.tombstone(ID, "1f")
    assert (one.receipt("~value/x", "1f") == two.receipt("~value/x", "1f")) is same
    assert one.receipt("~value/x", "1f") not in (two.anchor("1f"), two.tombstone(ID, "1f"))


@pytest.mark.parametrize(
    ("key", "name", "behind"),
    [
        (b"app/x/W-1f-id", "x", b"app/x0"),
        (b"app/x/~recipe/y/W-1f-id", None, b"app/x0"),
        (b"app/a b/c", None, b"app/a b0"),
        (b"app/notes", None, b"app/notes\0"),
        (b"app/", None, b"app/\0"),
    ],
)
def test_in_whose_queue_a_key_is_and_what_is_behind(key: bytes, name: str | None, behind: bytes) -> None:
    assert Layout("app").name_of(key) == name
    assert Layout("app").behind(key) == behind


def test_the_ranges_a_client_needs() -> None:
    assert Layout("").everything() == []
    assert Layout("a/b").everything() == [("a/b/", "a/b0"), ("~session/a/b/", "~session/a/b0")]
    layout = Layout("a/b")
    for key in (
        layout.anchor("1f"),
        layout.contender(Ticket("x", "W", ID), "1f"),
        layout.value("~value/x"),
        layout.receipt("~value/x", "1f"),
    ):
        assert any(start.encode() <= key < end.encode() for start, end in Layout("a/b").everything())


def test_whom_a_key_stands_for() -> None:
    ours = f"app/x/R-1f-{ID}"
    assert parse(ours.encode(), b"ready\n{}", 3) == Contender(ours, ID, "R", "1f", "ready", version=2)
    assert parse(f"app/x/W-1f-{ID}".encode()).kind == "W"
    for foreign in (
        b"app/x/694d8c2f",
        b"app/x/R-zz-id",
        b"app/x/W-1f-" + ID.encode() + b"x",
        b"app/x/\xff\xfe",
    ):
        assert parse(foreign, b"ready\n{}", 3) == Contender(ref_of(foreign), "", "W", "", version=2)


@pytest.mark.parametrize("kind", ["S2.10", "S10.1", "M1152921504606846975", "Z", "R2", "B0"])
def test_a_kind_may_carry_numbers(kind: str) -> None:
    key = Layout("app").contender(Ticket("x", kind, ID), "1f")
    assert key == f"app/x/{kind}-1f-{ID}".encode()
    one = parse(key)
    assert (one.id, one.kind, one.session) == (ID, kind, "1f")
    assert any(start <= key < end for start, end in Layout("app").ranges("x", SHARED)), "no reader passes it"
    assert SHARED.blockers((one,)) == EXCLUSIVE.blockers((one,)) == (one,)


@pytest.mark.parametrize("kind", ["s2", "S2.", "S2.10.1", "SS", "2", "", "S-2"])
def test_what_is_no_kind_is_another_clients_and_exclusive(kind: str) -> None:
    assert parse(f"app/x/{kind}-1f-{ID}".encode()) == Contender(f"app/x/{kind}-1f-{ID}", "", "W", "")


def test_queues_of_other_recipes_are_no_locks_and_in_none() -> None:
    layout = Layout("app")
    first, last = layout.locks
    for queue in ("~semaphore/x", "~group/x%2Fy", "~election/x"):
        key = layout.contender(Ticket(queue, "S2.10", ID), "1f")
        start, end = layout.whole(queue)
        assert start <= key < end
        assert (start, end) == (f"app/{queue}/".encode(), f"app/{queue}/~".encode())
        assert not first <= key < last
        assert layout.name_of(key) is None
        for outer, name in ((layout, "x"), (Layout(""), "app"), (layout, "~group/y")):
            start, end = outer.whole(name)
            assert not start <= key < end
    inner = Layout("").locks
    key = layout.contender(Ticket("~semaphore/x", "S2.10", ID), "1f")
    assert inner[0] <= key < inner[1], "it is below what may be a lock's name"
    assert Layout("").name_of(key) is None
    assert Layout("").behind(key) == b"app0"


@given(st.binary(min_size=1, max_size=20))
def test_references_are_injective_text(key: Any) -> None:
    assert ref_of(key).encode("utf-8", "surrogateescape") == key


def test_prefix_end() -> None:
    assert prefix_end(b"ab/") == b"ab0"
