"""The examples of ``howto/in-your-transaction.md`` and ``coming-from.md``, on a PostgreSQL."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from integration import servers
from integration.sql.places import by_cursor, plain
from recipes import sql
from tests.docs.pages import EXAMPLES

SAYS = {
    "sql_both.py": "held under both, token",
    "sql_guard.py": "a late writer is refused",
    "sql_locked.py": "another transaction has it; this transaction can go on",
    "sql_locked_async.py": "left: 2 token",
    "sql_locked_django.py": "left: 2 token",
}


@pytest.mark.parametrize("example", SAYS)
def test_an_example_runs(postgres: servers.Postgres, tmp_path: Path, example: str) -> None:
    with contextlib.closing(plain(postgres.url())) as connection:
        for statement in sql.schema("postgresql"):
            by_cursor(connection)(statement)
        connection.commit()
    (file,) = (path for path in EXAMPLES if path.name == example)
    text = file.read_text().replace("app:secret@", "app:app@").replace("127.0.0.1:5432", postgres.address)
    text = text.replace('"5432"', f'"{postgres.port}"').replace('"secret"', '"app"')
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[example] in done.stdout
