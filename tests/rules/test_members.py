"""The rule of members: an id has one at a time, and other ids are not in its way."""

from __future__ import annotations

from itertools import product

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.rule import Nearest
from recipes._rules.exclusive import EVERYBODY
from recipes._rules.holding import granted, holders, waiting
from recipes._rules.members import member, member_of, new_member, pack, unpack
from recipes._rules.registry import rule_of
from recipes._rules.roster import Listed, members

IDS = "abc"
LONGEST = 6
QUEUES = [ids for length in range(LONGEST + 1) for ids in product(IDS, repeat=length)]
"""Every queue of a few contenders, first come first, by their ids."""


def contender(place: int, member_id: str, data: bytes = b"") -> Contender:
    return Contender(
        f"n{place}", f"{place}", member(member_id).kind, token=place + 1, data=pack(member_id, data)
    )


def queue(ids: tuple[str, ...]) -> tuple[Contender, ...]:
    return tuple(contender(place, member_id) for place, member_id in enumerate(ids))


def firsts(ids: tuple[str, ...]) -> list[int]:
    """Say by the plain rule which hold: the first of each id."""
    return [place for place, member_id in enumerate(ids) if member_id not in ids[:place]]


def test_in_every_queue_the_first_of_each_id_holds_and_nobody_else() -> None:
    for ids in QUEUES:
        everyone = queue(ids)
        holding = [place for place, holds in enumerate(granted(everyone)) if holds]
        assert holding == firsts(ids)
        assert holders(everyone) == len(holding)
        assert {one.ref for one in waiting(everyone[::-1])} == {
            f"n{place}" for place in range(len(ids)) if place not in holding
        }
        assert [one.id for one in members(everyone)] == [ids[place] for place in holding]


def test_in_every_queue_one_is_blocked_by_the_nearest_of_its_own_id_alone() -> None:
    for ids in QUEUES:
        ahead = queue(ids)[::-1]
        for member_id in IDS:
            rule, before = member(member_id), [place for place, one in enumerate(ids) if one == member_id]
            assert [one.ref for one in rule.blockers(ahead)] == [f"n{place}" for place in before[-1:]]
            watched = before[-2:-1] or before[-1:]  # the second ahead, if there is one
            assert [one.ref for one in rule.targets(ahead)] == [f"n{place}" for place in watched]


def test_in_every_queue_one_that_goes_blocks_nobody() -> None:
    for ids in QUEUES:
        for gone in range(len(ids)):
            left = ids[:gone] + ids[gone + 1 :]
            before = {place for place in firsts(ids) if place != gone}
            after = {place + (place >= gone) for place in firsts(left)}
            assert before <= after


def test_in_every_queue_while_what_is_watched_stands_one_is_blocked() -> None:
    rule = member("a")
    for ids in QUEUES:
        ahead = queue(ids)[::-1]
        targets = rule.targets(ahead)
        for kept in product((True, False), repeat=len(ahead)):
            left = tuple(one for one, keeps in zip(ahead, kept, strict=True) if keeps or one in targets)
            assert bool(rule.blockers(left)) == bool(targets)


def test_it_is_data_that_a_store_can_judge_by_and_has_to_see_all_ahead() -> None:
    rule = member("a")
    assert (rule.blocked_by, rule.own_kind_only, rule.exclusive_only) == (Nearest(), True, False)
    assert rule.depth == EVERYBODY.depth
    assert (rule.mode, rule.weight, rule.minds_marks) == ("exclusive", None, False)


def test_one_with_a_new_id_need_not_see_all() -> None:
    rule, far = new_member("a"), queue(("b",) * 50)
    assert rule.kind == member("a").kind
    assert rule.reach < 10
    assert not rule.blockers(far[: rule.reach])


def test_what_would_wait_is_stuck_if_its_owner_is_the_member_it_waits_for() -> None:
    rule = member("a")
    assert rule.stuck(queue(("b", "a")), ())
    assert not rule.stuck(queue(("b", "c")), queue(("a",)))


def test_the_kind_says_the_id_and_the_registry_knows_it() -> None:
    kinds = {member(f"id {number}").kind for number in range(1000)}
    assert len(kinds) == 1000
    for kind in kinds:
        assert kind[0] == "M"
        assert 0 <= int(kind[1:]) < 2**60
        assert rule_of(kind) == member_of(kind)
    assert rule_of(member("a").kind) == member("a")


def test_the_kind_of_an_id_never_changes() -> None:
    assert member("worker-1").kind == "M85614546239952307", "else two versions each let one in"


@pytest.mark.parametrize("kind", ["M", "M01", "M-1", "M1.2", "m1", "M12345678901234567890", "M1 ", "W", ""])
def test_what_is_no_kind_of_a_member(kind: str) -> None:
    assert member_of(kind) is None


@pytest.mark.parametrize("member_id", ["a", "a b", "\n", "é", "%", ".", "x" * 1024])
@pytest.mark.parametrize("data", [b"", b"\n", b"a\nb", bytes(range(256))])
def test_an_id_and_data_are_read_back_as_they_were_packed(member_id: str, data: bytes) -> None:
    assert unpack(pack(member_id, data)) == (member_id, data)


@pytest.mark.parametrize("said", [b"", b"no line end", b"\nempty", b"%zz\n", b"\xff\n", b"a b\n", b"%41\n"])
def test_what_no_member_says(said: bytes) -> None:
    assert unpack(said) is None


@pytest.mark.parametrize("bad", ["", "x" * 1025, "\ud800", None, 7])
def test_an_id_that_does_not_fit(bad: object) -> None:
    for refused in (member, new_member):
        with pytest.raises((TypeError, ValueError), match=r"^id: "):
            refused(bad)  # type: ignore[arg-type]


def test_what_is_of_another_layout_is_no_member_and_hides_none() -> None:
    queued = (
        Contender("kazoo", data=b"a\n"),  # it has no id of an attempt
        contender(1, "a", b"1"),
        Contender("another kind", "2", "W", data=pack("b", b"")),
        contender(3, "b", b"3"),
        Contender("unreadable", "4", member("c").kind, data=b"?"),
    )
    assert members(queued) == [Listed("a", b"1", queued[1]), Listed("b", b"3", queued[3])]


@pytest.mark.parametrize("said", [b"", b"a", b"a b\n", b"%FF\n", b"x" * 1025 + b"\n"])
def test_what_no_member_says_is_read_as_nothing(said: bytes) -> None:
    assert unpack(said) is None
