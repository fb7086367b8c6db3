"""The example of ``docs/stores/redis.md``, on three Redis that start with it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from integration import servers
from tests.docs.pages import ROOT

PLACES = "127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381"


def test_the_example_runs(
    five: list[servers.Redis], prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs/examples/redlock_lock.py").read_text()
    assert text.count(PLACES) == text.count("/0/app") == 1
    text = text.replace(PLACES, ",".join(one.address for one in five[:3])).replace("/0/app", f"/0/{prefix}")
    example = tmp_path / "example.py"
    example.write_text(text)
    runpy.run_path(str(example))
    assert capsys.readouterr().out.startswith("one process at a time; token ")
