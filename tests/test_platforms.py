"""Platforms that lack what Linux has, simulated: what can be imported there, and what is refused and how."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITHOUT_FCNTL = """
import sys
for name in ("fcntl", "termios", "pwd", "grp", "resource"):
    sys.modules[name] = None  # importing it is an ImportError
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FCNTL + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_fcntl_the_package_works_but_for_files() -> None:
    said = run(
        """
import recipes, recipes.telemetry, recipes.testing
with recipes.connect("memory://") as client, client.lock("x") as grant:
    print(grant.held)
for url in ("etcd://h", "zookeeper://h", "redis://h"):
    recipes.connect(url)
try:
    recipes.connect("sqlite:////tmp/locks.db").open()
except recipes.StoreRefused as error:
    print(error)
"""
    )
    held, refused = said.splitlines()
    assert held == "True"
    assert "this platform has no fcntl" in refused


def test_without_fcntl_all_gates_but_that_of_files_are_there() -> None:
    said = run(
        """
from recipes import fencing
fencing.SqlGate("fences")
fencing.MemoryGate()
try:
    fencing.FileGate("catalog.json")
except NotImplementedError as error:
    print(error)
"""
    )
    assert said.startswith("this platform has no fcntl, with which FileGate locks its file; use SqlGate")


def test_without_termios_the_commands_that_run_none_of_yours_are_there() -> None:
    said = run(
        """
import click
from recipes.cli.command import root
for name in ("ls", "who", "get", "set", "ping", "timeline"):
    assert root.get_command(click.Context(root), name) is not None
print("all")
"""
    )
    assert said == "all\n"


def test_what_runs_commands_says_that_it_needs_linux() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import signal, sys
for name in ("SIGRTMIN", "SIGRTMAX"):
    delattr(signal, name)
sys.platform = "darwin"
from recipes.cli import main
sys.exit(main(["run", "x", "--store", "etcd://127.0.0.1:1/x", "--", "true"]))
""",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 125
    assert "this command needs Linux" in done.stderr


def test_no_statement_of_sqlite_numbers_its_parameters() -> None:
    """Python 3.12.0 to 3.12.3 take ``?1`` for a name, and warn."""
    folder = ROOT / "recipes" / "stores" / "sqlite"
    sources = {path.name: path.read_text() for path in folder.glob("*.py")}
    assert sources
    assert [name for name, source in sources.items() if re.search(r"\?\d", source)] == []
