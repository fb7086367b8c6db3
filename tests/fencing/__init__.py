"""Gates: one suite for all, in ``contract.py``; a door is a resource behind a gate."""

import pytest

pytest.register_assert_rewrite("tests.fencing.contract")
