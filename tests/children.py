"""Processes that a test starts, and ends however it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["child"]


@contextmanager
def child(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a process while the block lasts, and wait for its end; if the block raises it is killed.

    `Popen` by itself waits, and so hides for ever what failed, if the process waits for the test.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
