"""The only clock of this package: time since boot, which counts suspended time too."""

from __future__ import annotations

import time

__all__ = ["boot_time"]

if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_time() -> float:
        """Return seconds since boot; never steps, and goes on while the machine sleeps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover - not Linux: the monotonic clock is the best there is

    def boot_time() -> float:
        """Return seconds of the monotonic clock; it may stand still while the machine sleeps."""
        return time.monotonic()
