"""What every store must show, in both APIs: one suite, run on each.

Each module holds one class of tests; ``tests/contract/test_memory.py`` runs them on the
store in memory, ``integration/test_contract.py`` on real servers: so the fake is verified.
"""

import pytest

MODULES = (
    "exclusion",
    "hanging",
    "inspecting",
    "interrupts",
    "listing",
    "manners",
    "multilock",
    "naming",
    "observing",
    "partitions",
    "permits",
    "reentry",
    "sessions",
    "foreign",
    "telling",
    "timing",
    "values",
    "waiting",
    "apis",
    "tap",
    "world",
)

pytest.register_assert_rewrite(*(f"tests.contract.{module}" for module in MODULES))
