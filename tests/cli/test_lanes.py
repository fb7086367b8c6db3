"""A lock's history for a terminal, and who held it beside whom."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from recipes.cli.demo.verdict import NOTHING
from recipes.cli.history.counting import overlaps, summary
from recipes.cli.history.lanes import lanes_table, places, rows
from recipes.cli.history.reading import happening
from recipes.cli.history.spans import LockHistory, histories

Line = tuple[float, str, str, dict[str, Any]]


def history(*lines: Line) -> LockHistory:
    """Return what events add up to: each at a time, of a lane."""
    found = [
        happening({"at": at, "event": f"lock.{event}", "name": "x", **fields}, lane)
        for at, lane, event, fields in lines
    ]
    return histories([one for one in found if one])[0]


def drawn(what: RenderableType, width: int) -> list[str]:
    """Return what rich makes of it on a terminal of this width."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


ONE = {"token": 1}
TWO = {"token": 2}
SHARED = {"mode": "shared"}


def test_a_column_for_each_transition() -> None:
    found = history(
        (1.0, "a", "acquired", ONE),
        (2.0, "b", "queued", {"position": 1}),
        (3.0, "a", "released", ONE),
        (3.5, "b", "acquired", TWO),
        (9.0, "b", "released", TWO),
    )
    assert rows(found, 10) == {"a": "██   ", "b": " ░░█ "}
    assert rows(found, 2) == {"a": "  ", "b": "█ "}
    assert rows(found, 0) == {"a": "", "b": ""}
    assert places(found) == {}


def test_what_goes_on_where_the_log_ends() -> None:
    found = history(
        (1.0, "a", "acquired", ONE),
        (2.0, "b", "queued", {"position": 1}),
        (3.0, "c", "queued", {"position": 2}),
    )
    assert rows(found, 10) == {"a": "███", "b": " ░░", "c": "  ░"}
    assert places(found) == {"a": "holds 1", "b": "waits, 1 ahead", "c": "waits, 2 ahead"}


def test_after_a_release_the_first_is_next() -> None:
    found = history(
        (1.0, "a", "acquired", ONE), (2.0, "b", "queued", {"position": 1}), (3.0, "a", "released", ONE)
    )
    assert places(found) == {"b": "waits, is next"}


def test_a_downgraded_grant_is_shared_from_then_on() -> None:
    found = history(
        (1.0, "a", "acquired", {"token": 1_099_511_627_777}),
        (2.0, "a", "downgraded", {"token": 1_099_511_627_777}),
    )
    assert rows(found, 10) == {"a": "█▒"}
    assert places(found) == {"a": "shares ..7777"}
    found = history((1.0, "a", "acquired", {**SHARED, **ONE}), (2.0, "b", "acquired", {**SHARED, **TWO}))
    assert rows(found, 10) == {"a": "▒▒", "b": " ▒"}


def test_a_grant_that_went_to_another_before_its_loss_was_noticed() -> None:
    found = history(
        (1.0, "a", "acquired", ONE),
        (3.0, "b", "acquired", TWO),
        (4.0, "a", "lost", {**ONE, "reason": "stopped"}),
        (5.0, "b", "released", TWO),
    )
    assert rows(found, 10) == {"a": "█x  ", "b": " ██ "}
    assert overlaps(found) == 0  # when the store gave it up the log does not say


def test_a_table_has_a_row_for_each_lane() -> None:
    found = history((1.0, "a", "acquired", ONE), (2.0, "b", "queued", {"position": 1}))
    lines = drawn(lanes_table(found, ["a", "b", "c"], 30), 30)
    assert lines == [
        "a           ██ holds 1",
        "b            ░ waits, 1 ahead",
        "c",
    ]
    assert drawn(lanes_table(NOTHING, ["a"], 30), 30) == ["a"]


def test_grants_that_exclude_each_other_and_overlap_are_counted() -> None:
    first = ((1.0, "a", "acquired", ONE), (3.0, "a", "released", ONE))
    after = ((3.0, "b", "acquired", TWO), (4.0, "b", "released", TWO))
    beside = ((2.9, "b", "acquired", TWO), (4.0, "b", "released", TWO))
    assert overlaps(history(*first, *after)) == 0
    assert overlaps(history(*sorted((*first, *beside), key=lambda line: line[0]))) == 1


def test_readers_may_hold_together_and_beside_a_writer_that_was_downgraded() -> None:
    lines: list[Line] = [
        (1.0, "a", "acquired", ONE),
        (2.0, "a", "downgraded", ONE),
        (2.1, "b", "acquired", {**TWO, **SHARED}),
        (3.0, "a", "released", ONE),
        (4.0, "b", "released", {**TWO, **SHARED}),
    ]
    assert overlaps(history(*lines)) == 0
    assert summary(history(*lines)).shared_at_once == 2
    lines[2] = (1.9, "b", "acquired", {**TWO, **SHARED})
    assert overlaps(history(*sorted(lines, key=lambda line: line[0]))) == 1
    writer: list[Line] = [(2.5, "c", "acquired", {"token": 3}), (2.6, "c", "released", {"token": 3})]
    assert overlaps(history(*sorted([*lines, *writer], key=lambda line: line[0]))) == 2
    assert summary(NOTHING).shared_at_once == overlaps(NOTHING) == 0
