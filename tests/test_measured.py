"""Which tests may be run once more: those that measure, and those that failed for a late answer alone."""

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
    "integration/redlock/test_budget.py",
    "integration/test_cost.py",
    "integration/test_sqlite_crowd.py",  # not what counts there
    "integration/cli/test_looking.py",  # how long `who` takes on a crowd
    "integration/peers/test_table.py",  # what is said of other packages
    "integration/**/test_docs*.py",
    "integration/**/test_*_examples.py",
)
TESTS = """
import pytest

tried = {1: [], 2: [], 3: []}

def fails_so_often(times, of):
    of.append(1)
    assert len(of) > times, f"try {len(of)} of test {next(n for n in tried if tried[n] is of)}"

@pytest.mark.measured
def test_1():
    fails_so_often(1, tried[1])

@pytest.mark.measured
def test_2():
    fails_so_often(2, tried[2])

def test_3():
    fails_so_often(1, tried[3])
"""
TIMES = """
from tests.contract.timing import Timing

tried = []

class TestTiming(Timing):
    def test_fails_at_first(self):
        tried.append(1)
        assert len(tried) > 1, "this is how it failed"
"""


TOO_LATE = """
import os, pytest
from integration import lateness
from integration.harness import process
from recipes import LockLost, LockTimeout, SessionLost, StoreUnavailable

late, stood, leaves, tried = [0.0], [0.0], [], set()
lateness.put_off = lambda _="self": {"1": late[0]}
lateness.Pace.stood_s = lambda _, at_least_s: stood[0]

@pytest.fixture
def nothing_left():
    leaves.clear()
    stood[0] = 0.0
    yield
    assert not leaves, "left behind"

def unanswered():
    return StoreUnavailable("etcd://h", "no answer in time")

def raise_late_after_a_finding():
    try:
        assert not "two holders"
    finally:
        raise unanswered()

def raise_late_for_a_cause_after_a_finding():
    try:
        assert not "two holders"
    finally:
        try:
            raise TimeoutError("no answer in time")
        except TimeoutError as cause:
            raise unanswered() from cause

def at_first(late_s, fail):
    if fail not in tried:
        tried.add(fail)
        late[0] += late_s
        exec(fail)
"""
CASES = (
    (1.5, "raise unanswered()", {"RERUN"}),
    (1.5, "raise SessionLost('it was not renewed in time')", {"RERUN"}),
    (1.5, "raise StoreUnavailable('zk://h', 'nothing within 2 s')", {"RERUN"}),
    (1.5, "raise SessionLost('the server has ended the session')", {"RERUN"}),
    (1.5, "raise StoreUnavailable('redlock', '2 of 5 servers answered, and 3 have to')", {"RERUN"}),
    (1.5, "raise StoreUnavailable('redlock', '2 of 5 servers answered, too few to say')", {"RERUN"}),
    (0.0, "stood[0] = 1.5; raise unanswered()", {"RERUN"}),
    (0.0, "process._ended['a server'] = {'1': 1.5}; raise unanswered()", {"RERUN"}),
    (1.5, "raise ExceptionGroup('both', [unanswered(), unanswered()])", {"RERUN"}),
    (0.5, "raise unanswered()  # on a machine that is in time", {"FAILED"}),
    (1.5, "raise LockTimeout('x', 1.0)", {"FAILED"}),
    (1.5, "raise StoreUnavailable('etcd://h', 'what it sent is no whole reply')", {"FAILED"}),
    (1.5, "raise StoreUnavailable('redlock', '2 of 5 servers answered, and 3 have to; denied')", {"FAILED"}),
    (1.5, "raise LockLost('x', 1, 'its contender was removed from the store')", {"FAILED"}),
    (1.5, "raise ExceptionGroup('both', [unanswered(), AssertionError('two holders')])", {"FAILED"}),
    (1.5, "assert not 'two holders'", {"FAILED"}),
    (1.5, "raise_late_after_a_finding()", {"FAILED"}),
    (1.5, "raise_late_for_a_cause_after_a_finding()", {"FAILED"}),
    (1.5, "leaves.append(1)", {"ERROR"}),
    (1.5, "leaves.append(1); raise unanswered()", {"FAILED", "ERROR"}),
)
CASE = """
def test_{number}(nothing_left):
    at_first({late_s}, {fail!r})
"""


def test_only_tests_that_measure_are_marked() -> None:
    marked = {path for path in ROOT.glob("integration/**/*.py") if MARK in path.read_text()}
    allowed = {path for pattern in MAY for path in ROOT.glob(pattern)}
    assert marked <= allowed, f"{marked - allowed} may hide what it has found"


@pytest.mark.parametrize("beside", [(), ("-n", "1")], ids=["alone", "beside"])
def test_a_test_that_measures_is_run_once_more_and_the_end_tells(
    tmp_path: Path, beside: tuple[str, ...]
) -> None:
    ran = run(tmp_path, TESTS, *beside)
    assert " 2 failed, 1 passed, 2 rerun in " in ran, ran
    assert "rerun test summary info" in ran
    assert [told(ran, number) for number in (1, 2, 3)] == [{"RERUN"}, {"RERUN", "FAILED"}, {"FAILED"}]
    for failed in ("try 1 of test 1", "try 1 of test 2", "try 2 of test 2", "try 1 of test 3"):
        assert f"AssertionError: {failed}" in ran


def test_what_an_answer_came_too_late_for_is_run_once_more_if_the_machine_was_late(tmp_path: Path) -> None:
    tests = [CASE.format(number=n, late_s=late_s, fail=fail) for n, (late_s, fail, _) in enumerate(CASES)]
    ran = run(tmp_path, "".join((TOO_LATE, *tests)))
    for number, (late_s, fail, said) in enumerate(CASES):
        assert told(ran, number) == said, f"{fail}, {late_s} s late\n{ran}"
    assert ran.count("the test: 1.50 s") >= sum(late_s == 1.5 for late_s, _, _ in CASES), "it is shown"


def test_a_test_that_ends_its_process_fails_though_it_is_run_once_more(tmp_path: Path) -> None:
    crashes = "os.path.exists(f := __file__ + '.once') or open(f, 'w').close() or os._exit(3)"
    ran = run(tmp_path, TOO_LATE + CASE.format(number=0, late_s=1.5, fail=crashes), "-n", "1")
    assert " 1 failed, 1 passed in " in ran, ran


def test_how_long_a_call_may_take_is_measured_on_every_server(tmp_path: Path) -> None:
    ran = run(tmp_path, TIMES, "-k", "fails_at_first")
    assert " 1 passed, " in ran, ran
    assert " 1 rerun in " in ran, ran


def told(ran: str, number: int) -> set[str]:
    """Return what the summary says of this test; in CI the reason stands behind its name."""
    of_it = re.compile(rf"^(RERUN|FAILED|ERROR) \S*test_it\.py::test_{number}(?: - |$)", re.MULTILINE)
    return set(of_it.findall(ran))


def run(folder: Path, text: str, *options: str) -> str:
    """Return what pytest says of a file with this text among the tests on servers."""
    (folder / "test_it.py").write_text(text)
    always = ("-p", "integration.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "pytest", *always, *options, "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120).stdout
