"""Tests that a page names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_named_exist(page: Path) -> None:
    for line in page.read_text().splitlines():
        file = ""
        for named, name in re.findall(r"`((?:tests|integration)/[\w./-]+\.py|)::([\w*]+)`", line):
            file = named or file
            source = (ROOT / file).read_text()
            pattern = name.replace("*", r"\w*")
            assert re.search(rf"def {pattern}\(", source), f"{file}::{name} on {page.name}"


def test_peers_page_names_tests() -> None:
    assert len(re.findall(r"`[^`]*::test_\w+`", (ROOT / "docs/internals/peers.md").read_text())) > 50
