from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.contenders import Contender
from recipes._contract.names import encode, queue_of
from recipes._contract.operations import Ticket
from recipes.stores.zookeeper.layout import NEAR_THE_END, Child, Layout, dubious

ID = "01234567-89ab-cdef-0123-456789abcdef"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(encode)


@pytest.mark.parametrize(("root", "base"), [("", "/"), ("app", "/app/"), ("a/b", "/a/b/")])
def test_paths(root: Any, base: Any) -> None:
    layout = Layout(root)
    assert layout.queue("x") == f"{base}x"
    assert layout.contender(Ticket("x", "lock", ID)) == f"{base}x/_c_{ID}-lock-"
    assert layout.contender(Ticket("x", "R", ID)) == f"{base}x/_c_{ID}-R-lock-"
    there = Ticket("~semaphore/x", "S2.10", ID)
    assert layout.contender(there) == f"{base}~semaphore/x/_c_{ID}-S2.10-lock-"


def test_ancestors() -> None:
    assert Layout("").ancestors("x") == ["/x"]
    assert Layout("a/b").ancestors("x") == ["/a", "/a/b", "/a/b/x"]
    assert Layout("a").ancestors("~group/x") == ["/a", "/a/~group", "/a/~group/x"]


def test_a_queue_of_another_recipe_is_below_its_own_node() -> None:
    layout, queue = Layout("app"), queue_of("semaphore", "x")
    assert layout.queue(queue) == "/app/~semaphore/x"
    assert layout.ancestors(queue) == ["/app", "/app/~semaphore", "/app/~semaphore/x"]
    assert layout.contender(Ticket(queue, "W", ID)) == f"/app/~semaphore/x/_c_{ID}-W-lock-"


@given(NAMES)
def test_a_name_is_one_node(name: str) -> None:
    path = Layout("app").queue(name)
    assert path.count("/") == 2
    assert path.rpartition("/")[2] not in ("", ".", "..")


@pytest.mark.parametrize(
    ("child", "number"),
    [
        (f"_c_{ID}-lock-0000000007", 7),
        (f"_c_{ID}-W-lock-2147483647", 2**31 - 1),
        (f"_c_{ID}-lock--000000001", -1),  # %010d of a negative
        (f"_c_{ID}-lock--2147483648", -(2**31)),
        ("x__lock__0000000003", 3),
        ("x__lock__-2147483648", -(2**31)),
        ("0000000004", 4),
        ("_c_x-lock-", None),
        ("notes", None),
        ("lock-12345678", None),
        ("0000000004x", None),
        ("", None),
        ("~recipe", None),
        ("~recipe-0000000001", None),
        ("~10000123456789012", None),  # the receipt of a session
        ("x~-0000000001", 1),
    ],
)
def test_what_is_a_contender(child: Any, number: int) -> None:
    assert Layout("").children([child]) == ([] if number is None else [(number, child)])


def test_children_are_sorted_latest_first() -> None:
    names = ["a-0000000001", "notes", "b-0000000010", "c-0000000003"]
    assert [name for _, name in Layout("").children(names)] == [
        "b-0000000010",
        "c-0000000003",
        "a-0000000001",
    ]


def test_a_number_that_no_server_counts_is_no_contenders() -> None:
    names = [f"a-{2**31 - 1}", f"b-{2**31}", "c-9999999999"]
    assert [name for _, name in Layout("").children(names)] == [f"a-{2**31 - 1}"]


@pytest.mark.parametrize(
    ("child", "identity", "kind"),
    [
        (f"_c_{ID}-lock-0000000001", ID, "W"),
        (f"_c_{ID}-W-lock-0000000001", ID, "W"),
        (f"_c_{ID}-R-lock-0000000001", ID, "R"),
        (f"_c_{ID}-S2.10-lock-0000000001", ID, "S2.10"),
        (f"_c_{ID}-M1152921504606846975-lock-0000000001", ID, "M1152921504606846975"),
        (f"_c_{ID}-S2.-lock-0000000001", "", "W"),
        (f"_c_{ID}-RS-lock-0000000001", "", "W"),
        (f"_c_{ID}-a__READ__b-lock-0000000001", "", "W"),
        (f"_c_{ID}-__rlock__-lock-0000000001", "", "W"),
        ("x__lock__0000000001", "", "W"),
        ("x__rlock__0000000001", "", "R"),
        ("x__rlock__-2147483648", "", "R"),
        (f"_c_{ID}-__READ__0000000001", "", "R"),
        (f"_c_{ID}-__WRIT__0000000001", "", "W"),
        ("lease-0000000001", "", "W"),
    ],
)
def test_whom_a_child_stands_for(child: Any, identity: Any, kind: str) -> None:
    assert Layout("app").parse("x", child) == Contender(f"/app/x/{child}", identity, kind)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ([], False),
        ([5], False),
        ([9, 5, 1], False),
        ([NEAR_THE_END - 1, 1], False),
        ([NEAR_THE_END, 1], True),
        ([2**31 - 1_000, 1], True),
        ([2**31 - 1, 2**31 - 1], True),
        ([5, 5, 1], True),
        ([3, -5], True),
        ([-5], True),
    ],
)
def test_dubious(numbers: Any, verdict: Any) -> None:
    assert dubious([Child((number, f"n{i}")) for i, number in enumerate(numbers)]) is verdict


@pytest.mark.parametrize(
    ("child", "told"),
    [
        ("_c_10000000-0000-4000-8000-000000000000-lock-0000000001", None),
        ("_c_10000000-0000-4000-8000-000000000000-R-lock-0000000001", None),
        ("_c_10000000-0000-4000-8000-000000000000-__READ__0000000001", "InterProcessMutex"),
        ("_c_10000000-0000-4000-8000-000000000000-__WRIT__0000000001", "InterProcessMutex"),
        ("0123456789abcdef0123456789abcdef__lock__0000000001", "extra_lock_patterns"),
        ("0123456789abcdef0123456789abcdef__rlock__0000000001", "extra_lock_patterns"),
        ("0123456789abcdef0123456789abcdef__lock__", "no contender"),
        ("notes", "no contender"),
        ("~recipe", None),
        ("~recipe-0000000001", None),
        ("~10000123456789012", None),  # the receipt of a session
    ],
)
def test_what_is_told_of_a_child(child: str, told: str | None) -> None:
    said = Layout("app").foreign(child)
    assert said is None if told is None else told in (said or "")
