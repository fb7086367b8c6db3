"""What the tests of stores share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def nothing_in_limbo() -> Iterator[None]:
    """Forget threads that were interrupted as they started and never ran: threading lists them for ever."""
    yield
    threading._limbo.clear()  # type: ignore[attr-defined]
