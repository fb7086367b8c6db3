"""The rule of a semaphore: who holds, what is seen of it from behind, and what would wait for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recipes._contract.contenders import GRANTED, Ahead, Contender
from recipes._rules.holding import granted, holders, waiting
from recipes._rules.permits import Permits, limit_of, may_hold, permits, permits_of
from recipes._rules.registry import rule_of


def queue(*kinds: str) -> tuple[Contender, ...]:
    """Contenders, first come first."""
    return tuple(Contender(f"n{entry}", kind=kind) for entry, kind in enumerate(kinds))


LIMITED = st.integers(1, 6).flatmap(lambda limit: st.integers(1, limit).map(lambda w: f"S{w}.{limit}"))
QUEUES = st.lists(LIMITED, max_size=9).map(lambda kinds: queue(*kinds))
ALIKE = st.integers(1, 5).flatmap(
    lambda limit: st.lists(st.integers(1, limit).map(lambda w: f"S{w}.{limit}"), max_size=9)
)
WITH_OTHERS = st.lists(st.one_of(LIMITED, st.sampled_from(["X", "S0.5", "S", "W"])), max_size=9).map(
    lambda kinds: queue(*kinds)
)


def held(contenders: tuple[Contender, ...]) -> set[str]:
    return {one.ref for one in contenders[: holders(contenders)]}


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        ([], 0),
        (["S1.2", "S1.2", "S1.2"], 2),
        (["S2.2", "S1.2"], 1),
        (["S1.3", "S3.3", "S1.3"], 1),  # a light one does not overtake a heavy one
        (["S1.2", "S1.2", "S1.10", "S1.2"], 3),  # a larger limit admits more
        (["S1.2", "S1.10", "S1.2", "S1.10"], 2),  # a smaller one holds back those behind it
        (["S1.10", "S1.10", "S1.1"], 2),
        (["W", "S1.5"], 1),
        (["S1.5", "W", "S1.5"], 1),
        (["S1.5", "S9", "S1.5"], 1),
    ],
)
def test_who_holds(kinds: list[str], count: int) -> None:
    assert holders(queue(*kinds)) == count


@given(WITH_OTHERS)
@example(queue("S1.1", "S1.1", "S1.6"))  # by its own limit alone the last would hold
def test_a_contender_holds_unless_its_own_rule_names_a_blocker(contenders: tuple[Contender, ...]) -> None:
    snapshots = [(one, contenders[:entry][::-1]) for entry, one in enumerate(contenders)]
    assert granted(contenders) == [not rule_of(one.kind).blockers(snapshot) for one, snapshot in snapshots]


def test_who_holds_is_found_by_adding_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each added up all that were ahead of it, and a loop in which that was done ran nothing meanwhile."""
    asked: list[int] = []
    monkeypatch.setattr(Permits, "__call__", lambda self, ahead: asked.append(len(ahead)) or ())
    assert holders(queue(*["S1.500"] * 1000)) == 500
    assert asked == []


@given(WITH_OTHERS, st.data())
def test_a_contender_that_goes_takes_permits_from_nobody(
    contenders: tuple[Contender, ...], data: Any
) -> None:
    left = tuple(one for one in contenders if data.draw(st.booleans()))
    assert held(contenders) & {one.ref for one in left} <= held(left)


@given(ALIKE)
def test_with_one_limit_the_holders_have_at_most_that_and_the_next_does_not_fit(kinds: list[str]) -> None:
    contenders = queue(*kinds)
    weights = [rule_of(kind).weight or 0 for kind in kinds]
    count = holders(contenders)
    if kinds:
        limit = limit_of(contenders[0])
        assert limit is not None
        assert sum(weights[:count]) <= limit
        assert count == len(kinds) or sum(weights[: count + 1]) > limit


@given(WITH_OTHERS, LIMITED)
def test_the_nearest_of_reach_are_enough_to_decide(contenders: Ahead, kind: str) -> None:
    ahead, rule = contenders[::-1], rule_of(kind)
    assert bool(rule.blockers(ahead[: rule.reach])) == bool(rule.blockers(ahead))
    assert rule.blockers(ahead) in ((), ahead[: rule.depth])


@given(WITH_OTHERS.filter(bool), st.integers(1, 9), st.booleans())
def test_that_the_nearest_holds_is_never_overlooked(
    contenders: tuple[Contender, ...], seen: int, counted: bool
) -> None:
    ahead = contenders[::-1]
    all_hold = holders(contenders) == len(contenders)
    assert may_hold(ahead, complete=True, position=len(ahead)) is all_hold
    position = len(ahead) if counted else len(ahead[:seen])
    assert may_hold(ahead[:seen], complete=False, position=position) or not all_hold


def test_one_that_says_it_was_granted_holds() -> None:
    ahead = (Contender("b", kind="S1.1", mark=GRANTED), Contender("a", kind="S1.1"))
    assert may_hold(ahead, complete=False, position=2)


@pytest.mark.parametrize(
    ("mine", "held", "waits", "stuck"),
    [
        ("S1.4", ["S1.4"], ["S4.4"], True),  # T holds 1 of 4, H waits for 4, T asks for 1
        ("S1.4", ["S1.4"], ["S3.4"], False),
        ("S1.4", ["S1.4"], [], False),
        ("S4.4", ["S1.4"], [], True),
        ("S2.4", ["S1.4", "S2.4"], [], True),
        ("S1.4", [], ["S4.4"], False),
        ("S1.9", ["S1.4"], ["S1.1"], True),  # the limit of the one that waits
        ("S1.9", ["S1.4"], ["W"], True),
    ],
)
def test_what_would_wait_for_ever(mine: str, held: list[str], waits: list[str], stuck: bool) -> None:
    assert rule_of(mine).stuck(queue(*held), queue(*waits)) is stuck


@given(LIMITED, QUEUES)
def test_who_waits_is_who_does_not_hold(kind: str, contenders: tuple[Contender, ...]) -> None:
    assert waiting(contenders[::-1]) == contenders[holders(contenders) :][::-1]
    assert rule_of(kind) == permits_of(kind)


@pytest.mark.parametrize("kind", ["S", "S1", "S0.3", "S1.0", "S4.3", "S01.3", "S1.3.4", "S-1.3", "T1.3"])
def test_a_kind_that_says_nothing_sound_is_exclusive(kind: str) -> None:
    assert permits_of(kind) is None
    assert limit_of(Contender("x", kind=kind)) is None
    assert rule_of(kind).mode == "exclusive"
    assert rule_of(kind).weight is None
    assert granted(queue("S1.9", kind)) == granted(queue(kind, "S1.9")) == [True, False]


def test_a_rule_of_permits() -> None:
    rule = permits(2, 10)
    assert (rule.kind, rule.mode, rule.weight, rule.reach) == ("S2.10", "shared", 2, 11)
    assert rule.minds_marks
    assert not rule.exclusive_only
