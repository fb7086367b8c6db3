"""The arithmetic of the verdict, on ledgers and times made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipes.cli.demo.verdict import Locked, Turn, Unlocked, Verdict, hand_overs, overlaps, rising
from recipes.cli.demo.work import Entry

TURNS = (
    Turn(worker=1, token=10, value=1, asked_at=0.0, acquired_at=0.1, release_called_at=0.2),
    Turn(worker=2, token=12, value=2, asked_at=0.0, acquired_at=0.23, release_called_at=0.3),
    Turn(worker=2, token=13, value=3, asked_at=0.31, acquired_at=0.4, release_called_at=0.5),
    Turn(worker=1, token=17, value=4, asked_at=0.6, acquired_at=0.61, release_called_at=0.7),
)
LEDGER = tuple(Entry(turn.token, turn.worker, turn.value) for turn in TURNS)
GOOD = Locked(updates=4, counter=4, ledger=LEDGER, turns=TURNS)


def test_a_good_run_is_ok() -> None:
    verdict = Verdict(GOOD, Unlocked(4, 2))
    assert GOOD.problems() == []
    assert verdict.ok


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (replace(GOOD, counter=3), "1 of 4 updates were lost"),
        (replace(GOOD, counter=5), "the counter is 1 ahead of what was reported"),
        (replace(GOOD, ledger=(LEDGER[0], LEDGER[2], LEDGER[1], LEDGER[3])), "the tokens in the ledger"),
        (replace(GOOD, ledger=(*LEDGER[:3], replace(LEDGER[3], token=13))), "the tokens in the ledger"),
        (replace(GOOD, ledger=(*LEDGER[:3], replace(LEDGER[3], token=None))), "the tokens in the ledger"),
        (replace(GOOD, ledger=LEDGER[:3]), "the ledger has 3 entries for 4 updates"),
        (replace(GOOD, turns=(replace(TURNS[0], release_called_at=0.24), *TURNS[1:])), "1 times two workers"),
        (Locked(updates=0, counter=0), "nothing was updated"),
    ],
)
def test_each_broken_promise_fails_the_run(part: Locked, problem: str) -> None:
    verdict = Verdict(part, Unlocked(4, 2))
    assert [words for words in verdict.problems if problem in words]
    assert len(verdict.problems) == 1
    assert not verdict.ok


def test_a_run_that_did_not_end_is_not_ok() -> None:
    assert not Verdict(failures=["worker 1 was ended by SIGKILL"]).ok
    assert not Verdict(GOOD, failures=["worker 1 was ended by SIGKILL"]).ok
    assert not Verdict().ok


def test_what_is_lost_without_the_lock_is_no_failure() -> None:
    assert Verdict(GOOD, Unlocked(updates=4, counter=1)).ok
    assert Unlocked(updates=4, counter=1).lost == 3


def test_hand_overs_are_changes_of_the_worker_by_token() -> None:
    changes = hand_overs(reversed(TURNS))
    assert changes.count == 2
    assert changes.latencies == pytest.approx((0.03,))  # the other came when nobody held it
    assert changes.median_s == changes.p90_s == pytest.approx(0.03)


def test_without_hand_overs_there_is_no_latency() -> None:
    changes = hand_overs(TURNS[1:3])
    assert (changes.count, changes.median_s, changes.p90_s) == (0, None, None)


def test_nine_of_ten_do_not_exceed_the_p90() -> None:
    turns = [Turn(n % 2, n, n, 0.0, n + n / 1000, n + 0.9) for n in range(1, 12)]
    changes = hand_overs(turns)
    assert changes.p90_s == sorted(changes.latencies)[8]


def test_overlaps_are_found_whatever_the_order_of_the_reports() -> None:
    late = replace(TURNS[0], release_called_at=0.25)
    assert overlaps(TURNS) == 0
    assert overlaps([*TURNS[1:], late]) == 1


def test_rising_is_strict() -> None:
    assert rising([1, 2, 5])
    assert rising([])
    assert not rising([1, 1])
    assert not rising([2, 1])
    assert not rising([None, 1])


def test_the_first_number_that_several_wrote() -> None:
    ledger = [Entry(None, 2, 1), Entry(None, 2, 2), Entry(None, 3, 2), Entry(None, 1, 2), Entry(None, 1, 3)]
    assert Unlocked(5, 3, ledger).collision() == (2, [1, 2, 3])
    assert Unlocked(4, 4, LEDGER).collision() is None


def test_as_fields() -> None:
    fields = Verdict(GOOD, Unlocked(4, 2)).as_fields()
    assert fields["ok"] is True
    assert (fields["lost"], fields["tokens_rising"], fields["overlaps"], fields["hand_overs"]) == (
        0,
        True,
        0,
        2,
    )
    assert (fields["unlocked_updates"], fields["unlocked_lost"]) == (4, 2)
    assert Verdict(failures=["x"]).as_fields() == {"ok": False, "problems": ["x"]}
