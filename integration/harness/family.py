"""How late the threads of a process are, and those of all that it started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.pace import put_off

__all__ = ["put_off_with_children"]


def put_off_with_children(process: int) -> dict[str, float]:
    """Return for how many seconds each thread of a process and all it started was ready and did not run."""
    return {f"{one}/{thread}": late_s for one in _family(process) for thread, late_s in put_off(one).items()}


def _family(process: int) -> Iterator[int]:
    """Yield a process and all that it started, as a database does for each connection."""
    yield process
    children: list[str] = []
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").glob("*/children"):
            children += thread.read_text().split()
    for child in children:
        yield from _family(int(child))
