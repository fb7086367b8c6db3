"""A test that counts is run again only where the machine did not keep pace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests

ROOT = Path(tests.__file__).parents[1]
TEST = """
import pytest
from pathlib import Path
from tests import pace, starved

class Late(pace.Pace):
    def late_s(self, since=None, until=None):
        return {late_s}

starved.Pace = Late
tried = Path(__file__).with_name("tried")

@pytest.fixture
def made():
    tried.touch()
    tried.write_text(tried.read_text() + "x")

{mark}
def test_fails_at_first(made):
    assert len(tried.read_text()) > {fails}
"""


@pytest.mark.parametrize(
    ("given", "tries", "passes"),
    [
        ((1.0, 0, "@pytest.mark.counts"), 1, True),
        ((1.0, 1, "@pytest.mark.counts"), 2, True),
        ((1.0, 2, "@pytest.mark.counts"), 3, True),
        ((1.0, 3, "@pytest.mark.counts"), 3, False),
        ((0.1, 1, "@pytest.mark.counts"), 1, False),
        ((1.0, 1, ""), 1, False),
    ],
)
def test_again_where_it_is_due(
    tmp_path: Path, given: tuple[float, int, str], tries: int, passes: bool
) -> None:
    late_s, fails, mark = given
    (tmp_path / "test_it.py").write_text(TEST.format(late_s=late_s, fails=fails, mark=mark))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = counts: counts\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.starved",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert len((tmp_path / "tried").read_text()) == tries, ran.stdout
    assert (ran.returncode == 0) is passes, ran.stdout
    assert ("1 passed" if passes else "1 failed") in ran.stdout
