"""Which items belong to which member: balanced, and moved as little as can be."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from recipes._rules.sharing import Sharing, mark_of

ITEMS = [f"shard-{number}" for number in range(1024)]
MEMBERS = [f"M{number}" for number in range(16)]
EXPECTED = ("a", "b", "c", "e")


def owners(members: list[str], items: list[str] = ITEMS) -> dict[str, str]:
    """Return who has what, as each member finds by itself."""
    found: dict[str, str] = {}
    for member in members:
        for item in Sharing(items).of(member, members):
            assert item not in found, f"{item} belongs to {found[item]} and to {member}"
            found[item] = member
    return found


def owning(members: list[str], sharing: Sharing) -> dict[str, str]:
    """Return who has what, as any of them finds."""
    return dict(zip(ITEMS, sharing.owners(members), strict=True))


def moved(before: dict[str, str], after: dict[str, str]) -> int:
    return sum(before[item] != after[item] for item in before)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_each_item_belongs_to_exactly_one_member(count: int) -> None:
    members = MEMBERS[:count]
    assert owners(members).keys() == set(ITEMS)


def test_more_members_than_items_leaves_some_without() -> None:
    found = owners(MEMBERS, ["a", "b"])
    assert found.keys() == {"a", "b"}


def test_one_that_is_no_member_has_nothing() -> None:
    sharing = Sharing(ITEMS)
    assert sharing.of("M99", MEMBERS) == ()
    assert sharing.of("M1", []) == ()


def test_the_order_of_members_and_their_number_of_mentions_do_not_matter() -> None:
    sharing = Sharing(ITEMS)
    mine = sharing.of("M3", MEMBERS)
    assert sharing.of("M3", [*reversed(MEMBERS), "M3"]) == mine
    assert list(mine) == [item for item in ITEMS if item in mine], "in their own order"


def test_a_member_remembers_nobody_that_has_gone() -> None:
    sharing = Sharing(["a"])
    for number in range(100):
        sharing.of("M0", ["M0", f"X{number}"])
    assert len(sharing._scores) == 2


def test_scores_are_the_same_everywhere() -> None:
    assert Sharing(["a", "b", "c", "d", "e", "f"]).of("M1", ["M1", "M2"]) == EXPECTED


def test_loads_are_balanced() -> None:
    found = Sharing(ITEMS).owners(MEMBERS)
    loads = [found.count(member) for member in MEMBERS]
    assert sum(loads) == 1024
    assert min(loads) > 64 * 0.6
    assert max(loads) < 64 * 1.4


def test_a_member_that_comes_takes_and_gives_nothing() -> None:
    sharing = Sharing(ITEMS)
    before, after = owning(MEMBERS[:15], sharing), owning(MEMBERS, sharing)
    assert {after[item] for item in ITEMS if before[item] != after[item]} == {MEMBERS[15]}


def test_a_member_that_goes_gives_up_its_own_alone() -> None:
    sharing = Sharing(ITEMS)
    before, after = owning(MEMBERS, sharing), owning(MEMBERS[1:], sharing)
    assert {before[item] for item in ITEMS if before[item] != after[item]} == {MEMBERS[0]}


def test_a_member_that_comes_back_has_what_it_had() -> None:
    sharing = Sharing(ITEMS)
    before = owning(MEMBERS, sharing)
    owning(MEMBERS[1:], sharing)
    assert owning(MEMBERS, sharing) == before


def test_moves_are_the_ideal_number_in_the_mean() -> None:
    """A change that is perfectly balanced moves the share of the one that comes or goes."""
    draw = random.Random(18)
    sharing, present, fresh = Sharing(ITEMS), list(MEMBERS), 16
    before, ratios = owning(present, sharing), []
    for _ in range(100):
        if len(present) > 12 and (len(present) > 20 or draw.random() < 0.5):
            ideal = len(ITEMS) / len(present)
            present.remove(draw.choice(present))
        else:
            present.append(f"M{fresh}")
            fresh += 1
            ideal = len(ITEMS) / len(present)
        after = owning(present, sharing)
        ratios.append(moved(before, after) / ideal)
        before = after
    assert 0.9 < fmean(ratios) < 1.1


def test_the_mark_says_which_items_in_whatever_order() -> None:
    assert mark_of(["a", "b"]) == mark_of(["b", "a"])
    assert len({mark_of(items) for items in ([], ["a"], ["ab"], ["a", "b"], ["", "ab"], ["1:a"])}) == 6
    assert "\n" not in mark_of(["a\nb"])


def test_members_of_another_version_come_to_the_same() -> None:
    """Processes of two versions share a set: neither the mark nor an owner may change."""
    items = ["", "a", "b", "\u00e9", "c0", "c1", "c2", "c3"]
    found = Sharing(items).owners(["M1", "M2", "M3"])
    assert found == ("M3", "M1", "M3", "M1", "M2", "M3", "M3", "M3")
    assert mark_of(items) == "fdb4364d499089b8c8929e5c31087fbf"
