"""Labs for tests that are alone, and what was measured, told at the end of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.faults.actors import FACES
from integration.faults.labs import Lab

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return what notes a measured figure."""
    notes = request.config.stash.setdefault(FIGURES, [])
    name = request.node.name
    return lambda text: notes.append(f"{name} {text}")


@pytest.fixture(params=FACES)
def lab(
    request: pytest.FixtureRequest, server: servers.Server, prefix: str, figure: Callable[[str], None]
) -> Iterator[Lab]:
    """Yield a lab for a test that has to be alone in the process, for each face in turn."""
    with Lab(server, prefix, request.param, figure, threading.Barrier(1)) as one:
        yield one


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell what was measured."""
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
