"""The examples run, in memory; on real servers they run in ``integration/test_docs.py``."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLES, ON_SERVERS_ONLY, example_on

IN_MEMORY = [path for path in EXAMPLES if path.name not in ON_SERVERS_ONLY]
SAYS = {
    "asynchronous.py": "token",
    "fencing.py": "is older than",
    "first.py": "nightly report published under token",
    "losing.py": "second page under token",
    "waiting.py": "it was free",
    "watching.py": '"event": "lock.acquired"',
}


@pytest.mark.parametrize("example", IN_MEMORY, ids=lambda path: str(path.name))
def test_it_runs_and_says_what_it_should(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = compile(example_on(example, f"memory://{uuid.uuid4().hex}"), example, "exec")
    exec(code, {"__name__": "__main__"})
    assert SAYS[example.name] in capsys.readouterr().out
