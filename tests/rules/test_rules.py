from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.contenders import DOWNGRADED, GRANTED, Contender
from recipes._contract.rule import Nearest, Rule
from recipes._rules.barrier import GONE, LEAVING, PARTY, PASSED, TIMED_OUT
from recipes._rules.exclusive import EVERYBODY, EXCLUSIVE, WRITER
from recipes._rules.holding import granted, holders, waiting
from recipes._rules.readwrite import SHARED
from recipes._rules.registry import rule_of

PERMITS = 3


def permits(count: int) -> Rule:
    """Admit ``count`` at once: once so many are ahead, each of the nearest may free me."""
    return Rule("P", Nearest(count), depth=count)


RULES = {
    "exclusive": EXCLUSIVE,
    "writer": WRITER,
    "shared": SHARED,
    "shared, step by step": Rule("R", exclusive_only=True),
    "permits": permits(PERMITS),
    "one permit": permits(1),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def queue(kinds: str) -> tuple[Contender, ...]:
    """Contenders ahead, nearest first; D is a writer that downgraded."""
    return tuple(
        Contender(f"n{i}", kind="W" if kind == "D" else kind, mark=DOWNGRADED if kind == "D" else "")
        for i, kind in enumerate(kinds)
    )


# A writer that downgraded was granted before, so nobody was ahead of it, and nobody comes there.
QUEUES = st.tuples(st.text("RW", max_size=9), st.sampled_from(["", "D"])).map("".join).map(queue)


EVERY_KIND = st.tuples(st.text("RWXL", max_size=9), st.sampled_from(["", "D"])).map("".join).map(queue)


def named(ahead: tuple[Contender, ...]) -> list[str]:
    return [contender.ref for contender in ahead]


def test_a_rule_is_data_that_a_store_can_judge_by() -> None:
    assert (EXCLUSIVE.blocked_by, EXCLUSIVE.exclusive_only) == (Nearest(1, ""), False)
    assert (SHARED.blocked_by, SHARED.exclusive_only) == (Nearest(1, DOWNGRADED), True)


@pytest.mark.parametrize(
    ("rule", "kinds", "blockers", "targets"),
    [
        (EXCLUSIVE, "", [], []),
        (EXCLUSIVE, "W", ["n0"], ["n0"]),
        (EXCLUSIVE, "WW", ["n0"], ["n1"]),  # deep in the queue: the second one ahead
        (EXCLUSIVE, "WWWW", ["n0"], ["n1"]),
        (EXCLUSIVE, "R", ["n0"], ["n0"]),
        (SHARED, "", [], []),
        (SHARED, "RRR", [], []),
        (SHARED, "RRW", ["n2"], ["n2"]),
        (SHARED, "WRW", ["n0"], ["n0"]),  # no step by step: many would wake for nothing
        (SHARED, "WWW", ["n0"], ["n0"]),
        (SHARED, "D", [], []),
        (SHARED, "RRD", [], []),
        (SHARED, "RWRD", ["n1"], ["n1"]),
        (WRITER, "", [], []),
        (WRITER, "R", ["n0"], ["n0"]),
        (WRITER, "RRR", ["n0"], ["n1"]),
        (WRITER, "RW", ["n0"], ["n1"]),
        (WRITER, "D", ["n0"], ["n0"]),  # it lets readers in alone
        (WRITER, "RD", ["n0"], ["n1"]),
        (permits(2), "W", [], []),
        (permits(2), "WW", ["n0", "n1"], ["n0", "n1"]),
        (permits(2), "WWW", ["n0", "n1"], ["n1", "n2"]),
    ],
)
def test_table(rule: Rule, kinds: Any, blockers: Any, targets: Any) -> None:
    assert named(rule.blockers(queue(kinds))) == blockers
    assert named(rule.targets(queue(kinds))) == targets


@every_rule
@given(QUEUES, st.data())
def test_monotone_a_contender_that_goes_never_blocks_anybody(
    rule: Rule, ahead: tuple[Contender, ...], data: Any
) -> None:
    left = tuple(contender for contender in ahead if data.draw(st.booleans()))
    if not rule.blockers(ahead):
        assert not rule.blockers(left)


@every_rule
@given(QUEUES, st.data())
def test_step_rule_blocked_for_as_long_as_every_target_stands(
    rule: Rule, ahead: tuple[Contender, ...], data: Any
) -> None:
    """No lost wake-up: whoever else goes, I cannot be free before one of the watched goes."""
    targets = rule.targets(ahead)
    left = tuple(contender for contender in ahead if contender in targets or data.draw(st.booleans()))
    assert bool(targets) == bool(rule.blockers(left))


@every_rule
@given(QUEUES)
def test_the_nearest_of_reach_are_enough_to_decide(rule: Rule, ahead: tuple[Contender, ...]) -> None:
    """Reads are bounded: what a store shows at least is what the predicate and the rule for watching need."""
    nearest = rule.visible(ahead)[: rule.reach]
    assert rule.blockers(nearest) == rule.blockers(ahead)
    assert rule.targets(nearest) == rule.targets(ahead)


@every_rule
@given(QUEUES)
def test_whom_to_watch_is_ahead_and_few(rule: Rule, ahead: tuple[Contender, ...]) -> None:
    targets = rule.targets(ahead)
    assert set(targets) <= set(rule.visible(ahead))
    assert len(targets) <= rule.depth
    assert bool(targets) == bool(rule.blockers(ahead))


@pytest.mark.parametrize(
    ("kinds", "count"),
    [("", 0), ("W", 0), ("R", 0), ("RRR", 0), ("WW", 1), ("RW", 1), ("WRR", 1), ("RWRR", 2), ("RWD", 2)],
)
def test_who_waits_and_who_holds(kinds: str, count: int) -> None:
    assert len(waiting(queue(kinds))) == count
    assert EVERYBODY.visible(queue(kinds)) == queue(kinds)


@given(QUEUES)
def test_who_waits_is_who_does_not_hold(ahead: tuple[Contender, ...]) -> None:
    # Those beside a writer that downgraded count as waiting: not every store shows them apart.
    beside = holders(reversed(ahead)) - 1 if ahead and ahead[-1].downgraded else 0
    assert len(waiting(ahead)) == len(ahead) - holders(reversed(ahead)) + beside


@given(EVERY_KIND)
def test_a_contender_holds_if_and_only_if_nobody_blocks_it_in_its_own_view(
    ahead: tuple[Contender, ...],
) -> None:
    snapshots = [(one, ahead[entry + 1 :]) for entry, one in enumerate(ahead)][::-1]
    assert granted(ahead[::-1]) == [not rule_of(one.kind).blockers(snapshot) for one, snapshot in snapshots]


@given(EVERY_KIND, st.data())
def test_a_contender_that_goes_takes_the_lock_from_nobody(ahead: tuple[Contender, ...], data: Any) -> None:
    queue = ahead[::-1]
    held = {one.ref for one in queue[: holders(queue)]}
    left = tuple(one for one in queue if data.draw(st.booleans()))
    assert held & {one.ref for one in left} <= {one.ref for one in left[: holders(left)]}


@pytest.mark.parametrize("kind", ["X", "Q7.2", "R7", "W1", "", "r", "R.", "lock2"])
def test_an_unknown_kind_is_exclusive(kind: str) -> None:
    unknown = Contender("x", kind=kind)
    assert rule_of(kind).mode == "exclusive"
    for known in ("lock", "W", "R"):
        assert granted([unknown, Contender("y", kind=known)]) == [True, False]
        assert granted([Contender("y", kind=known), unknown]) == [True, False]


def test_every_kind_of_a_rule_has_that_rule() -> None:
    assert [rule_of(rule.kind) for rule in (EXCLUSIVE, WRITER, SHARED)] == [EXCLUSIVE, WRITER, SHARED]


def test_only_readers_are_shared() -> None:
    assert Contender("x", kind="R").shared
    assert not Contender("x", kind="W").shared
    assert not Contender("x", kind="lock").shared


def test_who_holds_as_the_store_shows_it() -> None:
    def queue(kinds: str) -> list[Contender]:
        return [
            Contender(str(at), kind=kind.upper(), mark=DOWNGRADED if kind == "w" else "")
            for at, kind in enumerate(kinds)
        ]

    for kinds, holds in {
        "": "",
        "W": "1",
        "WW": "10",
        "RRWR": "1100",
        "wRRWR": "11100",
        "wW": "10",
        "WR": "10",
    }.items():
        assert granted(queue(kinds)) == [one == "1" for one in holds], kinds


def test_kinds_and_marks_are_those_that_clients_of_other_versions_write() -> None:
    kinds = [rule.kind for rule in (EXCLUSIVE, WRITER, SHARED, PARTY)]
    assert kinds == ["lock", "W", "R", "B"]
    assert (DOWNGRADED, GRANTED, LEAVING) == ("downgraded", "granted", "leaving")
    assert (PASSED, TIMED_OUT, GONE) == ("passed", "timed-out", "gone"), "and what a barrier's record says"
