"""A process with an engine of the user's forks: parent and child use connections of their own."""

from __future__ import annotations

import json
import subprocess
import sys

from integration import servers


def test_fault_28_a_child_uses_the_engine_of_a_user(
    database: servers.Postgres | servers.MariaDb, tables: str
) -> None:
    """It used its parent's connections: each got answers that were for the other."""
    done = subprocess.run(
        [sys.executable, "-m", "integration.sql.forking", database.url(), tables],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = {one.pop("child"): one for one in map(json.loads, done.stdout.splitlines())}
    assert found[True].pop("used") > 0
    assert found[True] == {"shared": 0, "held": False}
    assert found[False] == {"held": True, "verified": True, "released": True}
