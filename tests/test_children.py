"""A process that a test has started does not hold the test up when it fails."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.children import child
from tests.pace import taking

ASKS = [sys.executable, "-c", "print('here', flush=True); input()"]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def test_it_is_killed_when_the_test_fails() -> None:
    started = []

    def fails() -> None:
        with child(ASKS, **PIPES) as process:
            started.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"

    with taking(60), pytest.raises(AssertionError, match="there"):
        fails()
    assert started[0].returncode == -signal.SIGKILL


def test_it_comes_to_its_end_when_the_test_does_not() -> None:
    with child(ASKS, **PIPES) as process:
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
