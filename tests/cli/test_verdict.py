"""The arithmetic of the verdict, on ledgers and times made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipes.cli.demo.bank import TOTAL
from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.turns import Turn, hand_overs, overlaps, rising, together
from recipes.cli.demo.verdict import Locked, LockedSums, Sums, Unlocked, Verdict

TURNS = (
    Turn(worker=1, token=10, value=1, asked_at=0.0, acquired_at=0.1, release_called_at=0.2),
    Turn(worker=2, token=12, value=2, asked_at=0.0, acquired_at=0.23, release_called_at=0.3),
    Turn(worker=2, token=13, value=3, asked_at=0.31, acquired_at=0.4, release_called_at=0.5),
    Turn(worker=1, token=17, value=4, asked_at=0.6, acquired_at=0.61, release_called_at=0.7),
)
LEDGER = tuple(Entry(turn.token, turn.worker, turn.value) for turn in TURNS)
GOOD = Locked(updates=4, counter=4, ledger=LEDGER, turns=TURNS)
BANKING = (
    Turn(1, 20, TOTAL, 0.0, 0.1, 0.3, downgrade_called_at=0.2),
    Turn(2, 22, TOTAL, 0.0, 0.21, 0.4, mode="shared"),
    Turn(4, 23, TOTAL, 0.0, 0.22, 0.5, mode="shared"),
    Turn(3, 25, TOTAL, 0.0, 0.51, 0.7, downgrade_called_at=0.6),
)
TRANSFERS = (Entry(20, 1, 5), Entry(25, 3, 7))
SOUND = LockedSums([TOTAL] * 4, TOTAL, 2, TRANSFERS, BANKING)


def test_a_good_run_is_ok() -> None:
    verdict = Verdict(GOOD, Unlocked(4, 2), SOUND, Sums([999], 990, 1))
    assert GOOD.problems() == SOUND.problems() == []
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
    verdict = Verdict(part, Unlocked(4, 2), SOUND)
    assert [words for words in verdict.problems if problem in words]
    assert len(verdict.problems) == 1
    assert not verdict.ok


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (replace(SOUND, sums=[TOTAL, 995, TOTAL, TOTAL]), "1 of 4 sums over the accounts were wrong"),
        (replace(SOUND, money=TOTAL - 5), "the accounts hold 995 instead of 1000"),
        (replace(SOUND, moved=0, ledger=()), "no money was moved"),
        (replace(SOUND, moved=3), "the ledger has 2 entries for 3 updates"),
        (replace(SOUND, ledger=TRANSFERS[::-1]), "the tokens in the ledger"),
        (replace(SOUND, turns=(replace(BANKING[0], kept=False), *BANKING[1:])), "1 times a writer did not"),
        (replace(SOUND, turns=(*BANKING[:3], replace(BANKING[3], acquired_at=0.4))), "1 times a writer held"),
        (
            replace(SOUND, turns=(replace(BANKING[0], downgrade_called_at=0.22), *BANKING[1:])),
            "1 times a wri",
        ),
    ],
)
def test_each_promise_of_the_read_write_lock_that_is_broken_fails_the_run(
    part: LockedSums, problem: str
) -> None:
    verdict = Verdict(GOOD, Unlocked(4, 2), part)
    assert [words for words in verdict.problems if problem in words]
    assert len(verdict.problems) == 1
    assert not verdict.ok


def test_a_run_that_did_not_end_is_not_ok() -> None:
    assert not Verdict(failures=["worker 1 was ended by SIGKILL"]).ok
    assert not Verdict(GOOD, sums=SOUND, failures=["worker 1 was ended by SIGKILL"]).ok
    assert not Verdict(GOOD).ok
    assert not Verdict().ok


def test_what_is_lost_without_the_lock_is_no_failure() -> None:
    assert Verdict(GOOD, Unlocked(updates=4, counter=1), SOUND, Sums([1, 2], 3, 2)).ok
    assert Unlocked(updates=4, counter=1).lost == 3
    assert Sums([1, TOTAL, 2], 3, 2).wrong == 2


def test_hand_overs_are_changes_of_the_worker_by_token() -> None:
    changes = hand_overs(reversed(TURNS))
    assert changes.count == 2
    assert changes.latencies == pytest.approx((0.03,))  # the other came when nobody held it
    assert changes.median_s == changes.p90_s == pytest.approx(0.03)
    assert changes.busiest == 2


def test_without_hand_overs_there_is_no_latency() -> None:
    changes = hand_overs(TURNS[1:3])
    assert (changes.count, changes.median_s, changes.p90_s, changes.busiest) == (0, None, None, 0)


def test_a_reader_waits_for_writers_and_a_writer_for_all() -> None:
    changes = hand_overs(BANKING)
    assert changes.count == 3
    assert changes.latencies == pytest.approx((0.01, 0.02, 0.01))  # two from the downgrade, one from the last


def test_the_busiest_second_is_any_second() -> None:
    turns = [Turn(n % 2, n, n, 0.0, at, at) for n, at in enumerate([0.0, 0.9, 1.4, 1.8, 2.0, 5.0])]
    assert hand_overs(turns).busiest == 3  # from 1.4 on, and from 0.9 only the first two beside it


def test_nine_of_ten_do_not_exceed_the_p90() -> None:
    turns = [Turn(n % 2, n, n, 0.0, n + n / 1000, n + 0.9) for n in range(1, 12)]
    changes = hand_overs(turns)
    assert changes.p90_s == sorted(changes.latencies)[8]


def test_overlaps_are_found_whatever_the_order_of_the_reports() -> None:
    late = replace(TURNS[0], release_called_at=0.25)
    assert overlaps(TURNS) == 0
    assert overlaps([*TURNS[1:], late]) == 1


def test_readers_may_hold_together_and_also_beside_a_writer_that_went_down() -> None:
    assert overlaps(BANKING) == 0
    assert together(BANKING) == 3
    assert overlaps([*BANKING, Turn(5, 24, TOTAL, 0.0, 0.35, 0.36)]) == 1
    assert together(TURNS) == 0


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
    fields = Verdict(GOOD, Unlocked(4, 2), SOUND, Sums([TOTAL, 7], 990, 1)).as_fields()
    assert fields["ok"] is True
    assert (fields["lost"], fields["tokens_rising"], fields["overlaps"], fields["hand_overs"]) == (
        0,
        True,
        0,
        2,
    )
    assert (fields["unlocked_updates"], fields["unlocked_lost"]) == (4, 2)
    assert (fields["bank_sums"], fields["bank_wrong"], fields["bank_money"]) == (4, 0, TOTAL)
    assert (fields["bank_moved"], fields["bank_overlaps"], fields["bank_together"]) == (2, 0, 3)
    assert (fields["unlocked_bank_wrong"], fields["unlocked_bank_money"]) == (1, 990)
    assert Verdict(failures=["x"]).as_fields() == {"ok": False, "problems": ["x"]}
