"""What is printed, line by line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recipes.cli.demo.screen import SHOWN, SHOWN_FIRST, WARNINGS, JsonScreen, Lanes, Screen, verdict_lines
from recipes.cli.demo.verdict import Locked, Turn, Unlocked, Verdict
from recipes.cli.demo.work import Entry

BEGAN = 100.0


class Printed:
    """A screen, and what it printed."""

    def __init__(self, processes: int = 4, *, colour: bool = False) -> None:
        self.out = io.StringIO()
        self.screen = Screen(self.out, processes, colour=colour)
        self.screen.begin(BEGAN)

    def show(self, after_s: float, worker: int, event: str, **fields: Any) -> None:
        message = {"kind": "transition", "worker": worker, "at": BEGAN + after_s, "event": event, **fields}
        self.screen.show(message, now=BEGAN + after_s)

    def lines(self) -> list[str]:
        self.screen.end()
        return self.out.getvalue().splitlines()[1:]


def test_a_line_a_transition() -> None:
    one = Printed()
    one.show(0.001, 2, "lock.acquired", waited_s=0.0012, token=8, lock="x", store="etcd://h")
    one.show(0.002, 1, "lock.queued", position=1)
    one.show(0.004, 2, "lock.released", held_s=0.0031, token=8)
    assert one.lines() == [
        "   0.001  .H..        2  lock.acquired  waited      1.2 ms  token 8",
        "   0.002  wH..        1  lock.queued    1 ahead",
        "   0.004  w...        2  lock.released  held        3.1 ms  token 8",
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
    assert sums[0] == f"   1.000            ...  and {1000 - SHOWN_FIRST} queued"
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
    token = 2**33
    one.show(999.001, 2, "lock.acquired", waited_s=99.9999, token=token)
    for number in range(3000):
        one.show(1000 + number / 10_000, 1, ("lock.queued", "lock.acquired", "lock.released")[number % 3])
    ledger = [Entry(token + number, 1 + number % 4, 1) for number in range(4)]
    turns = [Turn(1 + number % 4, token + number, 1, 0, number, number + 0.9) for number in range(4)]
    locked = Locked(100_000, 100_000, ledger, turns)
    lines = one.lines() + verdict_lines(Verdict(locked, Unlocked(100_000, 20_000, ledger)))
    assert max(map(len, lines)) <= 80


def test_colours_only_where_they_are_understood() -> None:
    plain, coloured = Printed(), Printed(colour=True)
    for one in (plain, coloured):
        one.show(0.001, 1, "lock.acquired", waited_s=0.1, token=1)
    assert "\033" not in "".join(plain.lines())
    assert coloured.lines()[0].startswith("\033[32m")


@pytest.mark.parametrize(
    ("event", "lanes"),
    [
        ("lock.queued", ".w"),
        ("lock.acquired", ".H"),
        ("lock.released", ".."),
        ("lock.lost", ".."),
        ("lock.requeued", ".."),
        ("lock.suspect", ".H"),
        ("session.suspect", ".H"),
    ],
)
def test_lanes(event: str, lanes: str) -> None:
    one = Lanes(2)
    one.after(2, "lock.acquired")
    assert one.after(2, event) == lanes


def test_the_verdict_in_words() -> None:
    turns = [
        Turn(worker=1, token=5, value=1, asked_at=0.0, acquired_at=0.1, release_called_at=0.2),
        Turn(worker=2, token=7, value=2, asked_at=0.0, acquired_at=0.2015, release_called_at=0.3),
    ]
    ledger = [Entry(5, 1, 1), Entry(7, 2, 2)]
    unlocked = Unlocked(4, 1, [Entry(None, worker, 1) for worker in (1, 2, 3, 1)])
    assert verdict_lines(Verdict(Locked(2, 2, ledger, turns), unlocked)) == [
        "with the lock     0 of 2 updates lost; the counter says 2",
        "                  tokens strictly rising, from 5 to 7",
        "                  two holders at once: never",
        "                  1 hand-overs, median 1.50 ms, p90 1.50 ms",
        "without the lock  3 of 4 updates lost (75%); the counter says 1",
        "                  for example, workers 1, 2 and 3 all wrote 1",
    ]


def test_a_bad_verdict_in_words() -> None:
    turns = [Turn(1, 7, 1, 0.0, 0.1, 0.3), Turn(2, 8, 1, 0.0, 0.2, 0.4)]
    part = Locked(2, 1, [Entry(8, 2, 1), Entry(7, 1, 1)], turns)
    lines = verdict_lines(Verdict(part, Unlocked(0, 0)))
    assert "NOT rising" in lines[1]
    assert "1 times" in lines[2]
    assert "too small to show a difference" in lines[-1]
    out = io.StringIO()
    Screen(out, 2, colour=False).verdict(Verdict(part))
    assert "FAILED  1 of 2 updates were lost" in out.getvalue()
    assert "OK" not in out.getvalue()


def test_json_lines() -> None:
    out, notes = io.StringIO(), io.StringIO()
    screen = JsonScreen(out, notes, 2)
    screen.say("\na note")
    screen.say()
    screen.begin(BEGAN)
    screen.show({"kind": "turn", "worker": 1, "at": 1.0}, now=1.0)
    screen.end()
    screen.verdict(Verdict(failures=["x"]))
    assert notes.getvalue() == "a note\n"
    first, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"kind": "turn", "worker": 1, "at": 1.0}
    assert last == {"kind": "verdict", "ok": False, "problems": ["x"]}
