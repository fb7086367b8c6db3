"""Puts one change into a copy of the working tree, and says what noticed it first.

Each run of tests is a fork of a process that has imported what the tests import from others, and
nothing of this tree: most of what a short run takes would be those imports.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.mutants.asking import PYTEST, used
from tests.mutation.choosing import Questions

__all__ = ["Copy", "Verdict", "warm"]

OTHERS = (
    "_hypothesis_pytestplugin",
    "pytest_timeout",
    "kazoo.client",
    "redis",
    "sqlalchemy",
    "etcd3gw",
    "h2",
)
TEST_S = 15.0
"""Processor time that a test may take: the longest take three, and a loop that never ends more."""
RUN_S = 240
"""Processor time for one run."""
WALL_S = 900.0
MEMORY = 4 << 30
CERTAIN = ("tests/rules", "tests/programs", "tests/stores/test_")
"""Tests without threads, sockets and clocks: what one says is not asked again."""
SCHEDULES = range(200)
FAULTY = 87
"""What a process ends with that could not ask."""
ADDED = "--import-mode=importlib"
ALREADY = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"


@dataclass(slots=True)
class Verdict:
    """What noticed a change first: a test, a schedule, or nothing; and the processor time that this took."""

    by: str = ""
    seconds: float = 0.0


def warm() -> None:
    """Import what the tests need of others."""
    for name in OTHERS:
        with suppress(ImportError):
            importlib.import_module(name)


class Copy:
    """A copy of the working tree, in which one module at a time is changed."""

    def __init__(self, root: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutation-")
        self.at = Path(self._folder.name) / "tree"
        self._asked: set[str] = set()
        listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, subprocess.check_output(listed, cwd=root, text=True).split("\0")):
            if (root / name).is_file():
                (self.at / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.at / name)

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()

    def judge(self, path: str, code: str, asked: Questions) -> Verdict:
        """Say what notices this code in place of a module's own."""
        began = used()
        original = (self.at / path).read_text(encoding="utf-8")
        by = next(filter(None, self._lookers(path, original, code, asked)), "")
        self._write(path, original)
        return Verdict(by, round(used() - began, 1))

    def _lookers(self, path: str, original: str, code: str, asked: Questions) -> Iterator[str]:
        self._write(path, code)
        for tests in asked.tests:
            by = self._run(partial(_tests, tests))
            yield "" if by and self._by_chance(path, original, code, by) else by
        for store in asked.stores:
            yield self._run(partial(_schedules, store, asked.of))

    def _by_chance(self, path: str, original: str, code: str, by: str) -> str:
        """Ask a test that failed once more without the change: one of each file, or any that has a clock."""
        file, found, _ = by.partition("::")
        if not found or file in self._asked:
            return ""
        if by.startswith(CERTAIN):
            self._asked.add(file)
        self._write(path, original)
        failed = self._run(partial(_tests, (by,)))
        self._write(path, code)
        return failed

    def _write(self, path: str, code: str) -> None:
        """Replace a module, and what Python has compiled: it tells versions apart by their seconds."""
        module = self.at / path
        module.write_text(code, encoding="utf-8")
        for stale in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
            stale.unlink()

    def _run(self, ask: Any) -> str:
        """Run something in a process of its own, and return what it said; what it died of if it did."""
        said = self.at.parent / "said"
        said.unlink(missing_ok=True)
        pid = os.fork()
        if not pid:
            try:
                _settle(self.at)
                said.write_text(ask())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(FAULTY)
        status = _waited(pid)
        if status == FAULTY:
            raise AssertionError(f"these tests did not run: {ask}\n{(self.at.parent / 'output').read_text()}")
        return said.read_text() if status == 0 else f"the run ended with {status}"


def _waited(pid: int) -> int:
    """Wait for a process, and end it and what it started when it has had its time."""
    by = time.monotonic() + WALL_S
    while time.monotonic() < by:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _settle(at: Path) -> None:
    """Have this process belong to the copy: its modules, its folder, and the limits of what it may use."""
    os.setsid()
    os.chdir(at)
    os.environ["PYTHONPATH"] = str(at)
    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("recipes", "tests", "integration")
    ]:
        del sys.modules[name]
    sys.path.insert(0, str(at))
    nowhere = os.open(at.parent / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for standard in (1, 2):
        os.dup2(nowhere, standard)
    resource.setrlimit(resource.RLIMIT_CPU, (RUN_S, RUN_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _tests(tests: tuple[str, ...]) -> str:
    first = First()
    some = ("-p", "no:xdist", "-p", "no:rerunfailures", "-o", f"addopts={ADDED}", "-W", ALREADY)
    code = pytest.main([*PYTEST, *some, "-m", "not long and not measured", *tests], plugins=[first])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not first.failed:
        raise AssertionError(f"pytest ended with {code!r}")
    return first.failed


def _schedules(store: str, of: str) -> str:
    from tests.mutants.looking import sample

    try:
        found = sample(store, of, SCHEDULES)
    except Exception as error:
        found = repr(error)
    return f"simulation of {store}: {found}" if found else ""


class First:
    """The first test that failed. One that never ends fails, and Hypothesis looks for no smaller example."""

    def __init__(self) -> None:
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        first = settings(settings.default, phases=[Phase.explicit, Phase.generate])
        settings.register_profile("first", first)
        settings.load_profile("first")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Any:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, TEST_S, 1.0)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid} (is not imported)"


def _too_long(*_: Any) -> None:
    pytest.fail(f"{TEST_S} s of processor time")
