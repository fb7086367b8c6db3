"""Which tests may be run once more when they fail: those that measure, and what only came too late.

Whoever finds two holders, a lost write or a leftover has found a flaw, and is not asked again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark.measured"
MAY = (
    "integration/test_bench.py",
    "integration/test_budget*.py",
    "integration/test_cost.py",
    "integration/test_sqlite_crowd.py",  # not what counts there
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
LATE = """
import concurrent.futures
import pytest
import recipes

tried = []

def no_result(): concurrent.futures.Future().result(0.01)
def no_event(): raise TimeoutError
def no_lock(): raise recipes.LockTimeout('x', 5.0)
def no_answer(): raise recipes.StoreUnavailable('etcd://h', 'no answer in time')
def no_end(): assert False, 'still under way after 3 s'
def refused(): raise recipes.StoreUnavailable('etcd://h', 'refused')
def lost(): raise recipes.SessionLost('no answer in time')
def failed(): pytest.fail('still under way after 3 s')
def two_holders(): assert [] == ['two holders'], 'TimeoutError'
def two_holders_after_all():
    try:
        no_lock()
    finally:
        two_holders()

@pytest.mark.parametrize('how', [{hows}])
def test_fails_at_first(how):
    tried.append(how)
    if tried.count(how) <= {fails}:
        how()
"""
TOO_LATE = ("no_result", "no_event", "no_lock", "no_answer", "no_end")
WRONG = ("refused", "lost", "failed", "two_holders", "two_holders_after_all")
TIMES = """
from tests.contract.timing import Timing

tried = []

class TestTiming(Timing):
    def test_fails_at_first(self):
        tried.append(1)
        assert len(tried) > 1, "this is how it failed"
"""


def test_only_tests_that_measure_are_marked() -> None:
    marked = {path for path in ROOT.glob("integration/**/*.py") if MARK in path.read_text()}
    allowed = {path for pattern in MAY for path in ROOT.glob(pattern)}
    assert marked <= allowed, f"{marked - allowed} may hide what it has found"


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
    ran = run(tmp_path, TEST.format(mark=mark, fails=fails), *beside)
    assert f" {said} in " in ran, ran
    again = "rerun test summary info" in ran
    assert again is (mark != "")
    assert "this is how it failed" in ran


@pytest.mark.parametrize(("fails", "said"), [(1, "5 passed, 5 rerun"), (2, "5 failed, 5 rerun")])
def test_what_did_not_come_in_time_is_waited_for_once_more(tmp_path: Path, fails: int, said: str) -> None:
    ran = run(tmp_path, LATE.format(hows=", ".join(TOO_LATE), fails=fails))
    assert f" {said} in " in ran, ran


def test_what_is_wrong_is_not_asked_again(tmp_path: Path) -> None:
    ran = run(tmp_path, LATE.format(hows=", ".join(WRONG), fails=1))
    assert " 5 failed in " in ran, ran


def test_how_long_a_call_may_take_is_measured_on_every_server(tmp_path: Path) -> None:
    ran = run(tmp_path, TIMES, "-k", "fails_at_first")
    assert " 1 passed, " in ran, ran
    assert " 1 rerun in " in ran, ran


def run(folder: Path, text: str, *options: str) -> str:
    """Return what pytest says of a file with this text among the tests on servers."""
    (folder / "test_it.py").write_text(text)
    always = ("-p", "integration.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "pytest", *always, *options, "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120).stdout
