"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.foreground import as_in_the_foreground
from tests.heap import collected, pytest_collection, pytest_collection_finish  # noqa: F401 - for pytest

as_in_the_foreground()

# The same examples on every run, and no verdict by a clock: a slow machine is no failure.
settings.register_profile(
    "recipes",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("recipes"), max_examples=1_000, derandomize=False)
settings.load_profile("recipes")

if os.environ.get("RECIPES_TEST_MUTANT"):  # `nox -s mutants`: these tests have to fail
    from tests.mutants.planting import plant_for_good

    plant_for_good()
