"""What a run has once its tests are collected stays until its end: no garbage is to be looked for in it."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator

import pytest

__all__ = ["INTERRUPTED", "collected", "pytest_collection", "pytest_collection_finish"]

INTERRUPTED = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collected"),
]
"""The marks of a test that interrupts: what nobody got is closed as it is dropped, and Python warns of that.

A generator that is dropped hears an interrupt too, and nobody is notified of that.
"""


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect what interrupts have left here, where it is filtered, and not amid another test."""
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: there is next to none, and it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave out of all later collections what is there: with thousands of tests each takes a second."""
    gc.collect()
    gc.freeze()
