"""The pictures of the concepts are what the command makes of the package as it is."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from recipes._rules.exclusive import EXCLUSIVE
from tests.docs.pages import PAGES, ROOT
from tests.docs.pictures import PICTURES
from tests.docs.pictures.queues import EVERYBODY_AHEAD, woken
from tests.docs.pictures.session import edges

AGAIN = "python -m tests.docs.pictures docs/images"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_command_makes(name: str) -> None:
    drawn = PICTURES[name]()
    ET.fromstring(drawn)
    assert (ROOT / "docs/images" / name).read_text() == drawn, f"make it again: {AGAIN}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_shown_on_a_page(name: str) -> None:
    assert any(f"images/{name})" in page.read_text() for page in PAGES)


def test_what_was_lost_is_never_held_again() -> None:
    found = edges()
    assert {after for before, after in found if before == "lost"} == {"starting"}
    assert {before for before, after in found if after == "held"} == {"starting", "suspect", "held"}
    assert all(
        step.events == ("session.lost", "lock.lost")
        for ends in found
        if ends[1] == "lost"
        for step in found[ends]
    )


def test_the_table_of_the_herd_is_what_was_counted() -> None:
    page = (ROOT / "docs/internals/protocols.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) \| ([\d,]+) \|$", page, re.MULTILINE)
    told = [tuple(int(cell.replace(",", "")) for cell in row) for row in rows]
    assert [waiters for waiters, *_ in told] == [1, 2, 10, 100]
    assert told == [
        (waiters, woken(EXCLUSIVE, waiters), woken(EVERYBODY_AHEAD, waiters)) for waiters, *_ in told
    ]
