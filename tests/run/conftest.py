from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def sessions_may_be_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests end sessions as soon as they began, and go on with the next; see test_keep."""
    monkeypatch.setattr("recipes._programs.session.STILLBORN_S", 0.0)
