"""What is imported at start-up; which takes the time, and does not depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recipes

ENGINES = {"etcd3gw", "h11", "hpack", "kazoo", "pymemcache", "redis", "requests", "sqlalchemy", "urllib3"}
SLOW = {"asyncio", "multiprocessing", "rich", "ssl", "structlog", "tenacity"}
"""Each takes as long to import as a command takes that needs none of it."""


def loaded_by(*lines: str) -> set[str]:
    """The modules that a fresh interpreter loads to run these lines."""
    code = [
        "import json, sys",
        "before = set(sys.modules)",  # a .pth file may have loaded some
        *lines,
        "print('\\n' + json.dumps(sorted(set(sys.modules) - before)))",
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(recipes.__file__).parent.parent,
        timeout=180,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(*words: Any) -> tuple[str, ...]:
    return "from recipes.cli import main", f"assert main({[str(word) for word in words]!r}) == 0"


def roots(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if roots({name}) == {"recipes"}}


def test_import_recipes_loads_nothing_that_is_not_used() -> None:
    loaded = loaded_by("import recipes")
    assert ours(loaded) == {"recipes", "recipes._version"}
    assert not roots(loaded) & (ENGINES | SLOW | {"dataclasses", "inspect", "logging", "threading"})


@pytest.mark.parametrize("url", ["etcd://h/app", "etcd+grpc://h/app", "memory://", "sqlite:///tmp/app.db"])
def test_connect_loads_no_engine_and_nothing_slow(url: str) -> None:
    assert not roots(loaded_by(f"import recipes; recipes.connect({url!r})")) & (ENGINES | SLOW)


@pytest.mark.parametrize("url", ["postgresql://app@host/app", "mysql://app@host/app"])
def test_a_blocking_client_of_a_database_loads_no_orm(url: str) -> None:
    loaded = loaded_by(f"import recipes; recipes.connect({url!r})")
    assert "sqlalchemy.engine" in loaded
    assert not loaded & {"sqlalchemy.orm", "sqlalchemy.ext.asyncio"}


def test_grpc_loads_neither_http_nor_tls() -> None:
    loaded = loaded_by(
        "import recipes", "recipes.connect('etcd+grpc://h/app')._runtime.backend.connection(print)"
    )
    assert not roots(loaded) & (ENGINES | SLOW) - {"hpack"}
    assert not {"recipes.stores.etcd.gateway", "recipes.stores.tls_files"} & loaded


def test_fencing_loads_no_client() -> None:
    loaded = loaded_by("from recipes import fencing")
    assert not loaded & {"recipes.client", "recipes.lock", "recipes._run.runtime"}
    assert not roots(loaded) & (ENGINES | SLOW)


def test_help_loads_no_subcommand() -> None:
    loaded = loaded_by(*command("--help"))
    cli = {"recipes.cli", "recipes.cli.codes", "recipes.cli.command"}
    assert ours(loaded) == {"recipes", "recipes._version"} | cli
    assert not roots(loaded) & (ENGINES | SLOW | {"json", "sqlite3", "subprocess"})


def test_ls_on_sqlite_loads_what_it_asks_with(tmp_path: Path) -> None:
    loaded = loaded_by(*command("ls", "--store", f"sqlite://{tmp_path}/app.db"))
    assert not roots(loaded) & (ENGINES | SLOW | {"subprocess"})
    assert not {name for name in ours(loaded) if name.startswith("recipes.cli.running")}


def test_run_on_sqlite_loads_what_it_runs_with(tmp_path: Path) -> None:
    loaded = loaded_by(*command("run", "--try", "x", "--store", f"sqlite://{tmp_path}/app.db", "--", "true"))
    assert not roots(loaded) & (ENGINES | SLOW)
    assert not {name for name in ours(loaded) if name.startswith(("recipes.cli.looking", "recipes.cli.demo"))}
