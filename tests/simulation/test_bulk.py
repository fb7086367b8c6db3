"""Long runs are kept as they go, and go on where they ended."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.simulation import bulk
from tests.simulation.__main__ import Tally, chunk


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bulk, "EVERY", 4)
    monkeypatch.setattr(bulk, "commit", lambda: "abc")
    return tmp_path / "tally.jsonl"


def go(out: Path, count: int) -> int:
    some = partial(chunk, "etcd")
    return bulk.run(out, Tally("etcd"), range(count), some, jobs=1, recipe="locks")


def test_a_run_goes_on_where_the_last_ended(out: Path) -> None:
    for count in (4, 10, 10):
        assert go(out, count) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["first"], line["upto"]) for line in lines] == [(0, 4), (4, 8), (8, 10)]
    (part,) = bulk.added_up([out])
    whole = chunk("etcd", 0, 10)
    assert (part.schedules, part.requests, part.grants) == (10, whole.requests, whole.grants)
    assert part.faults == whole.faults
    assert part.counted == whole.counted


def test_what_was_cut_off_or_run_twice_counts_once(out: Path) -> None:
    go(out, 4)
    text = out.read_text()
    out.write_text(text + text + text[:40])
    (part,) = bulk.added_up([out, out])
    assert part.schedules == 4
    assert f"| etcd | locks | 0 | 4 | {part.counted} |" in bulk.table([part.numbers()])


def test_sums_of_other_commits_stay(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.json"
    sums = []
    for commit, count in (("abc", 4), ("def", 4), ("def", 8)):
        monkeypatch.setattr(bulk, "commit", lambda commit=commit: commit)
        go(out, count)
        bulk.keep(kept, [part.numbers() for part in bulk.added_up([out]) if part.commit == commit])
        sums = [(part["commit"], part["first"], part["schedules"]) for part in json.loads(kept.read_text())]
    assert sums == [("abc", 0, 4), ("def", 0, 8)]
