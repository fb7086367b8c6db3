"""A program that gevent patches, on real servers: see ``tests/run/test_green.py``."""

from __future__ import annotations

import subprocess
import sys


def test_a_program_under_gevent_holds_and_waits(url: str) -> None:
    program = [sys.executable, "-m", "tests.run.greenlets", url]
    said = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert said.stdout == "granted\n", said.stderr
