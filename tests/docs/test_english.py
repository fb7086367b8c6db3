"""The pages use the field's words, and none of the phrases that have to be read twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

REFUSED = {
    "a clause without its subject": r"\bwhoever\b",
    "notify, report": r"\b(?:is|are|was|were|be|been|being) told\b|\btells? (?:of|it|you|that|nobody)\b",
    "receive": r"\bhears?\b",
    "blocking API, asyncio API": r"\b(?:the|both|either|each|blocking) faces?\b",
    "in production": r"\bin earnest\b",
    "use for display only": r"\bluck\b",
    "costly": r"\b(?:is|are|only|too) dear\b",
    "keepalive loop": r"\bkeepers?\b",
    "liveness lock": r"\blifelines?\b",
    "foreign contender": r"\bstrangers?\b",
}
"""What is not written, by what is written instead."""
OBSERVED = {"internals/results.md"}
"""Written by the programs that measure."""
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
READ = [page for page in PAGES if page.relative_to(ROOT).as_posix().removeprefix("docs/") not in OBSERVED]


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_english(page: Path) -> None:
    prose = CODE.sub("", page.read_text())
    found = {
        instead: prose[max(0, hit.start() - 40) : hit.end() + 20]
        for instead, words in REFUSED.items()
        if (hit := re.search(words, prose, re.IGNORECASE))
    }
    assert found == {}


@pytest.mark.parametrize("instead", REFUSED)
def test_what_is_refused_can_be_found(instead: str) -> None:
    wrong = "whoever is told by both faces in earnest: luck is dear, a keeper hears strangers and lifelines"
    assert re.search(REFUSED[instead], wrong)
