"""The examples of ``docs/stores/sql.md``, on a PostgreSQL, and what the reference says of tables."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import recipes
from integration import servers
from integration.test_docs import python
from recipes import sql
from tests.docs.pages import ROOT, commands, example_on

EXAMPLES = ROOT / "docs/examples"
PLACE = "app:secret@127.0.0.1:5432/app"
PAGE = ROOT / "docs/reference/stores.md"
SAYS = {
    "sql_lock.py": "one process at a time; token",
    "sql_own_engine.py": "beside the lock: [(1,)] token",
    "sql_shedlock.py": "no Java service runs it; token",
}
EVERYTHING = ["counting.py", "electing.py", "inspecting.py", "permits.py", "sharing_values.py", "waiting.py"]
"""Examples of several recipes; together they read, write and delete in every table of the client's."""


@pytest.fixture
def empty(postgres: servers.Postgres) -> Iterator[str]:
    """Yield a database ``docs`` of the user ``app``, without tables: what follows ``postgresql://``."""
    with contextlib.closing(postgres.connect("postgres")) as connection:
        connection.execute("DROP DATABASE IF EXISTS docs WITH (FORCE)")
        connection.execute("CREATE DATABASE docs OWNER app")
        yield f"app:app@{postgres.address}/docs"
        connection.execute("DROP DATABASE docs WITH (FORCE)")


def tables(place: str) -> list[str]:
    """Return the tables of a database, and whether each is logged."""
    asked = (
        "SELECT concat(relname, ' ', relpersistence) FROM pg_class"
        " WHERE relname ~ '^recipes_' AND relkind = 'r'"
    )
    with psycopg.connect(f"postgresql://{place}") as connection:
        return sorted(name for (name,) in connection.execute(asked))


def on_the_page() -> set[str]:
    """Return the tables that the page lists."""
    rows = (line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `recipes_"))
    return {name for row in rows for name in row.replace("`", "").replace(",", " ").split()}


@pytest.mark.parametrize("example", SAYS)
def test_an_example_on_postgresql(empty: str, example: str) -> None:
    assert SAYS[example] in python((EXAMPLES / example).read_text().replace(PLACE, empty))


ALEMBIC = """
import runpy
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine

with create_engine("postgresql+psycopg://{place}").begin() as connection:
    with Operations.context(MigrationContext.configure(connection)):
        runpy.run_path({file!r})["upgrade"]()
"""
DJANGO = """
import django, runpy
from django.conf import settings

settings.configure(DATABASES={{"default": {{
    "ENGINE": "django.db.backends.postgresql",
    "HOST": "{host}", "PORT": "{port}", "NAME": "docs", "USER": "app", "PASSWORD": "app",
}}}})
django.setup()
from django.db import connection
from django.db.migrations.state import ProjectState

migration = runpy.run_path({file!r})["Migration"]("0001_recipes", "app")
with connection.schema_editor() as editor:
    migration.apply(ProjectState(), editor)
"""


@pytest.mark.parametrize(
    ("module", "file", "text"),
    [("alembic", "sql_alembic.py", ALEMBIC), ("django", "sql_django_migration.py", DJANGO)],
    ids=["alembic", "django"],
)
def test_a_migration_makes_the_tables(
    empty: str, postgres: servers.Postgres, module: str, file: str, text: str
) -> None:
    pytest.importorskip(module)
    place = {"place": empty, "host": postgres.host, "port": postgres.port}
    python(text.format(file=str(EXAMPLES / file), **place))
    _expect_tables(empty)


def test_the_command_prints_what_makes_the_tables(
    empty: str, postgres: servers.Postgres, tmp_path: Path
) -> None:
    env = os.environ | commands(tmp_path / "bin")
    text = (EXAMPLES / "sql_schema.sh").read_text().replace("5432", str(postgres.port))
    text = text.replace("dbname=app", "dbname=docs").replace("password=secret", "password=app")
    beside = postgres.programs / "psql"
    psql = str(beside) if beside.exists() else shutil.which("psql")
    assert psql is not None
    command = tmp_path / "bin" / "psql"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(psql)} "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _expect_tables(empty)


def _expect_tables(place: str) -> None:
    """Expect those that the page lists, all logged but one; and that a client needs no others."""
    names = sorted(on_the_page())
    assert tables(place) == [f"{name} {'u' if name == 'recipes_watch' else 'p'}" for name in names]
    with recipes.connect(f"postgresql://{place}") as client, client.lock("reports/nightly") as grant:
        assert grant.token


def test_the_statement_that_looks_shows_the_holder(empty: str) -> None:
    with (
        recipes.connect(f"postgresql://{empty}/here", create_tables=True, owner="nightly") as client,
        client.lock("reports/nightly") as grant,
        psycopg.connect(f"postgresql://{empty}") as connection,
    ):
        (row,) = connection.execute((EXAMPLES / "sql_look.sql").read_text()).fetchall()
        assert row[:2] == ("here:reports%2Fnightly", grant.token)
        assert "nightly" in row[2]
        (now,) = connection.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()
        assert 0 < row[3] - now <= 16e6


@pytest.fixture
def least(empty: str, postgres: servers.Postgres) -> Iterator[str]:
    """Yield the database for a user who may do no more than the page says."""
    with contextlib.closing(psycopg.connect(f"postgresql://{empty}", autocommit=True)) as owner:
        for statement in sql.schema("postgresql"):
            owner.execute(statement)
    with contextlib.closing(postgres.connect("docs")) as connection:
        connection.execute("CREATE ROLE least LOGIN PASSWORD 'least'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        for table in sorted(on_the_page()):
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO least")
    yield f"postgresql://least:least@{postgres.address}/docs/app"
    with contextlib.closing(postgres.connect("docs")) as connection:
        connection.execute("DROP OWNED BY least")
        connection.execute("DROP ROLE least")


def test_a_user_with_these_permissions_may_do_all_that_a_client_does(least: str, tmp_path: Path) -> None:
    for example in EVERYTHING:
        python(example_on(EXAMPLES / example, least), tmp_path)


def test_a_user_without_one_of_them_is_denied(least: str, postgres: servers.Postgres) -> None:
    with contextlib.closing(postgres.connect("docs")) as connection:
        connection.execute("REVOKE INSERT ON recipes_contender FROM least")
    with recipes.connect(least) as client, pytest.raises(recipes.StoreDenied):
        client.lock("reports").acquire(timeout=5)
