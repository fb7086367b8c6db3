"""Faults on real servers: each test is a row of the fault matrix (see integration/README.md)."""

import os

if _without := os.environ.get("RECIPES_TEST_WITHOUT"):
    from integration.faults.without import take_out

    take_out(_without)
