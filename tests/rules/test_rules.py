from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.rule import Nearest, Order
from recipes._rules.exclusive import EVERYBODY, EXCLUSIVE, WRITER
from recipes._rules.holding import granted, waiting
from recipes._rules.readwrite import SHARED

PERMITS = 3


def permits(count: int) -> Order:
    """Admit ``count`` at once: once so many are ahead, each of the nearest may free me."""
    return Order("P", Nearest(count), depth=count)


ORDERS = {
    "exclusive": EXCLUSIVE,
    "writer": WRITER,
    "shared": SHARED,
    "shared, step by step": Order("R", exclusive_only=True),
    "permits": permits(PERMITS),
    "one permit": permits(1),
}
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


def queue(kinds: str) -> tuple[Contender, ...]:
    """Contenders ahead, nearest first; D is a writer that downgraded."""
    return tuple(
        Contender(f"n{i}", kind="W" if kind == "D" else kind, mark=DOWNGRADED if kind == "D" else "")
        for i, kind in enumerate(kinds)
    )


# A writer that downgraded was granted before, so nobody was ahead of it, and nobody comes there.
QUEUES = st.tuples(st.text("RW", max_size=9), st.sampled_from(["", "D"])).map("".join).map(queue)


def named(ahead: tuple[Contender, ...]) -> list[str]:
    return [contender.ref for contender in ahead]


def test_a_rule_is_data_that_a_store_can_judge_by() -> None:
    assert (EXCLUSIVE.blocked_by, EXCLUSIVE.exclusive_only) == (Nearest(1, ""), False)
    assert (SHARED.blocked_by, SHARED.exclusive_only) == (Nearest(1, DOWNGRADED), True)


@pytest.mark.parametrize(
    ("order", "kinds", "blockers", "targets"),
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
def test_table(order: Order, kinds: Any, blockers: Any, targets: Any) -> None:
    assert named(order.blockers(queue(kinds))) == blockers
    assert named(order.targets(queue(kinds))) == targets


@every_order
@given(QUEUES, st.data())
def test_monotone_a_contender_that_goes_never_blocks_anybody(
    order: Order, ahead: tuple[Contender, ...], data: Any
) -> None:
    left = tuple(contender for contender in ahead if data.draw(st.booleans()))
    if not order.blockers(ahead):
        assert not order.blockers(left)


@every_order
@given(QUEUES, st.data())
def test_step_rule_blocked_for_as_long_as_every_target_stands(
    order: Order, ahead: tuple[Contender, ...], data: Any
) -> None:
    """No lost wake-up: whoever else goes, I cannot be free before one of the watched goes."""
    targets = order.targets(ahead)
    left = tuple(contender for contender in ahead if contender in targets or data.draw(st.booleans()))
    assert bool(targets) == bool(order.blockers(left))


@every_order
@given(QUEUES)
def test_the_nearest_of_reach_are_enough_to_decide(order: Order, ahead: tuple[Contender, ...]) -> None:
    """Reads are bounded: what a store shows at least is what the predicate and the rule for watching need."""
    nearest = order.visible(ahead)[: order.reach]
    assert order.blockers(nearest) == order.blockers(ahead)
    assert order.targets(nearest) == order.targets(ahead)


@every_order
@given(QUEUES)
def test_whom_to_watch_is_ahead_and_few(order: Order, ahead: tuple[Contender, ...]) -> None:
    targets = order.targets(ahead)
    assert set(targets) <= set(order.visible(ahead))
    assert len(targets) <= order.depth
    assert bool(targets) == bool(order.blockers(ahead))


@pytest.mark.parametrize(
    ("kinds", "count"),
    [("", 0), ("W", 0), ("R", 0), ("RRR", 0), ("WW", 1), ("RW", 1), ("WRR", 1), ("RWRR", 2), ("RWD", 2)],
)
def test_who_waits_and_who_holds(kinds: str, count: int) -> None:
    assert waiting(queue(kinds)) == count
    assert EVERYBODY.visible(queue(kinds)) == queue(kinds)


@given(QUEUES)
def test_nobody_waits_whom_nobody_ahead_blocks(ahead: tuple[Contender, ...]) -> None:
    kinds = [(one, SHARED if one.shared else WRITER) for one in ahead if not one.downgraded]
    blocked = sum(bool(order.blockers(ahead[ahead.index(one) + 1 :])) for one, order in kinds)
    # Those beside a writer that downgraded count as waiting: not every store shows them apart.
    beside = waiting(ahead) if ahead and ahead[-1].downgraded else 0
    assert blocked == waiting(ahead) or blocked <= beside


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
