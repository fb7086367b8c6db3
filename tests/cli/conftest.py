"""What several tests of the command need."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes.cli.demo.scenes import SCENES, SIDES, Numbers, State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the processes of the demonstration share."""
    for scene in SCENES.values():
        for side in SIDES:
            Numbers(tmp_path, scene, side).write(State(None, 0, list(scene.opening)))
    return tmp_path
