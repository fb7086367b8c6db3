"""The examples of the page on SQL databases, on a real server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from integration import servers
from tests.docs.pages import ROOT

PLACE = "app:secret@127.0.0.1:5432"


@pytest.mark.parametrize("example", ["sql_lock.py", "sql_lock_async.py", "sql_own_engine.py"])
def test_an_example_runs_on_the_database_it_names(example: str, postgres: servers.Postgres) -> None:
    text = (ROOT / "docs/examples" / example).read_text()
    assert text.count(PLACE) == 1
    text = text.replace(PLACE, f"app:app@{postgres.address}")
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "token" in done.stdout
    assert servers.eventually(lambda: "nightly" not in str(postgres.contenders()), 5)
