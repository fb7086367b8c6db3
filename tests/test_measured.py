"""Which tests may be run once more when they fail: those that measure, and none that looks for flaws."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark.measured"
MAY = (
    "integration/test_bench.py",
    "integration/test_budget*.py",
    "integration/test_contract.py",  # one class of it
    "integration/test_cost.py",
    "integration/test_sqlite_crowd.py",  # not what counts there
    "integration/test_sqlite_timing.py",
    "integration/peers/test_table.py",  # what is said of other packages
    "integration/**/test_docs*.py",
    "integration/**/test_*_examples.py",
)
TEST = """
import pytest

tried = []

{mark}
def test_fails_at_first():
    tried.append(1)
    assert len(tried) > {fails}, "this is how it failed"
"""


def test_only_tests_that_measure_are_marked() -> None:
    marked = {path for path in ROOT.glob("integration/**/*.py") if MARK in path.read_text()}
    allowed = {path for pattern in MAY for path in ROOT.glob(pattern)}
    assert marked <= allowed, f"{marked - allowed} may hide what it has found"
    contract = (ROOT / "integration/test_contract.py").read_text()
    assert re.findall(rf"@{MARK}\n(class \w+)", contract) == ["class TestTiming"]
    assert contract.count(MARK) == 1


@pytest.mark.parametrize(
    ("mark", "fails", "said"),
    [
        ("@pytest.mark.measured", 1, "1 passed, 1 rerun"),
        ("@pytest.mark.measured", 2, "1 failed, 1 rerun"),
        ("", 1, "1 failed"),
    ],
)
@pytest.mark.parametrize("beside", [(), ("-n", "1")], ids=["alone", "beside"])
def test_a_test_that_measures_is_run_once_more_and_the_end_tells(
    tmp_path: Path, mark: str, fails: int, said: str, beside: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(mark=mark, fails=fails))
    options = ("-p", "integration.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "pytest", *options, *beside, "--rootdir", str(tmp_path), str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert f" {said} in " in ran.stdout, ran.stdout
    again = "rerun test summary info" in ran.stdout
    assert again is (mark != "")
    assert "this is how it failed" in ran.stdout
