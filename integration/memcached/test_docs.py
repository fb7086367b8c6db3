"""The example of ``docs/stores/memcached.md``, on a Memcached."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from integration import servers
from tests.docs.pages import ROOT

PLACE = "memcached://127.0.0.1:11211/app"


def test_the_example_runs(
    memcached: servers.Memcached, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs/examples/memcached_lock.py").read_text()
    assert text.count(PLACE) == 1
    example = tmp_path / "example.py"
    example.write_text(text.replace(PLACE, memcached.url(prefix)))
    runpy.run_path(str(example))
    assert capsys.readouterr().out.startswith("one process at a time; token ")
