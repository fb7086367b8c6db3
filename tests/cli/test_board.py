"""What messages add up to, from a recording and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.cli.demo.board import HOLDS, IDLE, SHARES, WAITS, Board, InOrder, Lanes
from recipes.cli.demo.orders import Order
from tests.cli.recording import boards, scene

BEGAN = 100.0


class Played:
    """A board of four workers, and what happens on it."""

    def __init__(self, name: str = "counter", order: Order | None = None) -> None:
        self.board = Board(scene(name, processes=4, order=order), BEGAN)
        self.at = BEGAN

    def event(self, worker: int, event: str, **fields: Any) -> None:
        self.at += 0.01
        self.board.take(
            {"kind": "transition", "twin": False, "worker": worker, "at": self.at, "event": event, **fields}
        )

    def turn(self, worker: int, value: int, *, twin: bool = False) -> None:
        self.at += 0.01
        self.board.take({"kind": "turn", "twin": twin, "worker": worker, "at": self.at, "value": value})


def test_under_the_lock_one_holds_and_the_others_stand_in_line() -> None:
    for board in boards("counter"):
        lanes = [board.lanes[worker] for worker in range(1, 6)]
        assert lanes.count(HOLDS) <= 1
        assert SHARES not in lanes
        waiting = [worker for worker in range(1, 6) if board.lanes[worker] == WAITS]
        assert (
            sorted(map(board.ahead, waiting)) == list(range(len(board.queue)))[-len(waiting) :] or not waiting
        )
    assert board.queue == []
    assert (board.locked.turns, board.locked.wrong, board.locked.value) == (30, 0, 30)
    assert board.unlocked.turns == 30
    assert board.unlocked.wrong == 23
    assert set(board.twins) == {1, 2, 3, 4, 5}
    assert board.progress(0.0) == 1.0


def test_under_the_read_write_lock_a_writer_is_alone_until_it_goes_down() -> None:
    shared = 0
    for board in boards("bank"):
        lanes = [board.lanes[worker] for worker in range(1, 6)]
        if HOLDS in lanes:
            assert lanes.count(HOLDS) == 1
            assert SHARES not in lanes
        shared = max(shared, lanes.count(SHARES))
    assert shared >= 2
    assert (board.locked.turns, board.locked.wrong) == (30, 0)
    assert board.unlocked.wrong == 24


def test_the_queue_is_what_the_positions_say() -> None:
    one = Played()
    one.event(1, "lock.acquired", token=5, mode="exclusive")
    one.event(3, "lock.queued", position=2, mode="exclusive")
    one.event(2, "lock.queued", position=1, mode="exclusive")  # told later, and came earlier
    assert one.board.queue == [1, 2, 3]
    one.event(1, "lock.released", token=5)
    assert (one.board.ahead(2), one.board.ahead(3)) == (0, 1)
    one.event(2, "lock.acquired", token=6, mode="exclusive")
    assert (one.board.lanes[2], one.board.tokens[2], one.board.ahead(3)) == (HOLDS, 6, 1)


def test_a_reader_comes_last_whatever_it_waits_for() -> None:
    one = Played("bank")
    one.event(1, "lock.acquired", token=5, mode="exclusive")
    one.event(3, "lock.queued", position=1, mode="exclusive")
    one.event(2, "lock.queued", position=1, mode="shared")
    assert one.board.queue == [1, 3, 2]
    one.event(1, "lock.downgraded", token=5, mode="shared")
    assert one.board.lanes[1] == SHARES
    assert one.board.queue == [1, 3, 2]


def test_hand_overs_are_counted_for_a_second() -> None:
    one = Played()
    for number in range(6):
        one.event(1 + number % 2, "lock.acquired", token=number, mode="exclusive")
        one.event(1 + number % 2, "lock.released", token=number)
    one.event(2, "lock.acquired", token=9, mode="exclusive")
    assert one.board.a_second(one.at) == 5
    assert one.board.a_second(one.at + 2) == 0


def test_trouble_is_kept() -> None:
    one = Played()
    one.event(1, "lock.acquired", token=1, mode="exclusive")
    one.event(1, "lock.lost", token=1, reason="not renewed")
    assert one.board.trouble == ["worker 1: lock.lost, not renewed"]
    assert one.board.queue == []
    one.event(2, "session.suspect")
    assert len(one.board.tape) == 2


def test_twins_and_workers_are_counted_apart() -> None:
    one = Played()
    one.turn(1, 1)
    for worker in (1, 2, 3):
        one.turn(worker, 1, twin=True)
    assert (one.board.locked.wrong, one.board.unlocked.wrong) == (0, 2)
    bank = Played("bank")
    for value in (1000, 990, 1000):
        bank.turn(1, value, twin=True)
    assert (bank.board.unlocked.wrong, bank.board.unlocked.value) == (1, 1000)


def test_progress_by_time() -> None:
    one = Played(order=Order("counter", seconds=10.0))
    assert [one.board.progress(BEGAN + after) for after in (0, 5, 20)] == [0.0, 0.5, 1.0]


def test_what_came_before_the_scene_is_not_part_of_it() -> None:
    one = Played()
    one.at = BEGAN - 10
    one.event(1, "lock.released", token=1)
    assert not one.board.tape


def test_messages_come_in_the_order_of_time_though_they_arrive_in_another() -> None:
    one = InOrder()
    for at in (2.0, 1.0, 3.0):
        one.add({"at": at})
    assert [message["at"] for message in one.settled(2.5)] == [1.0, 2.0]
    assert [message["at"] for message in one.settled(float("inf"))] == [3.0]


@pytest.mark.parametrize(
    ("event", "mode", "lanes"),
    [
        ("lock.queued", "exclusive", ".w"),
        ("lock.acquired", "exclusive", ".H"),
        ("lock.acquired", "shared", ".S"),
        ("lock.downgraded", "shared", ".S"),
        ("lock.released", "shared", ".."),
        ("lock.lost", "exclusive", ".."),
        ("lock.requeued", "exclusive", ".."),
        ("lock.suspect", "exclusive", ".H"),
        ("session.suspect", None, ".H"),
    ],
)
def test_lanes(event: str, mode: str | None, lanes: str) -> None:
    one = Lanes(2)
    one.after({"worker": 2, "event": "lock.acquired", "mode": "exclusive"})
    assert one.after({"worker": 2, "event": event, "mode": mode}) == lanes
    assert one[1] == IDLE
