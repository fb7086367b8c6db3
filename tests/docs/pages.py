"""The pages of the documentation, and the examples they quote."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ADDING",
    "BY_A_SHELL",
    "EXAMPLES",
    "OF_FRAMEWORKS",
    "ON_FILES",
    "ON_ITS_STORE",
    "ON_OBJECTS",
    "ON_SERVERS_ONLY",
    "PAGES",
    "ROOT",
    "SHELL",
    "TESTS",
    "Block",
    "blocks",
    "commands",
    "example_on",
]

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ADDING = ROOT / "docs/internals/house.md"
"""A page whose blocks are no examples but steps, which `tests/docs/test_adding_a_recipe.py` takes."""
EXAMPLES = sorted(path for path in ROOT.glob("docs/examples/*") if path.is_file())
ON_SERVERS_ONLY = {
    "BesideCurator.java",
    "SharedLockDriver.java",
    "after_redis_py.py",
    "beside_etcdctl.sh",
    "beside_go.go",
    "beside_kazoo.py",
    "beside_kazoo_election.py",
    "beside_kazoo_readers.py",
    "beside_redis_py.py",
    "beside_redlock.py",
    "during_etcd3gw.py",
    "during_redis.py",
    "etcd_look.sh",
    "etcd_move.sh",
    "etcd_server.sh",
    "fencing_postgres.py",
    "fencing_redis.py",
    "guarding.py",
    "production_etcd.py",
    "production_role.sh",
    "production_zookeeper.py",
    "memcached_lock.py",
    "redis_lock.py",
    "redlock_lock.py",
    "redis_look.sh",
    "redis_own_client.py",
    "redis_user.sh",
    "sql_alembic.py",
    "sql_both.py",
    "sql_django_migration.py",
    "sql_guard.py",
    "sql_lock.py",
    "sql_locked.py",
    "sql_locked_async.py",
    "sql_locked_django.py",
    "sql_look.sql",
    "sql_own_engine.py",
    "sql_schema.sh",
    "sql_shedlock.py",
    "zookeeper_look.sh",
    "zookeeper_move.sh",
    "zookeeper_server.sh",
}
"""Run in ``integration`` alone: by its ``test_docs*.py``, in ``fleet``, ``fencing`` and ``credentials``."""
OF_FRAMEWORKS = {
    "jobs_apscheduler.py",
    "tasks_celery.py",
    "web_django.py",
    "web_fastapi.py",
    "web_gunicorn.py",
}
"""Run by ``tests/docs/test_frameworks.py``, each in a process of its own."""
ON_OBJECTS = {"fencing_objects.py"}
"""Run by ``tests/fencing/test_objects.py``, on a fake of an object store."""
ON_FILES = {
    "count_progress.py",
    "cron_once.py",
    "fence_column.py",
    "first.py",
    "first_asyncio.py",
    "first_await.py",
    "guarded_write.py",
    "leading_lifespan.py",
    "leading_scheduler.py",
    "loss_async.py",
    "loss_callback.py",
    "loss_steps.py",
    "members_alive.py",
    "members_async.py",
    "migrating.py",
    "on_one_machine.py",
    "ready_latch.py",
    "setting_async.py",
    "setting_watch.py",
    "workers.py",
}
"""Run on a file, as they say."""
ON_ITS_STORE = {
    "after_kazoo.py",
    "choosing.py",
    "count_progress.py",
    "cron_once.py",
    "fence_column.py",
    "first_asyncio.py",
    "guarded_write.py",
    "leading_lifespan.py",
    "leading_scheduler.py",
    "loss_async.py",
    "loss_callback.py",
    "loss_steps.py",
    "members_alive.py",
    "members_async.py",
    "migrating.py",
    "ready_latch.py",
    "setting_async.py",
    "setting_watch.py",
    "timeouts.py",
    "workers.py",
}
"""Run on the one store that they name, a server or a file; the others run on each."""
BY_A_SHELL = {"deploy_worker.py", "first_fenced.py", "first_lock.py", "first_race.py"}
"""Run by the examples of the command line that name them, as the reader has saved them."""
SHELL = {path.name for path in EXAMPLES if path.suffix == ".sh"} - ON_SERVERS_ONLY
"""Examples of the command line: run by a shell, on a file."""
TESTS = {path.name for path in EXAMPLES if path.name.startswith("test_")}
"""Examples of tests: run by pytest, and each brings its own store."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<file>\S+) -->\n)?^```(?P<language>\w*|\{[\w-]+\}[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_URL = re.compile(
    r"(?:etcd|zookeeper)://127\.0\.0\.1:\d+/app|sqlite://(?:/var/lib/app/locks|/tmp/app|\./locks)\.db"
)


@dataclass(frozen=True)
class Block:
    """A block of code on a page, and the file it says it is."""

    page: Path
    file: str | None
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page."""
    return [
        Block(page, found["file"], found["language"], found["text"])
        for found in _BLOCK.finditer(page.read_text())
    ]


def example_on(path: Path, url: str) -> str:
    """Return an example with its store's URL replaced."""
    text, replaced = _URL.subn(url, path.read_text())
    assert replaced == 1, f"{path.name} should name its store once"
    return text


def commands(folder: Path) -> dict[str, str]:
    """Make ``recipes`` and ``python`` in a folder, as if installed; returns the paths that lead there."""
    folder.mkdir()
    for name, arguments in {"recipes": ["-m", "recipes"], "python": []}.items():
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        command.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
