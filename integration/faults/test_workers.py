"""The handle on a process does what the fault tests take for granted."""

from __future__ import annotations

from pathlib import Path

from integration.faults.workers import Worker

TIMES = 20


def test_a_process_is_continued_by_its_main_thread(tmp_path: Path) -> None:
    """Else it may answer before its handler has run."""
    seen = tmp_path / "seen"
    with Worker("faults.continued", seen) as worker:
        for number in range(TIMES):
            worker.stop()
            worker.go_on()
            assert worker.ask(number) == [number]
            assert seen.read_text().count("most recent call first") == number + 1
        assert " in nap" not in seen.read_text()
