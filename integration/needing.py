"""What a test cannot do without: it is skipped, loudly; in CI it fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from integration.harness.process import ServerUnavailable

__all__ = ["needed"]

T = TypeVar("T")


def needed(what: str, make: Callable[[], T]) -> T:
    """Return what ``make`` makes; if that cannot be had here, end the test."""
    try:
        return make()
    except ServerUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is needed in CI: {reason}")
        pytest.skip(f"NOT TESTED, for want of {what}: {reason}")
