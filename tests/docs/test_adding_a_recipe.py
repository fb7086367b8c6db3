"""The page that says how a recipe is added, followed word by word in a copy of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recipes
from tests.docs.pages import ADDING, Block, blocks

NEW = {"recipes/_rules/pair.py", "recipes/pair.py", "use.py"}
CHANGED = {"recipes/client.py", "recipes/events.py"}
SAID = "two hold: True - a third: None\nand in asyncio a third: None\n"


def follow(block: Block, root: Path) -> None:
    """Do what a block says: make its file, or add its lines to what is there."""
    assert block.file is not None, f"this block names no file:\n{block.text}"
    file = root / block.file
    if block.language == "diff":
        for part in block.text.rstrip("\n").split("\n\n"):
            add(part.split("\n"), file)
    else:
        assert not file.exists(), f"{block.file} should be new"
        file.write_text(block.text)


def add(lines: list[str], file: Path) -> None:
    """Add the lines with a plus beside those without, which have to be there once."""
    there = "".join(f"{line[1:]}\n" for line in lines if line[0] == " ")
    text = file.read_text()
    assert text.count(f"\n{there}") == 1, f"{file.name} should have this once:\n{there}"
    file.write_text(text.replace(there, "".join(f"{line[1:]}\n" for line in lines)))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package."""
    ours = Path(recipes.__file__).parent
    shutil.copytree(ours, tmp_path / "recipes", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_recipe_is_added_as_the_page_says(copy: Path) -> None:
    told = blocks(ADDING)
    assert {block.file for block in told} == NEW | CHANGED
    for block in told:
        follow(block, copy)
    done = subprocess.run(
        [sys.executable, "use.py"], cwd=copy, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == (SAID, "")


def test_the_recipe_of_the_page_is_two_files_and_a_line_each_elsewhere() -> None:
    sizes = {block.file: block.text for block in blocks(ADDING)}
    assert all(len(sizes[file].splitlines()) <= 150 for file in NEW)
    added = [line for file in CHANGED for line in sizes[file].splitlines() if line.startswith("+")]
    assert len(added) == 4
    assert not any(file.startswith("recipes/stores") for file in NEW | CHANGED)
