"""What is printed, line by line."""

from __future__ import annotations

import io
import json
from typing import Any

from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.orders import Order
from recipes.cli.demo.screen import SHOWN, SHOWN_FIRST, WARNINGS, JsonScreen, Screen, verdict_lines
from recipes.cli.demo.turns import Turn
from recipes.cli.demo.verdict import Locked, LockedSums, Sums, Unlocked, Verdict
from tests.cli.recording import messages, scene

BEGAN = 100.0
HEADING = 6


class Printed:
    """A screen, and what it printed."""

    def __init__(self, processes: int = 4, *, colour: bool = False) -> None:
        self.out = io.StringIO()
        self.screen = Screen(self.out, processes, colour=colour)
        self.screen.begin(scene("counter", processes=processes), BEGAN)

    def show(self, after_s: float, worker: int, event: str, **fields: Any) -> None:
        message = {"kind": "transition", "worker": worker, "at": BEGAN + after_s, "event": event, **fields}
        self.screen.show(message, now=BEGAN + after_s)

    def lines(self) -> list[str]:
        self.screen.end()
        return self.out.getvalue().splitlines()[HEADING:]


def test_a_line_a_transition() -> None:
    one = Printed()
    one.show(0.001, 2, "lock.acquired", waited_s=0.0012, token=8, lock="x", mode="exclusive")
    one.show(0.0016, 3, "lock.acquired", waited_s=0.0012, token=9, mode="shared")
    one.show(0.002, 1, "lock.queued", position=1)
    one.show(0.004, 2, "lock.released", held_s=0.0031, token=8)
    assert one.lines() == [
        "   0.001  .H..     2  lock.acquired    waited     1.2 ms  token 8",
        "   0.002  .HS.     3  lock.acquired    waited     1.2 ms  token 9",
        "   0.002  wHS.     1  lock.queued      1 ahead",
        "   0.004  w.S.     2  lock.released    held       3.1 ms  token 8",
    ]


def test_lines_come_in_the_order_of_time_though_they_arrive_in_another() -> None:
    one = Printed()
    one.show(0.020, 2, "lock.acquired", waited_s=0.01, token=9)
    one.show(0.019, 1, "lock.released", held_s=0.01, token=8)
    assert [line.split()[3] for line in one.lines()] == ["lock.released", "lock.acquired"]


def test_a_line_is_held_back_no_longer_than_it_takes_to_be_in_order() -> None:
    one = Printed()
    one.show(0.020, 2, "lock.queued", position=1)
    assert "lock.queued" not in one.out.getvalue()
    one.screen.tick(BEGAN + 0.3)
    assert "lock.queued" in one.out.getvalue()


def test_what_is_not_shown_is_summed_up_once_a_second() -> None:
    one = Printed()
    for number in range(3000):
        one.show(number / 1000, 1 + number % 4, "lock.queued", position=number % 4)
    lines = one.lines()
    sums = [line for line in lines if " and " in line]
    assert len(sums) == 3
    assert sums[0] == f"   1.000  ...  and {1000 - SHOWN_FIRST} queued"
    assert sum(int(line.split()[-2]) for line in sums) + len(lines) - len(sums) == 3000


def test_a_long_run_stays_short() -> None:
    one = Printed()
    for number in range(20_000):
        one.show(number / 1000, 1 + number % 4, "lock.queued", position=1)
    assert len(one.lines()) == SHOWN + 20


def test_what_is_out_of_the_ordinary_has_room_of_its_own() -> None:
    one = Printed()
    for number in range(200):
        one.show(number / 1000, 1, "lock.queued", position=1)
    for number in range(2 * WARNINGS):
        one.show(0.3 + number / 1000, 1, "lock.lost", reason="not renewed", token=4)
    lines = one.lines()
    assert sum("lock.lost" in line and "not renewed" in line for line in lines) == WARNINGS
    assert lines[-1].endswith(f"and {WARNINGS} lost, {200 - SHOWN_FIRST} queued")


def test_what_came_before_the_beginning_is_not_shown() -> None:
    one = Printed()
    one.show(-0.5, 1, "session.started", session="1")
    assert one.lines() == []


def test_every_line_fits_into_80_columns() -> None:
    one = Printed(processes=8)
    token = 2**40
    one.show(999.001, 2, "lock.acquired", waited_s=9.9999, token=token)
    for number in range(3000):
        one.show(1000 + number / 10_000, 1, ("lock.queued", "lock.acquired", "lock.released")[number % 3])
    turns = [Turn(1 + number % 4, token + number, 1, 0, number, number + 0.9) for number in range(4)]
    ledger = [Entry(turn.token, turn.worker, 1) for turn in turns]
    locked = Locked(100_000, 100_000, ledger, turns)
    sums = LockedSums([1000] * 100_000, 1000, 1, ledger, turns)
    verdict = Verdict(locked, Unlocked(100_000, 20_000, ledger), sums, Sums([1] * 100_000, -99_999, 1))
    lines = one.out.getvalue().splitlines()[:HEADING] + one.lines() + list(verdict_lines(verdict))
    assert max(map(len, lines)) <= 80


def test_colours_only_where_they_are_understood() -> None:
    plain, coloured = Printed(), Printed(colour=True)
    for one in (plain, coloured):
        one.show(0.001, 1, "lock.acquired", waited_s=0.1, token=1)
    assert "\033" not in "".join(plain.lines())
    assert coloured.lines()[0].startswith("\033[32m")


def test_the_verdict_in_words() -> None:
    turns = [
        Turn(worker=1, token=5, value=1, asked_at=0.0, acquired_at=0.1, release_called_at=0.2),
        Turn(worker=2, token=7, value=2, asked_at=0.0, acquired_at=0.2015, release_called_at=0.3),
    ]
    ledger = [Entry(5, 1, 1), Entry(7, 2, 2)]
    unlocked = Unlocked(4, 1, [Entry(None, worker, 1) for worker in (1, 2, 3, 1)])
    sums = LockedSums([1000, 1000], 1000, 1, [Entry(9, 1, 5)], [Turn(2, 8, 1000, 0, 1, 2, mode="shared")])
    verdict = Verdict(Locked(2, 2, ledger, turns), unlocked, sums, Sums([1000, 993], 993, 1))
    assert list(verdict_lines(verdict)) == [
        "                    with the lock         without it",
        "counter",
        "  updates lost      0 of 2                3 of 4 (75%)",
        "  counter says      2                     1",
        "  exclusion broken  never",
        "  fencing tokens    2, each larger",
        "  hand-overs        1, up to 1/s",
        "  each took         1.50 ms (p90 1.50)",
        "accounts",
        "  wrong sums        0 of 2                1 of 2 (50%)",
        "  money in the end  1000                  993, not 1000",
        "  exclusion broken  never",
        "  fencing tokens    1, each larger",
        "  hand-overs        0, up to 0/s",
        "  readers at once   up to 1",
        "Without the lock, for example, workers 1, 2 and 3 all wrote 1.",
        "Without the lock, somebody added up the accounts to 993.",
    ]


def test_a_bad_verdict_in_words() -> None:
    turns = [Turn(1, 7, 1, 0.0, 0.1, 0.3), Turn(2, 8, 1, 0.0, 0.2, 0.4)]
    part = Locked(2, 1, [Entry(8, 2, 1), Entry(7, 1, 1)], turns)
    text = "\n".join(verdict_lines(Verdict(part, Unlocked(0, 0))))
    assert "NOT rising" in text
    assert "exclusion broken  1 times" in text
    small = Verdict(part, Unlocked(0, 0), LockedSums((), 1000, 0), Sums((), 1000, 0))
    assert "too small to show a difference" in list(verdict_lines(small))[-1]
    out = io.StringIO()
    Screen(out, 2, colour=False).verdict(Verdict(part))
    assert "FAILED  1 of 2 updates were lost" in out.getvalue()
    assert "OK" not in out.getvalue()
    assert list(verdict_lines(Verdict(failures=["x"]))) == []


def test_json_lines() -> None:
    out, notes = io.StringIO(), io.StringIO()
    screen = JsonScreen(out, notes, 2)
    screen.say("\na note")
    screen.say()
    screen.open("sqlite:///x", [1, 2])
    screen.begin(scene("bank"), BEGAN)
    screen.show({"kind": "turn", "worker": 1, "at": 1.0}, now=1.0)
    screen.end()
    screen.verdict(Verdict(failures=["x"]))
    assert notes.getvalue() == "a note\n"
    first, second, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"kind": "scene", "scene": "bank", "at": BEGAN}
    assert second == {"kind": "turn", "worker": 1, "at": 1.0}
    assert last == {"kind": "verdict", "ok": False, "problems": ["x"]}


def test_a_recorded_run_in_lines() -> None:
    out = io.StringIO()
    with Screen(out, 5, colour=False) as screen:
        screen.open("sqlite:///x", [11, 12, 13, 14])
        for message in messages():
            if message["kind"] == "scene":
                screen.end()
                screen.begin(scene(message["scene"]), message["at"])
            else:
                screen.show(message, message["at"])
        screen.end()
    lines = out.getvalue().splitlines()
    assert lines[:3] == [
        "store: sqlite:///x",
        "processes that use the lock: 11 12",
        "that do the same without it: 13 14",
    ]
    lanes = [line.split()[1] for line in lines if " lock." in line]
    assert lanes
    assert all(one.count("H") <= 1 for one in lanes)
    assert not any("H" in one and "S" in one for one in lanes)
    assert any("S" in one for one in lanes)
    assert any("H holds it, S shares it, w waits" in line for line in lines)


def test_so_many_seconds_are_told() -> None:
    out = io.StringIO()
    Screen(out, 4, colour=False).begin(scene("counter", order=Order("counter", seconds=2.5)), BEGAN)
    assert "2.5 s" in out.getvalue()
