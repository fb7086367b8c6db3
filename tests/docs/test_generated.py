"""What the pages take from the code is what the code says now: ``python -m docs.generate`` writes it."""

from __future__ import annotations

import pytest

import recipes
from docs.generate.errors import SAMPLES
from docs.generate.modules import TOLD
from docs.generate.parts import PARTS, PICTURES, made, present
from recipes.cli.command import commands
from tests.docs.pages import ROOT
from tests.test_purity import ALLOWED


@pytest.mark.parametrize("name", [*PARTS, *PICTURES])
def test_it_is_up_to_date(name: str) -> None:
    assert present(name) == made(name), "write it anew: python -m docs.generate"


def test_every_command_is_told_of() -> None:
    told = made("commands")
    assert all(f"`recipes {name}" in told for name in commands())
    assert "--help" not in told


def test_every_error_that_is_raised_has_a_sample() -> None:
    raised = {
        name for name in recipes.__all__ if f"class {name}(" in (ROOT / "recipes/errors.py").read_text()
    }
    assert set(SAMPLES) == raised - {"RecipesError", "LockError", "StoreError"}


def test_the_picture_has_every_layer() -> None:
    assert set(TOLD) == {*ALLOWED, "clock"}
