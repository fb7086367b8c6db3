"""How tests are run that have to notice something: up to the first that fails, and none for ever."""

from __future__ import annotations

import os

__all__ = ["PYTEST", "used"]

HANGS_S = 60
PYTEST = (
    *("-p", "no:cacheprovider", "-q", "-x", "--no-header", "--tb=no", "-rfE", "-m", "not long"),
    *("-o", "timeout_method=signal", f"--timeout={HANGS_S}"),
)


def used() -> float:
    """Return the processor time of this process and those it started, in seconds."""
    return sum(os.times()[:4])
