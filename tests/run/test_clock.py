from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes._run import clock
from recipes._run.runtime import Runtime

ROOT = Path(__file__).parents[2]
DAY_S = 86_400


def test_fault_24_the_clock_is_the_one_that_counts_suspended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def clock_gettime(which: int) -> float:
        asked.append(which)
        return 12.5

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    assert clock.boot_time() == Runtime.now() == 12.5
    assert asked == [time.CLOCK_BOOTTIME] * 2


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="NOT TESTED: a time namespace needs root, and `unshare`",
)
def test_fault_24_after_a_day_of_suspend_a_day_has_gone_by() -> None:
    """In a namespace where only the time since boot is a day later, as it is after a suspend."""
    show = "import time; from recipes._run.clock import boot_time; print(boot_time() - time.monotonic())"
    apart = []
    for day in (0, DAY_S):
        command = ["unshare", "--time", "--fork", f"--boottime={day}", sys.executable, "-c", show]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode and "unshare" in done.stderr:
            pytest.skip(f"NOT TESTED: {done.stderr}")
        apart.append(float(done.stdout))
    assert DAY_S - 5 < apart[1] - apart[0] < DAY_S + 5


@pytest.mark.parametrize("module", ["recipes._run.clock", "recipes.cli.running.guard"])
@pytest.mark.parametrize(
    ("platform", "name"), [("darwin", "CLOCK_MONOTONIC_RAW"), ("freebsd", "CLOCK_MONOTONIC")]
)
def test_without_a_clock_of_the_time_since_boot_the_next_best_is_read(
    platform: str, name: str, module: str
) -> None:
    """Simulated: Linux has all of them, and no test runs on macOS."""
    program = f"""
import sys, time
del time.CLOCK_BOOTTIME
sys.platform = {platform!r}
from {module} import boot_time
before, found, after = time.clock_gettime(time.{name}), boot_time(), time.clock_gettime(time.{name})
assert before <= found <= after, (before, found, after)
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
