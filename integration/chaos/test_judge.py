"""Histories that were tampered with are refused: a judge that finds nothing proves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.chaos.history import Line, now_ns, read
from integration.chaos.judge import judge
from integration.chaos.resources import Bank, Registers
from recipes.errors import StaleToken

RIGHT = {"fenced": 3, "unfenced": 3, "asked": 3}

VALUE: list[tuple[str, object, dict[str, Any]]] = [
    ("get", None, {}),
    ("set", None, {"data": "a"}),
    ("get", ["a", 7], {}),
    ("set_if", True, {"data": "b", "version": 7}),
    ("set_if", False, {"data": "c", "version": 7}),
    ("get", ["b", 9], {}),
    ("delete", False, {"version": 7}),
    ("delete", True, {"version": None}),
    ("get", None, {}),
]
COUNTER: list[tuple[str, object, dict[str, Any]]] = [
    ("add", 1, {"count": 1}),
    ("get", 1, {}),
    ("set_if", True, {"new": 7, "expected": 1}),
    ("set_if", False, {"new": 8, "expected": 1}),
    ("get", 7, {}),
]


class Written:
    """A history of turns that follow each other, made line by line."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.now = 1_000
        self.token = 0

    def said(self, name: str, how: str, **facts: Any) -> None:
        self.now += 10
        self.lines.append({"id": name, "is": how, "at": self.now, **facts})

    def done(self, name: str, what: str, answer: dict[str, Any] | None = None, **facts: Any) -> None:
        self.said(name, "invoke", what=what, **facts)
        self.said(name, "ok", **(answer or {}))

    def turn(self, lock: str, number: int, work: Callable[[str], None], mode: str = "exclusive") -> None:
        name, self.token = f"c1.{number}", self.token + 1
        grant = {"token": self.token, "session": "5e55"}
        self.done(name, "acquire", grant, lock=lock, mode=mode, way="wait")
        work(name)
        self.done(f"{name}r", "release", {"was_held": True}, of=name, seen=self.now + 5, held=True)

    def count(self, name: str, value: int) -> None:
        before = dict.fromkeys(RIGHT, value - 1)
        self.done(f"{name}b", "read", {"result": before}, of=name)
        for register in RIGHT:
            self.done(f"{name}{register}", "write", of=name, register=register, value=value)

    def move(self, name: str) -> None:
        self.done(f"{name}b", "transfer", of=name)
        self.done(f"{name}d", "downgrade", of=name)
        self.done(f"{name}s", "sum", {"total": Bank.total}, of=name)

    def list(self, name: str) -> None:
        self.done(f"{name}m", "members", {"ids": ["a"]})

    def guard(self, name: str) -> None:
        for data in ("one", "two"):
            self.done(f"{name}{data}", "set", of="guarded 0", data=f"{data}-{name}", token=self.token)
        self.done(f"{name}g", "get", {"result": [f"two-{name}", self.now]}, of="guarded 0")

    def share(self) -> None:
        for number, (what, result, facts) in enumerate(VALUE):
            self.done(f"c1.7{number}", what, {"result": result}, of="value 1", **facts)
        for number, (what, result, facts) in enumerate(COUNTER):
            self.done(f"c1.8{number}", what, {"result": result}, of="counter 2", **facts)
        self.said("c1.90", "invoke", what="add", of="counter 2", count=1)
        self.said("c1.90", "unknown", why="no answer")
        self.said("c1.91", "invoke", what="add", of="counter 2", count=1)
        self.said("c1.91", "fail", why="StoreUnavailable")
        self.done("c1.92", "add", {"result": 9}, of="counter 2", count=1)

    def further(self) -> None:
        """Permits that two hold at once, a barrier that three pass, and a latch."""
        for name, weight in (("c1.95", 1), ("c2.95", 2)):
            grant = {"token": None, "session": "5e55"}
            self.done(name, "acquire", grant, lock="permits", mode="shared", way="wait", weight=weight)
        for name in ("c1.95", "c2.95"):
            self.done(f"{name}r", "release", {"was_held": True}, of=name, seen=self.now + 5, held=True)
        for number in range(3):
            self.said(f"c{number}.96", "invoke", what="meet", of="meeting")
        for number in range(3):
            self.said(f"c{number}.96", "ok", index=number)
        self.done("c1.97", "add", {"result": 1}, of="latch 0", count=1)
        self.done("c1.98", "get", {"result": 1}, of="latch 0")

    def sum(self, name: str) -> None:
        self.done(f"{name}s", "sum", {"total": Bank.total}, of=name)


def written() -> list[Line]:
    history = Written()
    for value in (1, 2, 3):
        history.turn("registers", value, lambda name, value=value: history.count(name, value))
        history.turn("bank", 10 + value, history.move)
        history.turn("bank", 20 + value, history.sum, "shared")
        history.turn("lock-1", 30 + value, lambda name: None)
    history.done("c1.50", "observe", {"token": 3})
    history.done("c1.51", "observe", {"token": 7})
    history.turn("member a", 60, history.list)
    for number in (61, 62):
        history.turn("guarded 0", number, history.guard)
    history.share()
    history.further()
    return history.lines


def judged(
    folder: Path, lines: list[Line], registers: dict[str, int] = RIGHT, total: int = Bank.total
) -> list[str]:
    (folder / "c1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judge(folder, registers, total, Bank.total).violations


def changed(which: dict[str, Any], **new: Any) -> list[Line]:
    """The right history, with the line that has these facts changed."""
    lines = written()
    (line,) = [one for one in lines if which.items() <= one.items()]
    line.update(new)
    return lines


def moment(which: dict[str, Any]) -> int:
    (line,) = [one for one in written() if which.items() <= one.items()]
    return int(line["at"])


def test_a_right_history(tmp_path: Path) -> None:
    assert judged(tmp_path, written()) == []


LATE = 10**6


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (changed({"id": "c1.2", "is": "ok"}, token=1), "registers: one token for two"),
        (changed({"id": "c1.32", "is": "ok"}, token=2), "lock-1: an old token"),
        (
            changed({"id": "c1.31r", "is": "invoke"}, seen=moment({"id": "c1.32", "is": "ok"}) + 1),
            "a writer beside",
        ),
        (changed({"id": "c1.11", "is": "ok"}, token=99), "bank: an old token"),
        (
            changed({"id": "c1.21r", "is": "invoke"}, seen=moment({"id": "c1.12", "is": "ok"}) + 1),
            "a writer beside",
        ),
        (changed({"id": "c1.11d", "is": "invoke"}, at=LATE), "bank: no order"),
        (changed({"id": "c1.22s", "is": "ok"}, total=Bank.total - 1), "saw a sum of 799"),
        (changed({"id": "c1.2b", "is": "ok"}, result={**RIGHT, "fenced": 0}), "S1: no order"),
        (changed({"id": "c1.3fenced", "is": "invoke"}, value=2), "S1: no order"),
        (changed({"id": "c1.51", "is": "ok"}, token=2), "saw the leader 2 after 3"),
        (changed({"id": "c1.60m", "is": "ok"}, ids=["a", "a"]), "was shown ['a', 'a']"),
        (changed({"id": "c1.60m", "is": "ok"}, ids=[]), "'a' was a member all the while"),
        (changed({"id": "c1.60m", "is": "ok"}, ids=["a", "b"]), "was shown 'b' before it came"),
        (changed({"id": "c1.70", "is": "ok"}, result=["a", 7]), "value 1: no order"),
        (changed({"id": "c1.72", "is": "ok"}, result=["b", 7]), "value 1: no order"),
        (changed({"id": "c1.73", "is": "ok"}, result=False), "value 1: no order"),
        (changed({"id": "c1.74", "is": "ok"}, result=True), "value 1: no order"),
        (changed({"id": "c1.75", "is": "ok"}, result=["b", 7]), "value 1: no order"),
        (changed({"id": "c1.76", "is": "ok"}, result=True), "value 1: no order"),
        (changed({"id": "c1.77", "is": "ok"}, result=False), "value 1: no order"),
        (changed({"id": "c1.80", "is": "ok"}, result=2), "counter 2: no order"),
        (changed({"id": "c1.82", "is": "ok"}, result=False), "counter 2: no order"),
        (changed({"id": "c1.83", "is": "ok"}, result=True), "counter 2: no order"),
        (changed({"id": "c1.92", "is": "ok"}, result=10), "counter 2: no order"),  # a failed add was done
        (changed({"id": "c1.62g", "is": "ok"}, result=["two-c1.61", 1]), "guarded 0: no order"),
        (changed({"id": "c1.62one", "is": "invoke"}, token=14), "guarded 0: no order"),
        (changed({"id": "c2.95", "is": "invoke"}, weight=3), "permits: with c2.95 4 of 3"),
        (changed({"id": "c1.96", "is": "ok"}, index=3), "meeting: c1.96 passed as 3"),
        (changed({"id": "c2.96", "is": "invoke"}, at=LATE), "meeting: c0.96 passed as 0, and 2 were there"),
        (changed({"id": "c1.98", "is": "ok"}, result=2), "latch 0: no order"),
        ([*written(), {"id": "c1", "is": "wrong", "at": 1, "why": "KeyError()"}], "c1 raised KeyError()"),
    ],
)
def test_a_history_that_was_tampered_with(tmp_path: Path, lines: list[Line], found: str) -> None:
    violations = judged(tmp_path, lines)
    assert any(found in one for one in violations), violations


def test_an_add_whose_outcome_is_unknown_may_have_been_done(tmp_path: Path) -> None:
    for found in (8, 9):
        assert judged(tmp_path, changed({"id": "c1.92", "is": "ok"}, result=found)) == []


def test_what_is_in_the_files_counts(tmp_path: Path) -> None:
    assert judged(tmp_path, written(), {**RIGHT, "fenced": 2}) == [
        "S1: 3 updates acknowledged, 0 unknown, 2 there"
    ]
    assert judged(tmp_path, written(), {**RIGHT, "unfenced": 1}) == []  # nobody promised that
    assert judged(tmp_path, written(), total=Bank.total - 9) == ["S1: the bank holds 791, not 800"]


def test_a_session_that_was_ended_by_force_is_exempt_from_then_on(tmp_path: Path) -> None:
    late = moment({"id": "c1.32", "is": "ok"}) + 1
    lines = changed({"id": "c1.31r", "is": "invoke"}, seen=late)
    (acquired,) = [one for one in lines if one["id"] == "c1.31" and one["is"] == "ok"]
    acquired["session"] = "dead"
    (answer,) = [one for one in lines if one["id"] == "c1.31r" and one["is"] == "ok"]
    answer["was_held"] = False
    assert judged(tmp_path, lines) != []
    ended = {"at": acquired["at"] + 1, "fault": "session expired", "session": "dead"}
    (tmp_path / "faults.json.log").write_text(json.dumps(ended) + "\n")
    assert judged(tmp_path, lines) == []


def test_whoever_was_stopped_past_its_ttl_may_not_hold(tmp_path: Path) -> None:
    lines = written()
    pause = {"at": moment({"id": "c1.31", "is": "ok"}) + 1, "fault": "pause", "client": "c1", "seconds": 2.5}
    goes_on = {"at": pause["at"] + 1, "fault": "continue", "client": "c1"}
    for past, wrong in ((True, 1), (False, 0)):
        log = [{**pause, "past": past}, goes_on]
        (tmp_path / "faults.json.log").write_text("".join(json.dumps(line) + "\n" for line in log))
        found = [
            one
            for one in judged(tmp_path, lines)
            if one.startswith("S4: lock-1: c1.31 was stopped for 2.5 s")
        ]
        assert len(found) == wrong


def test_what_a_killed_client_asked_may_have_happened(tmp_path: Path) -> None:
    lines = written()
    started = [
        {
            "id": "c2.1",
            "is": "invoke",
            "at": LATE,
            "what": "acquire",
            "lock": "registers",
            "mode": "exclusive",
            "way": "",
        },
        {"id": "c2.1", "is": "ok", "at": LATE + 1, "token": 900, "session": "f00"},
        {"id": "c2.2", "is": "invoke", "at": LATE + 2, "what": "read", "of": "c2.1"},
        {"id": "c2.2", "is": "ok", "at": LATE + 3, "result": RIGHT},
        {
            "id": "c2.3",
            "is": "invoke",
            "at": LATE + 4,
            "what": "write",
            "of": "c2.1",
            "register": "fenced",
            "value": 4,
        },
    ]
    assert judged(tmp_path, lines + started) == []
    assert judged(tmp_path, lines + started, {**RIGHT, "fenced": 4}) == []
    assert judged(tmp_path, lines + started, {**RIGHT, "fenced": 5}) != []


class Grant:
    """All that a gate is told."""

    def __init__(self, token: int) -> None:
        self.token = token


def test_the_gates_of_a_run_refuse_whoever_is_late(tmp_path: Path) -> None:
    registers, bank = Registers(tmp_path / "registers.db"), Bank(tmp_path / "bank.db")
    for file in (registers, bank):
        file.make()
    old, new = Grant(1), Grant(2)
    assert registers.read(old) == dict.fromkeys(RIGHT, 0)
    registers.read(new)
    with pytest.raises(StaleToken):
        registers.write_fenced(old, 1)
    registers.write("unfenced", 1)
    assert registers.values() == {"fenced": 0, "unfenced": 1, "asked": 0}
    assert bank.balances(new, [0, 1], shared=True) == [100, 100]
    with pytest.raises(StaleToken):
        bank.put(old, {0: 1})
    bank.put(new, {0: 90, 1: 110})
    assert bank.sum() == Bank.total
    with pytest.raises(StaleToken):
        bank.balances(old, [0], shared=True)
    for file in (registers, bank):
        file.close()


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    from integration.chaos.history import Book, entries_of

    book = Book(tmp_path, "c7")
    before = now_ns()
    book.invoke("acquire", lock="x").ok(token=3)
    book.invoke("release").unknown("StoreUnavailable")
    book.invoke("acquire", lock="y").fail("LockTimeout")
    book.invoke("read")
    one, two, three, four = entries_of(read(tmp_path)).values()
    assert (one.what, one.how, one.facts, one.answer, one.who) == (
        "acquire",
        "ok",
        {"lock": "x"},
        {"token": 3},
        "c7",
    )
    assert one.returned is not None
    assert before <= one.called <= one.returned <= now_ns()
    assert (two.how, three.how, three.answer) == ("unknown", "fail", {"why": "LockTimeout"})
    assert (four.how, four.returned) == ("unknown", None)
