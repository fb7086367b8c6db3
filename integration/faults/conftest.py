"""Labs for tests that are alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.faults.actors import APIS
from integration.faults.labs import Lab


@pytest.fixture(params=APIS)
def lab(
    request: pytest.FixtureRequest, server: servers.Server, prefix: str, figure: Callable[[str], None]
) -> Iterator[Lab]:
    """Yield a lab for a test that has to be alone in the process, for each API in turn."""
    with Lab(server, prefix, request.param, figure, threading.Barrier(1)) as one:
        yield one
