"""The documentation stays short enough to be read, and its code fits beside the sidebar."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

MOST_PAGES = 40
MOST_WORDS = 34_250
MOST_ON_A_PAGE = 1_800
WIDEST = 92
"""Characters of code that fit on the page, on a screen of 1 280 pixels."""
TOCTREE = re.compile(r"^```\{toctree\}.*?^```$", re.MULTILINE | re.DOTALL)
RESULTS = {
    "internals/peers.md",
    "internals/proof.md",
    "internals/results.md",
    "internals/sharing.md",
    "internals/simulation.md",
}
"""What was observed, measured and proved: not counted, and as long as it has to be."""
LONGER = {"cli.md"}
"""Longer than others: a reference."""
WIDER = {"internals/house.md", "reference/errors.md"}
"""Whose code is the package's own, or what it prints."""
COUNTED = [
    page for page in sorted(ROOT.glob("docs/**/*.md")) if str(page.relative_to(ROOT / "docs")) not in RESULTS
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT / "docs"))


def words(page: Path) -> int:
    """Count the words of a page, its tables and code among them, and the list of all pages not."""
    return len(TOCTREE.sub("", page.read_text()).split())


def test_there_are_not_more_pages_than_one_can_look_through() -> None:
    assert len(COUNTED) <= MOST_PAGES


def test_all_of_it_can_be_read_in_an_afternoon() -> None:
    assert sum(map(words, COUNTED)) <= MOST_WORDS


@pytest.mark.parametrize("page", COUNTED, ids=name)
def test_a_page_can_be_read_in_one_sitting(page: Path) -> None:
    assert name(page) in LONGER or words(page) <= MOST_ON_A_PAGE


@pytest.mark.parametrize("page", [page for page in COUNTED if name(page) not in WIDER], ids=name)
def test_code_fits_on_the_screen(page: Path) -> None:
    for block in blocks(page):
        wide = [line for line in block.text.splitlines() if len(line) > WIDEST]
        assert not wide, f"{block.file}: {wide[0]}"
