"""What a run has once its tests are collected stays until its end: no garbage is to be looked for in it."""

from __future__ import annotations

import gc

__all__ = ["pytest_collection_finish"]


def pytest_collection_finish() -> None:
    """Leave out of all later collections what is there: with thousands of tests each takes a second."""
    gc.collect()
    gc.freeze()
