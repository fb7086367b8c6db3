"""The only clock of this package: time since boot, which counts suspended time too."""

from __future__ import annotations

import sys
import time

__all__ = ["boot_time"]

if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_time() -> float:
        """Return seconds since boot; never steps, and goes on while the machine sleeps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":  # pragma: no cover - macOS, whose time.monotonic() stands still in sleep

    def boot_time() -> float:
        """Return seconds of macOS's raw monotonic clock, which also goes on while the machine sleeps."""
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:  # pragma: no cover - neither: the monotonic clock is the best there is

    def boot_time() -> float:
        """Return seconds of the monotonic clock; it may stand still while the machine sleeps."""
        return time.monotonic()
