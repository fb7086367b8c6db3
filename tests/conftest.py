"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples on every run, and no verdict by a clock: a slow machine is no failure.
settings.register_profile(
    "recipes",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("recipes")
