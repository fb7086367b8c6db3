"""The pages of the documentation, and the examples they quote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "EXAMPLES",
    "ON_FILES",
    "ON_OBJECTS",
    "ON_SERVERS_ONLY",
    "PAGES",
    "ROOT",
    "SHELL",
    "TESTS",
    "Block",
    "blocks",
    "example_on",
]

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(path for path in ROOT.glob("docs/examples/*") if path.is_file())
ON_SERVERS_ONLY = {
    "BesideCurator.java",
    "SharedLockDriver.java",
    "beside_etcdctl.sh",
    "beside_go.go",
    "beside_kazoo.py",
    "beside_kazoo_readers.py",
    "fencing_postgres.py",
    "fencing_postgres_async.py",
    "fencing_redis.py",
    "fencing_redis_async.py",
    "fencing_sqlalchemy_async.py",
    "guarding.py",
    "production_etcd.py",
    "production_role.sh",
    "production_zookeeper.py",
}
"""Run in ``integration`` alone: by ``test_docs.py``, in ``fleet``, ``fencing`` and ``credentials``."""
ON_OBJECTS = {"fencing_objects.py"}
"""Run by ``tests/fencing/test_objects.py``, on a fake of an object store."""
ON_FILES = {"first.py", "on_one_machine.py"}
"""Run on a file, as they say."""
SHELL = {path.name for path in EXAMPLES if path.suffix == ".sh"} - ON_SERVERS_ONLY
"""Examples of the command line: run by a shell, on a file."""
TESTS = {path.name for path in EXAMPLES if path.name.startswith("test_")}
"""Examples of tests: run by pytest, and each brings its own store."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<file>\S+) -->\n)?^```(?P<language>\w*|\{[\w-]+\}[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_URL = re.compile(r"(?:etcd|zookeeper)://127\.0\.0\.1:\d+/app|sqlite:///(?:var/lib/app/locks|tmp/app)\.db")


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
