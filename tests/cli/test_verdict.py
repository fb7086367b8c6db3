"""The verdict, on turns, files and events made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.cli.demo.scenes import ACCOUNTS, COUNTER, Scene, State
from recipes.cli.demo.verdict import Side, Verdict

TOTAL = sum(ACCOUNTS.opening)


def add(worker: int, token: int, at: float, **fields: Any) -> dict[str, Any]:
    """Return a turn that adds one to the counter, from ``at`` on for 0.1 s."""
    value = {"value": token - 9, "token": token, "before": token - 1, "changes": 1}
    return {"worker": worker, "at": at, "until": at + 0.1, **value, **fields}


def move(worker: int, token: int, at: float, **fields: Any) -> dict[str, Any]:
    """Return a turn that moves money, downgrades after 0.05 s and ends after 0.1 s."""
    wrote = {"token": token, "before": token - 1, "changes": 2, "kept": True}
    return {
        "worker": worker,
        "at": at,
        "until": at + 0.1,
        "down": at + 0.05,
        "value": TOTAL,
        **wrote,
        **fields,
    }


def look(worker: int, token: int, at: float, **fields: Any) -> dict[str, Any]:
    """Return a turn that adds up."""
    times = {"at": at, "until": at + 0.1, "lock_token": token}
    return {"worker": worker, "value": TOTAL, "mode": "shared", **times, **fields}


COUNTING = [add(1, 10, 0.0), add(2, 11, 0.13), add(2, 12, 0.3), add(1, 13, 0.5)]
BANKING = [move(1, 20, 0.0), look(2, 22, 0.06), look(4, 23, 0.07), move(3, 25, 0.2)]


def played(scene: Scene, turns: list[dict[str, Any]], changes: int, *numbers: int) -> Side:
    """Return a side that has these turns, each under a grant, and whose file says this in the end."""
    side = Side(scene)
    for turn in turns:
        of = {"name": scene.lock, "mode": turn.get("mode", "exclusive"), "worker": turn["worker"]}
        of["token"] = turn.get("lock_token", turn.get("token"))
        side.take({**of, "event": "lock.queued", "at": turn["at"] - 0.5})
        side.take({**of, "event": "lock.acquired", "at": turn["at"], "waited_s": 0.5})
        if "down" in turn:
            side.take({**of, "event": "lock.downgraded", "at": turn["down"]})
        side.take({**of, "event": "lock.released", "at": turn["until"], "held_s": 0.1})
        side.take({**turn, "event": "turn"})
    side.settle(State(None, changes, list(numbers)))
    return side


def counted(*turns: dict[str, Any], changes: int = 4, number: int = 4) -> Side:
    return played(COUNTER, [*turns] or COUNTING, changes, number)


def banked(*turns: dict[str, Any], changes: int = 4, money: int = TOTAL) -> Side:
    return played(ACCOUNTS, [*turns] or BANKING, changes, money, 0, 0, 0)


def lossy() -> Side:
    """Return a counter without a lock: four turns, of which two are lost."""
    side = Side(COUNTER)
    for worker, value in ((1, 1), (2, 1), (3, 2), (4, 2)):
        side.take({"event": "turn", "worker": worker, "value": value, "token": None, "before": None})
    side.settle(State(None, 2, [2]))
    return side


def test_a_good_run_is_ok() -> None:
    assert counted().problems() == banked().problems() == []
    assert Verdict([(counted(), lossy()), (banked(), Side(ACCOUNTS))]).ok


LATE = {**COUNTING[0], "until": 0.15}


@pytest.mark.parametrize(
    ("side", "problem"),
    [
        (counted(number=5), "the numbers add up to 5, not to 4"),
        (counted(changes=3), "the file counted 3 changes, and 4 were made"),
        (counted(*COUNTING[:3], add(1, 13, 0.5, before=13)), "the tokens of the changes do not rise"),
        (counted(*COUNTING[:3], add(1, 13, 0.5, before=14)), "the tokens of the changes do not rise"),
        (
            counted(*COUNTING[:3], {**COUNTING[3], "token": None, "lock_token": 13}),
            "the tokens of the changes do",
        ),
        (counted(LATE, *COUNTING[1:]), "1 times the lock was held beside a holder that excludes it"),
        (banked(*BANKING[:3], move(3, 25, 0.2, value=995)), "1 of 4 wrong sums"),
        (banked(money=TOTAL - 5), "the numbers add up to 995, not to 1000"),
        (banked(changes=6), "the file counted 6 changes, and 4 were made"),
        (banked(*BANKING[:3], move(3, 25, 0.2, before=30)), "the tokens of the changes do not rise"),
        (banked({**BANKING[0], "kept": False}, *BANKING[1:]), "1 times a writer did not read back"),
        (banked(*BANKING[:3], move(3, 25, 0.165)), "1 times the lock was held beside a holder"),
        (banked({**BANKING[0], "down": 0.065}, *BANKING[1:]), "1 times the lock was held beside a holder"),
        (banked(look(2, 22, 0.0), look(4, 23, 0.0), changes=0), "nothing was changed"),
    ],
)
def test_each_broken_promise_fails_the_run(side: Side, problem: str) -> None:
    assert [words for words in side.problems() if problem in words]
    assert len(side.problems()) == 1
    good = counted() if side.scene is ACCOUNTS else banked()
    assert not Verdict([(side, lossy()), (good, lossy())]).ok


def test_a_lost_update_is_counted_and_missed_in_the_file() -> None:
    side = counted(number=3, changes=3)
    assert side.wrong == 1
    assert "counter: 1 of 4 updates lost" in side.problems()
    assert len(side.problems()) == 3


def test_a_log_that_lacks_grants_is_no_proof() -> None:
    side = counted()
    side.history.holds.pop()
    assert side.problems() == ["counter: 3 grants were logged for 4 turns"]


def test_a_run_that_did_not_end_is_not_ok() -> None:
    good = [(counted(), lossy()), (banked(), lossy())]
    assert Verdict(good).ok
    assert not Verdict(good[:1]).ok
    assert not Verdict().ok
    dead = Verdict(good, ["worker 1 ended by SIGKILL"])
    assert not dead.ok
    assert dead.problems == ["worker 1 ended by SIGKILL"]


def test_what_is_lost_without_the_lock_is_no_failure() -> None:
    assert lossy().wrong == 2
    assert lossy().share() == "2 of 4 (50%)"
    assert Side(COUNTER).share() == "0 of 0"


def test_the_figures() -> None:
    assert list(counted().figures(lossy())) == [
        ("updates lost", "0 of 4", "2 of 4 (50%)"),
        ("sum of the file", "4", "2"),
        ("fencing tokens", "each larger", ""),
        ("exclusion broken", "never", ""),
        ("hand-overs", "3, 3 a second", ""),
        ("each took", "70.00 ms (p90 100.00)", ""),
    ]
    assert ("readers at once", "up to 3", "") in list(banked().figures(Side(ACCOUNTS)))


def test_bad_figures() -> None:
    side = counted(LATE, *COUNTING[1:3], add(1, 13, 0.5, before=20))
    figures = {what: locked for what, locked, _ in side.figures(lossy())}
    assert figures["fencing tokens"] == "NOT rising"
    assert figures["exclusion broken"] == "1 times"


def test_what_happened_lately() -> None:
    side = counted()
    assert len(side.recent(3).holds) == 1
    assert len(side.recent(100, until=0.05).holds) == 1
    assert side.recent(100, until=-9.0).holds == []
    side.take({"event": "session.suspect", "worker": 1, "at": 9.0})
    side.take({"event": "lock.acquired", "name": "another", "worker": 1, "at": 9.0})
    assert len(side.recent(100).holds) == 4


def test_as_fields() -> None:
    fields = Verdict([(counted(), lossy())], ["x"]).as_fields()
    assert (fields["ok"], fields["problems"]) == (False, ["x"])
    assert fields["counter"] == {
        "locked": {"turns": 4, "wrong": 0, "total": 4, "changes": 4},
        "unlocked": {"turns": 4, "wrong": 2, "total": 2, "changes": 2},
    }
